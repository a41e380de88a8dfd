#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

[[nodiscard]] std::string_view name_of(Engine engine);
/// The engine of a name of name_of(); none when there is no such one.
[[nodiscard]] std::optional<Engine> find_engine(std::string_view name);

/// This process, as a reader.
struct Reader {
  std::uint16_t process = 0;
  Digest host_id{};
};
/// How far the owner of a segment is away.
[[nodiscard]] Reach distance_to(const SegmentRow& row, const Reader& reader);
/// The engines that may read such a segment, best first; empty when none can.
[[nodiscard]] std::span<const Engine> preferred_engines(Reach distance, Tier tier);

/// The object that every owner seals first: 64 KiB that differ between processes.
[[nodiscard]] std::vector<std::byte> probe_pattern(std::uint16_t process);
/// Reads that object once over a link of its own, and waits for it.
///
/// errors: kCorrupt when other bytes came; kBackend when the engine cannot connect
[[nodiscard]] Status probe_engine(Transport& engine, const SegmentRow& row,
                                  const ObjectHandle& pattern, TimePoint deadline);

struct EngineChoice {
  Transport* engine = nullptr;
  std::string passed_over;  // why not a better open one: `memfd: not offered by the owner`
};
/// Takes the first engine of preferred_engines() that is there, reaches the row, and against which
/// `probe` has nothing to say; logs the choice.
///
/// errors: Refusal (`engine`), which names every engine and what is against it. Fault::kInput when
///         `required` is set and the choice is another engine: an RDMA network that is not one must
///         be noticed at the start
[[nodiscard]] Result<EngineChoice> choose_engine(
    const SegmentRow& row, const Reader& reader, std::span<Transport* const> engines,
    const std::function<std::string(Transport&)>& probe,
    std::optional<Engine> required = std::nullopt);

}  // namespace tributary::memory
