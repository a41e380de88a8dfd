#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace tributary::mesh {

/// What the collectives of a group cost so far, in seconds.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // sent by this rank
  double under_way = 0;    // from issue to the end of the wait
  double waited = 0;       // the part of it inside Pending::wait

  Traffic& operator+=(const Traffic& other);
};

/// Adds up traffic, written by the threads that wait: of one group, or of all groups whose ledgers
/// report to it.
class Ledger {
 public:
  /// `on_issue` is called by the thread that issues a collective as soon as it is under way.
  explicit Ledger(std::function<void()> on_issue) : on_issue_(std::move(on_issue)) {}
  /// Reports all that it is told to `total` too; null: to nobody.
  explicit Ledger(std::shared_ptr<Ledger> total = nullptr) : total_(std::move(total)) {}

  void tell_of_issue() const;
  void add(const Traffic& traffic);
  [[nodiscard]] Traffic sum() const;

 private:
  std::function<void()> on_issue_;
  std::shared_ptr<Ledger> total_;
  mutable std::mutex mutex_;  // guards sum_
  Traffic sum_;
};

}  // namespace tributary::mesh
