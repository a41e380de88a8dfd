#include "train/validation/score_pairs.h"

#include <tuple>

#include "train/executor/pair_loss.h"

namespace tributary::train {

void score_pairs(const Session& session, const RoundPart& part, std::vector<SourceLoss>& losses,
                 std::vector<PairSums>& sums) {
  constexpr int kOnly = 0;
  model::Model& model = *session.model;
  PairLoss loss(model, session.config.objective, /*pairs=*/1);
  const Microbatch microbatch = collate_round(session, part);
  {
    const InPlace reference(session.optimizer->reference());
    const at::Tensor hidden = model.forward(microbatch.batch);
    if (model.layout().holds_head()) loss.take_reference(kOnly, microbatch, hidden);
  }
  const at::Tensor hidden = model.forward(microbatch.batch);
  if (model.layout().holds_head()) std::ignore = loss(kOnly, microbatch, hidden);
  loss.add_to(losses, sums);
}

}  // namespace tributary::train
