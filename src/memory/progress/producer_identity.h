#pragma once

#include <cstdint>
#include <optional>

#include "core/result.h"
#include "memory/progress/pool_directory.h"
#include "memory/progress/pool_producer.h"

namespace tributary::memory {

/// A number for a producer of a job; that of another one may come out.
[[nodiscard]] std::uint16_t draw_process(const PoolJob& job);
/// Later processes have higher ones, so that a number may be used again.
[[nodiscard]] std::uint32_t incarnation_now();
/// Why a producer is none for the job; null when it is.
[[nodiscard]] std::optional<Refusal> find_fault(const PoolProducerOptions& options,
                                                const PoolJob& job);

}  // namespace tributary::memory
