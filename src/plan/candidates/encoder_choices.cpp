#include "plan/candidates/encoder_choices.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "plan/chains/chain_forms.h"
#include "plan/problem/measured_degrees.h"
#include "schedule/order/all_orders.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kMorePasses = 4;
constexpr std::int64_t kMaxStagesAlike = 4;  // of an encoder with the backbone's degrees

bool is_apart(std::uint64_t apart, std::size_t encoder) { return (apart >> encoder & 1) != 0; }

/// Marks near duplicates as twins. It spares the fastest set that surely fits and, of the faster
/// ones that may fit, the fastest and the one with the min memory.
void mark_twins(std::vector<EncoderSet>& sets, double caution) {
  EncoderSet* sure = nullptr;
  EncoderSet* fastest = nullptr;
  EncoderSet* leanest = nullptr;
  for (EncoderSet& set : sets) {
    set.is_twin = true;
    if (set.estimate.fits(caution) && (!sure || set.estimate.value() < sure->estimate.value()))
      sure = &set;
  }
  for (EncoderSet& set : sets) {
    if (sure && set.estimate.value() >= sure->estimate.value()) continue;
    if (!fastest || set.estimate.value() < fastest->estimate.value()) fastest = &set;
    if (!leanest || set.estimate.memory_share < leanest->estimate.memory_share) leanest = &set;
  }
  for (EncoderSet* each : {sure, fastest, leanest})
    if (each) each->is_twin = false;
}

}  // namespace

const std::vector<ChainForm>& EncoderChoices::forms_of(std::size_t encoder, std::uint64_t apart) {
  const auto [found, is_new] = forms_.try_emplace({encoder, apart});
  if (is_new) found->second = list_forms(problem_, encoder, apart);
  return found->second;
}

void EncoderChoices::add_choices(std::size_t encoder, const ChainForm& form,
                                 std::int64_t microbatches, std::int64_t max_stages, Front& front) {
  const config::ModuleNode& node = *encoders_of(problem_)[encoder];
  const auto has_costs = [&](const config::MeshShape& mesh) {
    return missing_degree(problem_, node, mesh, form.apart).empty();
  };
  if (!has_costs({.tp = form.tp})) return;
  const std::int64_t max_replicas =
      std::min(problem_.global_samples() / microbatches, problem_.space.max_replicas);
  const std::int64_t stages =
      std::min({max_stages, tables_.units(encoder), problem_.space.max_stages});
  for (std::int64_t pp = 1; pp <= stages; ++pp) {
    for (std::int64_t dp = 1; dp <= max_replicas && form.ranks() * pp * dp < problem_.devices;
         ++dp) {
      for (const bool shards : {false, true}) {
        if (shards ? !problem_.space.shards || dp == 1 : !problem_.space.replicates && dp > 1)
          continue;
        ChainChoice own{.mesh = {.pp = pp, .tp = form.tp}, .recompute = form.recompute};
        (shards ? own.mesh.dp_shard : own.mesh.dp_replicate) = dp;
        if (!has_costs(own.mesh)) continue;
        const StepEstimate estimate = estimator_.encoder_rounds(form, own, microbatches, 1);
        if (estimate.may_fit(caution_))
          front.push_back({.form = form,
                           .choice = own,
                           .pace = pace_of(estimate),
                           .share = estimate.memory_share,
                           .devices = own.devices()});
        if (aim_ == EncoderAim::kTime && estimate.fits(caution_)) break;
      }
    }
  }
}

const EncoderChoices::Front& EncoderChoices::front_of(std::size_t encoder, std::uint64_t apart,
                                                      std::int64_t microbatches,
                                                      std::int64_t max_stages) {
  const auto [found, is_new] = fronts_.try_emplace({encoder, apart, microbatches, max_stages});
  Front& front = found->second;
  if (!is_new) return front;
  Front all;
  for (ChainForm form : forms_of(encoder, apart)) {
    for (const config::RecomputePlan level : problem_.space.recompute) {
      form.recompute = level;
      add_choices(encoder, form, microbatches, max_stages, all);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.devices, a.pace, a.share) < std::tie(b.devices, b.pace, b.share);
  });
  double min = std::numeric_limits<double>::infinity();
  for (const Entry& entry : all) {
    // A measured plan must use all devices, so an entry with more devices may be slower.
    if (problem_.measured && !front.empty() && front.back().devices < entry.devices)
      min = std::numeric_limits<double>::infinity();
    if (entry.pace >= min) continue;
    min = entry.pace;
    front.push_back(entry);
  }
  return front;
}

