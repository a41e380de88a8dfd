#include "memory/progress/producer_identity.h"

#include <cstring>
#include <ctime>

#include "core/error.h"
#include "memory/transport/socket/handshake.h"

namespace tributary::memory {

std::uint16_t draw_process(const PoolJob& job) {
  std::uint64_t drawn = 0;
  const Nonce nonce = draw_nonce();
  std::memcpy(&drawn, nonce.data(), sizeof drawn);
  return static_cast<std::uint16_t>(job.first_producer() + drawn % kMaxProducers);
}

std::uint32_t incarnation_now() { return static_cast<std::uint32_t>(std::time(nullptr)); }

std::optional<Refusal> find_fault(const PoolProducerOptions& options, const PoolJob& job) {
  const std::uint64_t pages = options.capacity_bytes / job.page_bytes;
  if (pages <= job.reserve_pages || pages > UINT32_MAX)
    return Refusal{
        "capacity",
        str("memory: ", options.capacity_bytes, " B (pool.encoder_mib) do not hold more than ",
            job.reserve_pages, " pages of ", job.page_bytes, " B, one largest object")};
  if (options.process &&
      (*options.process < job.first_producer() || *options.process >= job.world()))
    return Refusal{"process", str("memory: producers have the numbers ", job.first_producer(),
                                  " to ", job.world() - 1, ", and this is ", *options.process)};
  return std::nullopt;
}

}  // namespace tributary::memory
