#include "schedule/pipeline/count_rounds.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/error.h"
#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

/// The min count from `count` on that the order of a module accepts.
int raise_to_fit(const PipelineModule& module, int count) {
  std::optional<Refusal> refusal;
  // A multiple of the group is at most as many steps away as there are stages.
  for (int tries = 0; tries <= module.stages; ++tries) {
    refusal = refuse_order(module.order, {.stages = module.stages,
                                          .microbatches = count + tries,
                                          .chunks = module.chunks,
                                          .group = module.group});
    if (!refusal) return count + tries;
  }
  TRIB_RAISE(Fault::kInput, .what = "schedule: order of a module takes no number of microbatches",
             .where = str("modules.", module.name, ".schedule"),
             .found = str(traits_of(module.order).name, ": ", refusal->reason),
             .fix = "give the module another order, or the stages that it takes");
}

/// `interleaved of 2 stages in backbone, ...`
std::string describe_orders(const Pipeline& pipeline) {
  std::string text;
  for (const PipelineModule& module : pipeline.modules)
    text += str(text.empty() ? "" : ", ", traits_of(module.order).name, " of ", module.stages,
                " stages in ", module.name);
  return text;
}

}  // namespace

int count_rounds(const Pipeline& pipeline, std::size_t fullest) {
  constexpr int kMaxRounds = 1'000'000;
  int count = static_cast<int>(std::max<std::size_t>(1, fullest));
  std::size_t that_took = 0;  // modules in a row that accepted the count
  for (std::size_t at = 0; that_took < pipeline.modules.size();
       at = (at + 1) % pipeline.modules.size()) {
    const int raised = raise_to_fit(pipeline.modules[at], count);
    that_took = raised == count ? that_took + 1 : 1;
    count = raised;
    TRIB_REQUIRE(count <= kMaxRounds,
                 .what = "schedule: orders of the modules take no equal number",
                 .where = str("modules.", pipeline.modules[at].name, ".schedule"),
                 .found = str("none from ", fullest, " to ", kMaxRounds, " microbatches for ",
                              describe_orders(pipeline)),
                 .expected = "a number that fills the groups of all",
                 .fix = "give the modules equal stages, or another order than interleaved");
  }
  return count;
}

}  // namespace tributary::schedule
