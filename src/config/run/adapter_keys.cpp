#include "config/run/run_field.h"

namespace tributary::config {

std::vector<Key> adapter_keys() {
  using R = RunConfig;
  using M = ModelSection;
  using A = AdapterSection;
  return {
      key<&R::model, &M::adapter, &A::kind>(
          {.path = "adapter.kind",
           .meaning = "Trains low-rank adapters beside frozen weights: LoRA, or DoRA, which also "
                      "trains the magnitude of each output."}),
      key<&R::model, &M::adapter, &A::rank>({.path = "adapter.rank",
                                             .meaning = "Rank of the change of each linear map.",
                                             .range = {1, 65536}}),
      key<&R::model, &M::adapter, &A::alpha>(
          {.path = "adapter.alpha",
           .meaning = "The change is scaled by `adapter.alpha / adapter.rank`.",
           .range = {0, 1e6, true}}),
      key<&R::model, &M::adapter, &A::rslora>(
          {.path = "adapter.rslora",
           .meaning = "Scales by `adapter.alpha / sqrt(adapter.rank)` instead."}),
      key<&R::model, &M::adapter, &A::targets>(
          {.path = "adapter.targets",
           .meaning = "Linear maps with an adapter: `all-linear` (all but the head), the end of "
                      "their names as in PEFT (`q_proj`), or a pattern of whole names with `*` and "
                      "`?` (`model.layers.*.self_attn.q_proj`); none in `model.freeze`."}),
      key<&R::model, &M::adapter, &A::path>(
          {.path = "adapter.path",
           .meaning = "Directory of a PEFT adapter to start from, which gives kind, rank, alpha "
                      "and targets too; empty: A is random, B is 0."}),
  };
}

}  // namespace tributary::config
