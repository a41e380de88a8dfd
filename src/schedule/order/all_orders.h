#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "config/pipeline_order.h"
#include "core/result.h"
#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// What one order needs and promises.
struct OrderTraits {
  config::PipelineOrder order;
  std::string_view name;  // as in plans
  Fold fold;
  int chunks;            // on a stage; 0: two or more
  bool splits_backward;  // B and W are separate actions
  StageLists (*list)(const OrderShape&);
  /// Max chunk activations that the stage ever keeps.
  int (*in_flight)(const OrderShape&, int stage);
};

[[nodiscard]] std::span<const OrderTraits> all_orders();

/// errors: Fault::kBug when the order is not in the list
[[nodiscard]] const OrderTraits& traits_of(config::PipelineOrder order);

/// Why an order cannot be made for a shape; null when it can. Reasons: an empty pipeline, a wrong
/// number of chunks or times, microbatches that do not fill the groups of the interleaved order.
[[nodiscard]] std::optional<Refusal> refuse_order(config::PipelineOrder order,
                                                  const OrderShape& shape);

/// Lists the passes of every stage.
///
/// errors: Refusal as refuse_order
[[nodiscard]] Result<StageLists> list_passes(config::PipelineOrder order, const OrderShape& shape);

/// Lists all forwards, then all backwards, both in data order.
///
/// shape:  2 * microbatches passes for each stage
/// cost:   microbatches activations in flight
/// source: Huang 2019, "GPipe"; backwards ascend here, so that weight gradients add up in the order
///         of every other schedule
[[nodiscard]] StageLists list_gpipe(const OrderShape& shape);

/// Lists warm-up forwards, then forward and backward in turn, then the remaining backwards.
///
/// shape:  2 * microbatches passes for each stage
/// cost:   min(stages - stage, microbatches) activations in flight
/// source: Narayanan 2021, "Memory-efficient pipeline-parallel DNN training" (PipeDream-Flush)
[[nodiscard]] StageLists list_1f1b(const OrderShape& shape);

/// Lists 1F1B with several chunks on a stage: groups of microbatches go through all chunks in turn.
///
/// shape:  2 * microbatches * chunks passes for each stage
/// cost:   bubble of 1F1B / chunks; min(2 * (stages - 1 - stage) + (chunks - 1) * group + 1 +
///         extra_warm_up, microbatches * chunks) chunk activations in flight
/// source: Narayanan 2021, "Efficient large-scale language model training on GPU clusters"
[[nodiscard]] StageLists list_interleaved(const OrderShape& shape);

/// Chunk forwards of a stage before its first backward.
[[nodiscard]] int interleaved_warm_up(const OrderShape& shape, int stage);

/// Lists 1F1B with the backward split: weight gradients wait and fill the bubble at the end.
///
/// shape:  3 * microbatches passes for each stage
/// cost:   bubble (stages - 1) * (F + B - W); min(stages, microbatches) activations in flight
/// source: Qi 2023, "Zero bubble pipeline parallelism" (arXiv:2401.10241), ZB-H1
[[nodiscard]] StageLists list_zb_h1(const OrderShape& shape);

/// Lists a V of two chunks on each stage with the backward split: forwards go down and up again,
/// and weight gradients fill the waits. Assumes that all stages have the mean times of the shape.
///
/// shape:  chunks = 2; 6 * microbatches passes for each stage
/// cost:   2 * stages chunk activations in flight; no bubble except the first descent where F = B =
///         W and microbatches >= 2 * stages
/// source: Qi 2024, "Pipeline parallelism with controllable memory" (arXiv:2405.15362), ZB-V;
///         an activation counts until its weight gradient
[[nodiscard]] StageLists list_zb_v(const OrderShape& shape);

/// Lists a V of two chunks on each stage that keeps about half the activations of 1F1B; best where
/// F = B = W.
///
/// shape:  chunks = 2; 6 * microbatches passes for each stage
/// cost:   O(stages * microbatches^3) time; at most 2 * (stages / 2 + 1) chunk activations in
///         flight
/// source: Qi 2024, "Pipeline parallelism with controllable memory" (arXiv:2405.15362), V-Half; the
///         published pattern is compacted here, which takes the waits out of its ramps
[[nodiscard]] StageLists list_v_half(const OrderShape& shape);

/// The same with about a third of the activations, at most 2 * ((stages + 1) / 3 + 1); slow
/// wherever F, B and W differ.
[[nodiscard]] StageLists list_v_min(const OrderShape& shape);

}  // namespace tributary::schedule
