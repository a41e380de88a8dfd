#include "train/flow/arrival_order.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/loader/loader.h"

namespace tributary::train {
namespace {

std::int64_t id_of(const memory::PlannedSample& sample) {
  return static_cast<std::int64_t>(sample.id);
}

}  // namespace

ArrivalOrder::ArrivalOrder(const config::RunConfig& config) : config_(config) {}

void ArrivalOrder::note(std::int64_t first_index, std::span<const SampleShape> shapes,
                        std::span<const std::int32_t> replica_of) {
  Dealt dealt{.tokens = {}, .replica_of = {replica_of.begin(), replica_of.end()}};
  for (const SampleShape& shape : shapes) dealt.tokens.push_back(shape.tokens);
  const std::scoped_lock lock(mutex_);
  dealt_.insert_or_assign(first_index, std::move(dealt));
}

memory::PlanRecord ArrivalOrder::replay(std::int64_t step) const {
  const auto found = replayed_.find(static_cast<std::uint64_t>(step + 1));
  TRIB_REQUIRE(found != replayed_.end(), .what = "train: log to replay lacks a step",
               .where = config_.pool.replay, .found = str("no step ", step + 1),
               .expected = "the log of a run from its first step on");
  std::set<std::int64_t> ids;
  for (const memory::PlanRecordMicrobatch& microbatch : found->second.microbatches)
    for (const memory::PlannedSample& sample : microbatch.samples) {
      const std::int64_t first = id_of(sample) - id_of(sample) % config_.batch.global_samples;
      const auto batch = open_.find(first);
      const bool is_there = batch != open_.end() && batch->second.left.contains(id_of(sample));
      const bool fits =
          is_there &&
          batch->second.dealt.replica_of[static_cast<std::size_t>(id_of(sample) - first)] ==
              static_cast<std::int32_t>(microbatch.dp_rank);
      TRIB_REQUIRE(fits, .what = "train: log to replay does not fit the run",
                   .where = str(config_.pool.replay, ", step ", step + 1),
                   .found = str("sample ", id_of(sample), " in replica ", microbatch.dp_rank),
                   .expected = is_there ? "the replica that it has here"
                                        : "a sample that was not trained on, of the next "
                                          "pool.ahead batches",
                   .fix = "take data, batch, mesh and pool.ahead of the logged run");
      ids.insert(id_of(sample));
    }
  const std::int64_t count = std::ssize(ids);
  TRIB_REQUIRE(count == config_.batch.global_samples,
               .what = "train: log to replay has steps of another size",
               .where = str(config_.pool.replay, ", step ", step + 1),
               .found = str(count, " different samples"),
               .expected = str("batch.global_samples ", config_.batch.global_samples));
  return found->second;
}

std::vector<std::int64_t> ArrivalOrder::take_finished() {
  for (const memory::PlanRecordMicrobatch& microbatch : current_.microbatches)
    for (const memory::PlannedSample& sample : microbatch.samples) {
      const std::int64_t first = id_of(sample) - id_of(sample) % config_.batch.global_samples;
      open_.at(first).left.erase(id_of(sample));
    }
  std::vector<std::int64_t> finished;
  while (!open_.empty() && open_.begin()->second.left.empty()) {
    finished.push_back(open_.begin()->first);
    open_.erase(open_.begin());
  }
  return finished;
}

std::int64_t ArrivalOrder::out_of_turn() const {
  const std::int64_t samples = config_.batch.global_samples;
  std::int64_t count = 0;
  for (const memory::PlanRecordMicrobatch& microbatch : current_.microbatches)
    count += std::ranges::count_if(microbatch.samples, [&](const memory::PlannedSample& sample) {
      return id_of(sample) / samples + 1 != static_cast<std::int64_t>(current_.step);
    });
  return count;
}

data::LoaderState ArrivalOrder::state(const data::Loader& loader) const {
  data::LoaderState state = open_.empty() ? loader.state() : open_.begin()->second.before;
  for (const auto& [first, batch] : open_)
    for (std::int64_t id = first; id < first + config_.batch.global_samples; ++id)
      if (!batch.left.contains(id)) state.trained_ahead.push_back(id);
  for (const std::int64_t id : trained_ahead_)  // with a larger pool.ahead, before a restart
    if (id >= handed_out_ * config_.batch.global_samples) state.trained_ahead.push_back(id);
  return state;
}

}  // namespace tributary::train