std::optional<EncoderSet> EncoderChoices::match(std::uint64_t apart, const PlanChoice& choice,
                                                const StepEstimate& backbone,
                                                std::int64_t max_stages) {
  const std::int64_t left = problem_.devices - choice.backbone.devices();
  const std::size_t encoders = tables_.units(0) > 0 ? choice.encoders.size() : 0;
  std::vector<const Front*> fronts(encoders, nullptr);
  for (std::size_t i = 0; i < encoders; ++i)
    if (is_apart(apart, i)) fronts[i] = &front_of(i, apart, choice.microbatches, max_stages);
  std::vector<const Entry*> chosen(encoders, nullptr);
  // For each encoder the fewest devices at a pace: the first entry of its front that keeps it.
  const auto affords = [&](double pace) {
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < encoders; ++i) {
      if (fronts[i] == nullptr) continue;
      const auto found =
          std::partition_point(fronts[i]->begin(), fronts[i]->end(),
                               [pace](const Entry& entry) { return entry.pace > pace; });
      if (found == fronts[i]->end()) return false;
      chosen[i] = &*found;
      devices += found->devices;
    }
    return devices <= left;
  };
  const double min = pace_of(backbone);
  if (!affords(min)) {  // the backbone waits: find the fastest pace that fits
    double low = min;
    double high = min;
    do {
      high *= 2;
      if (high > 1e6 * min + 1e15) return std::nullopt;
    } while (!affords(high));
    while (high - low > 1e-3 * high) {
      const double middle = 0.5 * (low + high);
      (affords(middle) ? high : low) = middle;
    }
    (void)affords(high);
  }
  return set_of(chosen, choice, backbone);
}

std::optional<EncoderSet> EncoderChoices::match_all(std::uint64_t apart, const PlanChoice& choice,
                                                    const StepEstimate& backbone,
                                                    std::int64_t max_stages) {
  std::vector<const Entry*> chosen(choice.encoders.size(), nullptr);
  std::vector<const Entry*> best;
  double min = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, std::int64_t, double)> fill =
      [&](std::size_t i, std::int64_t left, double pace) {
        if (pace >= min || left < 0) return;
        if (i == chosen.size()) {
          if (left > 0) return;
          min = pace;
          best = chosen;
          return;
        }
        if (!is_apart(apart, i)) return fill(i + 1, left, pace);
        for (const Entry& entry : front_of(i, apart, choice.microbatches, max_stages)) {
          chosen[i] = &entry;
          fill(i + 1, left - entry.devices, std::max(pace, entry.pace));
        }
      };
  fill(0, problem_.devices - choice.backbone.devices(), 0);
  if (best.empty()) return std::nullopt;
  return set_of(best, choice, backbone);
}

std::optional<EncoderSet> EncoderChoices::set_of(const std::vector<const Entry*>& chosen,
                                                 const PlanChoice& choice,
                                                 const StepEstimate& backbone) {
  EncoderSet set{.encoders = choice.encoders, .estimate = backbone};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] == nullptr) continue;
    set.encoders[i] = chosen[i]->choice;
    set.estimate = combined(set.estimate, estimator_.encoder(chosen[i]->form, chosen[i]->choice,
                                                             choice.microbatches, backbone.stages));
  }
  if (!set.estimate.may_fit(caution_)) return std::nullopt;
  return set;
}

/// The backbone's degrees, except pp.
std::optional<EncoderSet> EncoderChoices::same_degrees(std::uint64_t apart,
                                                       const PlanChoice& choice,
                                                       const StepEstimate& backbone,
                                                       std::int64_t stages) {
  EncoderSet set{.encoders = choice.encoders, .estimate = backbone};
  std::int64_t left = problem_.devices - choice.backbone.devices();
  for (std::size_t i = 0; i < choice.encoders.size(); ++i) {
    if (!is_apart(apart, i)) continue;
    ChainChoice own = choice.backbone;
    own.mesh.pp = stages;
    own.mesh.ep = 1;  // experts only regroup the module's ranks
    left -= own.devices();
    if (left < 0 || stages > tables_.units(i)) return std::nullopt;
    const ChainForm form{.encoder = i,
                         .apart = apart,
                         .tp = own.mesh.tp,
                         .cp = own.mesh.cp,
                         .ulysses = own.mesh.ulysses,
                         .recompute = own.recompute};
    const std::vector<ChainForm>& forms = forms_of(i, apart);
    if (std::none_of(forms.begin(), forms.end(),
                     [&](const ChainForm& each) { return each.tp == form.tp; }))
      return std::nullopt;
    if (!missing_degree(problem_, *encoders_of(problem_)[i], own.mesh, apart).empty())
      return std::nullopt;
    set.encoders[i] = own;
    set.estimate =
        combined(set.estimate, estimator_.encoder(form, own, choice.microbatches, backbone.stages));
  }
  if (!set.estimate.may_fit(caution_)) return std::nullopt;
  return set;
}

