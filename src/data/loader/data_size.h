#pragma once

#include <cstdint>

namespace tributary::data {

/// What a run trains on in one epoch; the estimates are those of DataLook.
struct DataSize {
  std::int64_t records = 0;
  std::int64_t held_out = 0;
  std::int64_t estimated_dropped = 0;  // of the records
  std::int64_t estimated_tokens = 0;
  std::int64_t steps_of_epoch = 0;
  std::int64_t steps = 0;  // of the run
};

}  // namespace tributary::data
