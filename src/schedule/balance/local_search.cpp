#include "schedule/balance/local_search.h"

#include "schedule/balance/ejection_chain.h"
#include "schedule/balance/exchange.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {
namespace {

class LocalSearch {
 public:
  LocalSearch(Partition& partition, Effort& effort)
      : partition_(partition), effort_(effort), tabu_(partition.items()) {}

  bool run(std::int64_t enough) {
    bool goes_on = true;
    while (goes_on && !effort_.used_up()) {
      const std::int32_t worst = partition_.worst();
      if (best_.offer(partition_, partition_.value(worst))) tabu_.set_best_value(best_.value());
      if (best_.value() <= enough) break;
      tabu_.next_step();
      goes_on = relieve(worst) || climb(worst);
    }
    best_.restore(partition_);
    return !effort_.used_up();
  }

 private:
  bool relieve(std::int32_t worst) {
    const std::int64_t value = partition_.value(worst);
    const Exchange exchange = find_exchange(partition_, worst, value, tabu_, effort_);
    if (exchange.is_found()) {
      apply(partition_, exchange);
      return true;
    }
    // Chains cost as much as a hundred exchanges, so only a new best arrangement gets one.
    if (value > best_.value() || value == chained_value_) return false;
    chained_value_ = value;
    return relieve_by_chain(partition_, worst, effort_);
  }

  /// Makes an exchange that raises the value by at most an eighth.
  bool climb(std::int32_t worst) {
    if (effort_.used_up()) return false;
    const std::int64_t value = partition_.value(worst);
    Exchange exchange = find_exchange(partition_, worst, value + value / 8 + 1, tabu_, effort_);
    if (!exchange.is_found()) {
      tabu_.release();
      exchange = find_exchange(partition_, worst, value + value / 8 + 1, tabu_, effort_);
    }
    if (!exchange.is_found()) return false;
    tabu_.hold(exchange.given);
    if (exchange.taken != Partition::kNowhere) tabu_.hold(exchange.taken);
    apply(partition_, exchange);
    return true;
  }

  Partition& partition_;
  Effort& effort_;
  Tabu tabu_;
  BestArrangement best_;
  std::int64_t chained_value_ = -1;  // the value at which chains were last searched for
};

}  // namespace

bool search_locally(Partition& partition, std::int64_t enough, Effort& effort) {
  return LocalSearch(partition, effort).run(enough);
}

}  // namespace tributary::schedule