void EncoderChoices::fit_colocated(ChainForm form, ChainChoice own, const PlanChoice& choice,
                                   const StepEstimate& backbone, std::vector<EncoderSet>& sets) {
  const std::int64_t max_passes =
      std::min(choice.microbatches, problem_.global_samples() / own.replicas());
  const auto set_of_passes = [&](std::int64_t passes) {
    own.passes = passes;
    EncoderSet set{.encoders = choice.encoders,
                   .estimate = in_turns(backbone, estimator_.colocated(form, own, choice))};
    set.encoders[form.encoder] = own;
    return set;
  };
  const bool has_backward = !problem_.is_frozen(encoders_of(problem_)[form.encoder]->name);
  for (const config::RecomputePlan level : problem_.space.recompute) {
    own.recompute = form.recompute = level;
    std::optional<EncoderSet> sure;
    std::optional<EncoderSet> unsure;  // apart from those already listed
    for (std::int64_t passes = 1; passes <= max_passes; passes *= 2) {
      EncoderSet set = set_of_passes(passes);
      if (!set.estimate.may_fit(caution_)) continue;
      const bool fits = set.estimate.fits(caution_);
      std::optional<EncoderSet>& best = fits ? sure : unsure;
      const bool improves = !best || is_better(set.estimate, best->estimate);
      if (fits && !improves) break;  // more passes would not improve it either
      // Nobody knows which of these fits, so two stay: the fewest passes, and a few more.
      if (!fits && (passes == 1 || passes == kMorePasses))
        sets.push_back(std::move(set));
      else if (improves)
        best = std::move(set);
    }
    if (unsure) sets.push_back(std::move(*unsure));
    if (sure) sets.push_back(std::move(*sure));
    // More recompute only takes longer, and a frozen encoder keeps nothing anyway.
    if (sure || !has_backward) return;
  }
}

std::vector<EncoderSet> EncoderChoices::list_colocated(std::size_t encoder,
                                                       const PlanChoice& choice,
                                                       const StepEstimate& backbone) {
  std::vector<EncoderSet> sets;
  const std::int64_t devices = choice.backbone.devices();
  const std::uint64_t apart = std::uint64_t{1} << encoder;
  const config::ModuleNode& node = *encoders_of(problem_)[encoder];
  if (!can_colocate(problem_, node, choice.schedule)) return sets;
  for (const ChainForm& form : forms_of(encoder, apart)) {
    const std::int64_t dp = devices / form.tp;
    if (dp * form.tp != devices || dp > problem_.global_samples() ||
        dp > problem_.space.max_replicas)
      continue;
    for (const bool shards : {false, true}) {
      if (shards ? !problem_.space.shards || dp == 1 : !problem_.space.replicates && dp > 1)
        continue;
      ChainChoice own{.mesh = {.tp = form.tp}};
      (shards ? own.mesh.dp_shard : own.mesh.dp_replicate) = dp;
      if (!missing_degree(problem_, node, own.mesh, apart).empty()) continue;
      fit_colocated(form, own, choice, backbone, sets);
    }
  }
  mark_twins(sets, caution_);
  return sets;
}

std::vector<EncoderSet> EncoderChoices::list(std::uint64_t apart, const PlanChoice& choice,
                                             const StepEstimate& backbone) {
  std::vector<EncoderSet> sets;
  const auto add = [&](std::optional<EncoderSet> set) {
    const auto is_same = [&](const EncoderSet& each) { return each.encoders == set->encoders; };
    if (set && std::none_of(sets.begin(), sets.end(), is_same)) sets.push_back(std::move(*set));
  };
  if (problem_.measured) {
    add(match_all(apart, choice, backbone, 8));
    return sets;
  }
  add(match(apart, choice, backbone, 1));
  add(match(apart, choice, backbone, 8));
  // Replicas pair up with the backbone's one to one, so messages do not share a link.
  for (std::int64_t stages = 1; stages <= kMaxStagesAlike; ++stages) {
    std::optional<EncoderSet> set = same_degrees(apart, choice, backbone, stages);
    if (set) set->is_alike = true;
    add(std::move(set));
  }
  return sets;
}

}  // namespace tributary::plan
