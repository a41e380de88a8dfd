#include "schedule/order/all_orders.h"

#include <algorithm>
#include <array>

namespace tributary::schedule {
namespace {

using config::PipelineOrder;

int keep_all(const OrderShape& shape, int) { return shape.microbatches; }

int keep_distance_to_the_end(const OrderShape& shape, int stage) {
  return std::min(shape.stages - stage, shape.microbatches);
}

int keep_stages(const OrderShape& shape, int) { return std::min(shape.stages, shape.microbatches); }

int keep_warm_up(const OrderShape& shape, int stage) {
  return std::min(interleaved_warm_up(shape, stage) + 1, shape.microbatches * shape.chunks);
}

int at_most_all(int chunk_activations, const OrderShape& shape) {
  return std::min(chunk_activations, 2 * shape.microbatches);
}

int keep_two_chunks_a_stage(const OrderShape& shape, int) {
  return at_most_all(2 * shape.stages, shape);
}

int keep_half(const OrderShape& shape, int) {
  return at_most_all(2 * (shape.stages / 2 + 1), shape);
}

int keep_third(const OrderShape& shape, int) {
  return at_most_all(2 * ((shape.stages + 1) / 3 + 1), shape);
}

constexpr std::array<OrderTraits, 7> kOrders{{
    {PipelineOrder::kGpipe, "gpipe", Fold::kLooped, 1, false, list_gpipe, keep_all},
    {PipelineOrder::k1f1b, "1f1b", Fold::kLooped, 1, false, list_1f1b, keep_distance_to_the_end},
    {PipelineOrder::kInterleaved, "interleaved", Fold::kLooped, 0, false, list_interleaved,
     keep_warm_up},
    {PipelineOrder::kZbH1, "zb_h1", Fold::kLooped, 1, true, list_zb_h1, keep_stages},
    {PipelineOrder::kZbV, "zb_v", Fold::kVShaped, 2, true, list_zb_v, keep_two_chunks_a_stage},
    {PipelineOrder::kVHalf, "v_half", Fold::kVShaped, 2, true, list_v_half, keep_half},
    {PipelineOrder::kVMin, "v_min", Fold::kVShaped, 2, true, list_v_min, keep_third},
}};

Refusal refuse(std::string code, std::string reason) {
  return {std::move(code), std::move(reason)};
}

}  // namespace

std::span<const OrderTraits> all_orders() { return kOrders; }

const OrderTraits& traits_of(config::PipelineOrder order) {
  const auto found = std::find_if(kOrders.begin(), kOrders.end(),
                                  [order](const OrderTraits& each) { return each.order == order; });
  TRIB_CHECK(found != kOrders.end(), .what = "schedule: order without a function",
             .found = str(static_cast<int>(order)));
  return *found;
}

std::optional<Refusal> refuse_order(config::PipelineOrder order, const OrderShape& shape) {
  const OrderTraits& traits = traits_of(order);
  if (shape.stages < 1 || shape.microbatches < 1)
    return refuse("empty_pipeline", str(shape.stages, " stages and ", shape.microbatches,
                                        " microbatches; at least 1 of each are needed"));
  if (traits.chunks > 0 ? shape.chunks != traits.chunks : shape.chunks < 2)
    return refuse("chunks", str(traits.name, " takes ", traits.chunks > 0 ? "" : "at least ",
                                std::max(traits.chunks, traits.chunks > 0 ? 1 : 2),
                                " virtual stages a stage, not ", shape.chunks));
  if (!shape.times.empty() && std::ssize(shape.times) != shape.stages * shape.chunks)
    return refuse("times", str(shape.times.size(), " pass times for ", shape.stages * shape.chunks,
                               " virtual stages"));
  if (order == PipelineOrder::kInterleaved) {
    const int group = shape.group > 0 ? shape.group : shape.stages;
    const int left = shape.microbatches % group;
    if (group < shape.stages || (left != 0 && left < shape.stages))
      return refuse("group", str("interleaved with groups of ", group, " microbatches on ",
                                 shape.stages, " stages leaves ", left, " of ", shape.microbatches,
                                 " for the last group, which is short of the stages"));
  }
  return std::nullopt;
}

Result<StageLists> list_passes(config::PipelineOrder order, const OrderShape& shape) {
  if (std::optional<Refusal> refusal = refuse_order(order, shape)) return *std::move(refusal);
  return traits_of(order).list(shape);
}

}  // namespace tributary::schedule
