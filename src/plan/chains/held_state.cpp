#include "plan/chains/held_state.h"

namespace tributary::plan {

HeldState split_state(const cost::StageRules& rules, const ChainForm& form,
                      const ChainState& state) {
  const double all = state.parameters + state.gradients + state.optimizer;
  // The part that belongs to experts, of which a rank has fewer, is unknown here.
  if (form.ep > 1) return {.shared = all};
  // Besides its shard, a rank holds what stays gathered if that is a copy: cut, or of another type.
  const auto ranks = static_cast<double>(form.cp * form.ulysses);
  const auto whole_share = [&](bool stays, bool is_other_type) {
    if (!stays) return 0.0;
    return ranks == 1 && !is_other_type ? 1.0 : ranks / (ranks + 1);
  };
  const bool is_wider = rules.gradient_bytes() > rules.value_bytes();
  const double whole = whole_share(rules.gathers_once(), false) * state.parameters +
                       whole_share(rules.reduces_once(), is_wider) * state.gradients;
  return {.whole = whole, .shared = all - whole};
}

}  // namespace tributary::plan
