#include "mesh/transport/ledger.h"

namespace tributary::mesh {

Traffic& Traffic::operator+=(const Traffic& other) {
  calls += other.calls;
  bytes += other.bytes;
  under_way += other.under_way;
  waited += other.waited;
  return *this;
}

void Ledger::tell_of_issue() const {
  if (on_issue_) on_issue_();
  if (total_) total_->tell_of_issue();
}

void Ledger::add(const Traffic& traffic) {
  if (total_) total_->add(traffic);
  const std::scoped_lock lock(mutex_);
  sum_ += traffic;
}

Traffic Ledger::sum() const {
  const std::scoped_lock lock(mutex_);
  return sum_;
}

}  // namespace tributary::mesh
