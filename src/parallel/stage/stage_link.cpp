#include "parallel/stage/stage_link.h"

#include <ATen/ATen.h>

#include "core/error.h"
#include "parallel/unit_chain.h"

namespace tributary::parallel {
namespace {

const mesh::Group& link_of(const Layout& layout, const StageMessage& message) {
  using mesh::StageLink;
  const bool is_down = layout.holder(message.from) < layout.holder(message.to);
  const bool is_activation = message.what == Passed::kActivation;
  if (is_activation)
    return layout.mesh->stages(is_down ? StageLink::kActivationsDown : StageLink::kActivationsUp);
  return layout.mesh->stages(is_down ? StageLink::kGradientsDown : StageLink::kGradientsUp);
}

/// Distinct for all messages of a link that can be under way at once.
int tag_of(const Layout& layout, const StageMessage& message) {
  return message.microbatch * layout.virtual_stages() + message.from;
}

}  // namespace

mesh::Pending send(const Layout& layout, const StageMessage& message, const at::Tensor& values) {
  return link_of(layout, message).send(values, layout.holder(message.to), tag_of(layout, message));
}

mesh::Pending receive(const Layout& layout, const StageMessage& message, const at::Tensor& values) {
  return link_of(layout, message)
      .receive(values, layout.holder(message.from), tag_of(layout, message));
}

at::Tensor run_stages(const Layout& layout, const std::function<at::Tensor(int stage)>& empty_input,
                      const RunStage& run) {
  at::Tensor hidden;
  for (int stage = 0; stage < layout.virtual_stages(); ++stage) {
    if (!layout.holds(stage)) {
      hidden = at::Tensor();
      continue;
    }
    if (stage > 0 && !layout.holds(stage - 1)) {
      hidden = empty_input(stage);
      receive(layout, {.from = stage - 1, .to = stage}, hidden).wait();
    }
    if (layout.chain) layout.chain->begin_pass(stage);
    hidden = run(stage, hidden);
    if (stage + 1 < layout.virtual_stages() && !layout.holds(stage + 1))
      send(layout, {.from = stage, .to = stage + 1}, hidden.contiguous()).wait();
  }
  return hidden;
}

}  // namespace tributary::parallel
