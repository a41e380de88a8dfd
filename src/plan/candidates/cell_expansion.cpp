#include "plan/candidates/cell_expansion.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "plan/chains/chain_forms.h"

namespace tributary::plan {

using config::PipelineOrder;

namespace {

std::vector<std::int64_t> none() { return {}; }

std::vector<std::int64_t> plain(PipelineOrder order) {
  return config::virtual_stages_of(order) == 1 ? std::vector<std::int64_t>{1} : none();
}

}  // namespace

void CellExpansion::expand(const ChainForm& form, const Cell& cell) {
  PlanChoice choice;
  choice.encoders.resize(encoders_);
  choice.microbatches = cell.microbatches;
  for (const config::MeshShape& mesh : meshes_of(problem_, form, cell.pp, cell.dp)) {
    choice.backbone.mesh = mesh;
    for (const PipelineOrder order : problem_.space.schedules) {
      choice.schedule = order;
      for (const std::int64_t chunks : chunks_of(order, cell)) {
        choice.chunks = chunks;
        place_recompute(form, cell, choice);
      }
    }
  }
}

/// Skips levels that recompute more than one that surely fits: they only take longer.
void CellExpansion::place_recompute(const ChainForm& form, const Cell& cell, PlanChoice& choice) {
  std::vector<RecomputeChoice> enough;
  for (const RecomputeChoice& each : recompute_of(form.apart)) {
    const auto is_covered = [&](const RecomputeChoice& less) {
      return each.covers(less, encoders_);
    };
    if (std::ranges::any_of(enough, is_covered)) continue;
    choice.backbone.recompute = each.backbone;
    choice.inside = each.inside;
    if (place_encoders(form, cell, choice)) enough.push_back(each);
  }
}

const std::vector<RecomputeChoice>& CellExpansion::recompute_of(std::uint64_t apart) {
  const auto [found, is_new] = recompute_.try_emplace(apart);
  if (is_new) found->second = list_recompute(problem_, apart);
  return found->second;
}

/// The numbers of chunks that an order can have here; empty when the order cannot run.
std::vector<std::int64_t> CellExpansion::chunks_of(PipelineOrder order, const Cell& cell) const {
  const std::int64_t pp = cell.pp;
  const std::int64_t units = units_of(*problem_.model.find(config::kBackboneModule));
  if (pp == 1) return order == PipelineOrder::k1f1b || !has_1f1b() ? plain(order) : none();
  switch (order) {
    case PipelineOrder::kInterleaved: {
      std::vector<std::int64_t> chunks;
      if (cell.microbatches % pp != 0) return chunks;
      for (const std::int64_t each : problem_.space.chunks)
        if (each * pp <= units) chunks.push_back(each);
      return chunks;
    }
    case PipelineOrder::kZbV:
    case PipelineOrder::kVHalf:
    case PipelineOrder::kVMin:
      if (2 * pp > units || cell.microbatches > kMaxMicrobatchesOfV) return none();
      return {2};
    default:
      return plain(order);
  }
}

bool CellExpansion::has_1f1b() const {
  const std::vector<PipelineOrder>& orders = problem_.space.schedules;
  return std::find(orders.begin(), orders.end(), PipelineOrder::k1f1b) != orders.end();
}

/// Returns true when more recompute is useless: the choice surely fits, or is too slow to keep.
bool CellExpansion::place_encoders(const ChainForm& form, const Cell& cell, PlanChoice& choice) {
  ++backbones_;
  const StepEstimate alone = estimator_.backbone(form, choice);
  if (!alone.may_fit(caution_)) return false;
  if (form.apart == 0) return offer(choice, alone, ChoiceKind::kOther);
  // Adding an encoder never makes the backbone faster.
  if (alone.value() >= taker_.limit(cell.colocated >= 0)) return true;
  bool any = false;
  const std::vector<EncoderSet> sets =
      cell.colocated >= 0
          ? encoder_choices_.list_colocated(static_cast<std::size_t>(cell.colocated), choice, alone)
          : encoder_choices_.list(form.apart, choice, alone);
  for (const EncoderSet& set : sets) {
    for (std::size_t i = 0; i < encoders_; ++i) choice.encoders[i] = set.encoders[i];
    const ChoiceKind kind = set.is_twin              ? ChoiceKind::kTwin
                            : set.is_alike           ? ChoiceKind::kAlike
                            : choice.has_colocated() ? ChoiceKind::kColocated
                                                     : ChoiceKind::kOther;
    if (is_aligned(problem_, choice) && uses_all(choice))
      any = offer(choice, set.estimate, kind) || any;
    for (std::optional<ChainChoice>& encoder : choice.encoders) encoder.reset();
  }
  return any;
}

/// Measured costs hold for the number of ranks measured, so a plan must use every device.
bool CellExpansion::uses_all(const PlanChoice& choice) const {
  return !problem_.measured || choice.devices() == problem_.devices;
}

bool CellExpansion::offer(const PlanChoice& choice, const StepEstimate& estimate, ChoiceKind kind) {
  const bool fits = estimate.fits(caution_);
  if (fits || estimate.may_fit(caution_)) taker_.offer(choice, estimate, fits, kind);
  return fits;
}

}  // namespace tributary::plan
