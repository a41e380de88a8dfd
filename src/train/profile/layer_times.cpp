#include "train/profile/layer_times.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::train {
namespace {

using parallel::LayerPass;

double& time_of(LayerUse& use, LayerPass pass) {
  switch (pass) {
    case LayerPass::kForward:
      return use.forward;
    case LayerPass::kRecompute:
      return use.recompute;
    case LayerPass::kWeights:
      return use.weights;
    case LayerPass::kBackward:
      break;
  }
  return use.backward;
}

}  // namespace

LayerUse& LayerUse::operator+=(const LayerUse& other) {
  layers += other.layers;
  forward += other.forward;
  backward += other.backward;
  weights += other.weights;
  recompute += other.recompute;
  attention_forward += other.attention_forward;
  attention_backward += other.attention_backward;
  kept += other.kept;
  peak = std::max(peak, other.peak);
  return *this;
}

LayerUses cut_forward(const MarkedStretch& stretch) {
  LayerUses uses;
  const LayerMark* before = &stretch.begin;
  for (const LayerMark& mark : stretch.marks) {
    uses[mark.layer] += {.layers = 1,
                         .forward = mark.time - before->time,
                         .attention_forward = mark.attention - before->attention,
                         .kept = mark.live - before->live};
    before = &mark;
  }
  if (!stretch.marks.empty())
    uses[before->layer] +=
        {.forward = stretch.end.time - before->time, .kept = stretch.end.live - before->live};
  return uses;
}

LayerUses cut_backward(const MarkedStretch& stretch) {
  LayerUses uses;
  for (std::size_t i = 0; i < stretch.marks.size(); ++i) {
    const LayerMark& mark = stretch.marks[i];
    const LayerMark& begin = i == 0 ? stretch.begin : mark;
    const LayerMark& next = i + 1 < stretch.marks.size() ? stretch.marks[i + 1] : stretch.end;
    LayerUse use;
    time_of(use, mark.pass) = next.time - begin.time;
    if (mark.pass == LayerPass::kBackward)
      use.attention_backward = next.attention - begin.attention;
    use.peak = std::max<std::int64_t>(0, next.peak - begin.live);
    uses[mark.layer] += use;
  }
  return uses;
}

Spread spread_of(std::vector<double> values) {
  TRIB_CHECK(!values.empty(), .what = "train: median of no values");
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, median > 0 ? (values.back() - values.front()) / median : 0};
}

}  // namespace tributary::train
