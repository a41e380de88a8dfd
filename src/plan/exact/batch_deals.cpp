#include "plan/exact/batch_deals.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kBalanceEvaluations = 20'000;

}  // namespace

const std::vector<std::int32_t>& BatchDeals::buckets(const config::BatchPlan& plan,
                                                     std::int64_t buckets, std::size_t batch) {
  Deal* deal = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Deal>& found = deals_[{buckets, batch}];
    if (!found) found = std::make_unique<Deal>();
    deal = found.get();
  }
  std::call_once(deal->is_dealt, [&] {
    deal->bucket_of = assign_buckets(plan, buckets, problem_.batches[batch],
                                     {.evaluations = kBalanceEvaluations});
  });
  return deal->bucket_of;
}

}  // namespace tributary::plan
