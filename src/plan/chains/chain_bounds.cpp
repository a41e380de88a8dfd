#include "plan/chains/chain_bounds.h"

#include <algorithm>
#include <cmath>

namespace tributary::plan {

double pipeline_time(double work, double share, std::int64_t stages, std::int64_t microbatches) {
  const auto m = static_cast<double>(microbatches);
  const auto p = static_cast<double>(stages);
  if (share <= 0) return work * m / p;
  return work * share / (1 - std::pow(1 - share / m, p));
}

/// The answer is the time of a rank that holds some blocks, with one end, both or none. Takes the
/// min of these times at which all blocks find room.
double busiest_rank(const UnitTimes& units, std::int64_t blocks, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  const double ends = units.first + units.last;
  const double mean = (ends + units.block * static_cast<double>(blocks)) / n;
  if (ranks == 1 || blocks == 0 || units.block <= 0) return mean;
  const auto room = [&](double time) {
    return std::floor(time / units.block + 1e-9);  // below 0: an end alone takes longer
  };
  const auto holds_all = [&](double time) {
    if (time < std::max(units.first, units.last) * (1 - 1e-12)) return false;
    const double apart = (n - 2) * room(time) + room(time - units.first) + room(time - units.last);
    const double together = time < ends ? 0 : (n - 1) * room(time) + room(time - ends);
    return std::max(apart, together) >= static_cast<double>(blocks);
  };
  const double min = std::max({mean, units.first, units.last});
  if (holds_all(min)) return min;
  double busiest = std::numeric_limits<double>::infinity();
  for (const double beside : {0.0, units.first, units.last, ends}) {
    double own = std::max(0.0, std::ceil((min - beside) / units.block - 1e-9));
    while (beside + own * units.block < busiest && !holds_all(beside + own * units.block)) ++own;
    busiest = std::min(busiest, beside + own * units.block);
  }
  return busiest;
}

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
