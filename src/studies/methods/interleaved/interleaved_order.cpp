#include "studies/methods/interleaved/interleaved_order.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "schedule/order/all_orders.h"

namespace tributary::studies {

InterleavedOrder::InterleavedOrder(const schedule::OrderShape& shape)
    : shape_(shape), free_(static_cast<std::size_t>(shape.stages)) {
  const Result<schedule::StageLists> found =
      schedule::list_passes(config::PipelineOrder::kInterleaved, shape);
  TRIB_CHECK(found.has_value(), .what = "studies: interleaved order cannot be made",
             .found = found.refusal().reason);
  const schedule::StageLists& lists = found.value();
  first_stage_ = lists.front();
  const int virtual_stages = shape.stages * shape.chunks;
  end_.resize(2 * static_cast<std::size_t>(virtual_stages * shape.microbatches));
  std::vector<bool> is_listed(end_.size());
  std::vector<std::size_t> next(lists.size());
  const auto pass_of = [&](int stage, const schedule::Action& action) {
    const int at = action.chunk * shape.stages + stage;
    const bool is_last = at + 1 == virtual_stages;
    if (action.op == schedule::Op::kForward) return Pass{stage, at, action.microbatch, at - 1};
    return Pass{stage, virtual_stages + at, action.microbatch,
                is_last ? at : virtual_stages + at + 1};
  };
  const auto place = [&](int row, int microbatch) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(shape.microbatches) +
           static_cast<std::size_t>(microbatch);
  };
  const auto list_stage = [&](int stage) {
    for (std::size_t& at = next[stage]; at < lists[stage].size(); ++at) {
      const Pass pass = pass_of(stage, lists[stage][at]);
      if (pass.after >= 0 && !is_listed[place(pass.after, pass.microbatch)]) return;
      is_listed[place(pass.row, pass.microbatch)] = true;
      passes_.push_back(pass);
    }
  };
  // Goes up and down the stages repeatedly, as forwards go up and backwards come down.
  for (std::size_t before = 0; passes_.size() < end_.size(); before = passes_.size()) {
    for (int stage = 0; stage < shape.stages; ++stage) list_stage(stage);
    for (int stage = shape.stages; stage-- > 0;) list_stage(stage);
    TRIB_CHECK(passes_.size() > before, .what = "studies: interleaved order is blocked",
               .found = str(passes_.size(), " of ", end_.size(), " passes"));
  }
}

std::int64_t InterleavedOrder::makespan(std::span<const std::int64_t> passes,
                                        std::span<const std::int64_t> order) {
  std::fill(free_.begin(), free_.end(), 0);
  const auto microbatches = static_cast<std::size_t>(shape_.microbatches);
  for (const Pass& pass : passes_) {
    const std::size_t row = static_cast<std::size_t>(pass.row) * microbatches;
    std::int64_t start = free_[pass.stage];
    if (pass.after >= 0)
      start = std::max(start, end_[static_cast<std::size_t>(pass.after) * microbatches +
                                   static_cast<std::size_t>(pass.microbatch)]);
    free_[pass.stage] = end_[row + static_cast<std::size_t>(pass.microbatch)] =
        start + passes[row + static_cast<std::size_t>(order[pass.microbatch])];
  }
  return *std::max_element(free_.begin(), free_.end());
}

double InterleavedOrder::max_kept(std::span<const double> of_chunks) const {
  double kept = 0;
  double max = 0;
  for (const schedule::Action& action : first_stage_) {
    kept += (action.op == schedule::Op::kForward ? 1 : -1) * of_chunks[action.chunk];
    max = std::max(max, kept);
  }
  return max;
}

}  // namespace tributary::studies
