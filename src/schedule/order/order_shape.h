#pragma once

#include <vector>

#include "core/units.h"
#include "schedule/order/action.h"

namespace tributary::schedule {

/// How chunks of stages map to virtual stages.
enum class Fold : std::uint8_t {
  kLooped,   // chunk c of stage p is virtual stage c * stages + p
  kVShaped,  // chunk 0 is p, chunk 1 is 2 * stages - 1 - p
};

/// Times of one microbatch's passes on one virtual stage.
struct PassTimes {
  Nanoseconds forward = {1};
  Nanoseconds backward_input = {1};
  Nanoseconds backward_weight = {1};

  friend bool operator==(const PassTimes&, const PassTimes&) = default;
};

/// The pipeline that an order is made for.
struct OrderShape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;                     // virtual stages on a stage
  int group = 0;                      // interleaved: microbatches that take turns; 0: `stages`
  int extra_warm_up = 0;              // interleaved: 1 where a forward merges with a backward
  std::vector<PassTimes> times = {};  // [stages * chunks] by virtual stage; empty: 1 ns each
  Nanoseconds hop = {};               // from a stage to its neighbour
};

/// One list of passes for each stage.
using StageLists = std::vector<ActionList>;

}  // namespace tributary::schedule
