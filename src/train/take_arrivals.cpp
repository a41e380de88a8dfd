#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/balance/rank_load.h"
#include "train/flow/arrival_order.h"
#include "train/run/run_directory.h"
#include "train/start/session.h"
#include "train/take_step.h"

namespace tributary::train {
namespace {

std::string text_of(const memory::PlanRecord& record) {
  const std::vector<std::byte> bytes = memory::record_bytes(record, 0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

memory::PlanRecord record_from(const std::string& text) {
  Result<memory::PlanLogContent> content = memory::read_plan_log(std::as_bytes(std::span(text)));
  TRIB_CHECK(content.has_value() && content.value().records.size() == 1,
             .what = "train: plan of rank 0 is damaged");
  return std::move(content.value().records.front());
}

}  // namespace

void ArrivalOrder::read_replayed(const Session& session, const RunDirectory& run) {
  records_ = session.loader->records();
  end_ = session.config.run.steps;
  if (config_.pool.replay.empty() || !session.leads()) return;
  std::error_code ignored;
  TRIB_REQUIRE(!std::filesystem::equivalent(config_.pool.replay, run.file(kPlanLog), ignored),
               .what = "train: log to replay is that of the run itself, which is written anew",
               .where = "pool.replay", .found = config_.pool.replay,
               .expected = "a log of another run, or a copy");
  for (memory::PlanRecord& record : memory::read_plan_log_file(config_.pool.replay))
    replayed_[record.step] = std::move(record);
  TRIB_REQUIRE(!replayed_.empty() && static_cast<std::int64_t>(replayed_.rbegin()->first) >= end_,
               .what = "train: log to replay is too short", .where = config_.pool.replay,
               .found = replayed_.empty() ? "no step" : str("step ", replayed_.rbegin()->first),
               .expected = str("run.steps ", end_),
               .fix = "take the log of a run with as many steps");
  const std::int64_t samples = end_ * config_.batch.global_samples;
  for (const auto& [step, record] : replayed_)
    for (const memory::PlanRecordMicrobatch& microbatch : record.microbatches)
      for (const memory::PlannedSample& sample : microbatch.samples)
        TRIB_REQUIRE(static_cast<std::int64_t>(step) > end_ ||
                         static_cast<std::int64_t>(sample.id) < samples,
                     .what = "train: log to replay takes samples behind the end of this run",
                     .where = str(config_.pool.replay, ", step ", step),
                     .found = str("sample ", sample.id),
                     .expected = str("samples below ", samples, ", those of ", end_, " steps"),
                     .fix = "set run.steps to that of the logged run");
}

void ArrivalOrder::open(const Session& session, const RunDirectory& run, const TrainState& state) {
  handed_out_ = session.loader->next_index() / config_.batch.global_samples;
  trained_ahead_ = state.loader.trained_ahead;
  std::ranges::sort(trained_ahead_);
  if (session.leads()) log_.emplace(run.file(kPlanLog));
}

TakenStep ArrivalOrder::take(const Session& session, std::int64_t step) {
  TakenStep taken;
  begin_step(session, taken);
  taken.first_index = step * config_.batch.global_samples;
  taken.before = session.loader->state();
  if (!hand_out(session, step, taken)) return taken;
  const Stopwatch watch;
  current_ = agree(session, step);
  fill(session, taken);
  taken.waiting.packing += watch.seconds();
  return taken;
}

bool ArrivalOrder::hand_out(const Session& session, std::int64_t step, TakenStep& taken) {
  while (handed_out_ < std::min(step + config_.pool.ahead, end_)) {
    TakenStep drawn = take_step(session);
    taken.left_out += drawn.left_out;
    taken.media_decoded += drawn.media_decoded;
    taken.waiting.samples += drawn.waiting.samples;
    taken.waiting.packing += drawn.waiting.packing;
    taken.balance.planning += drawn.balance.planning;
    taken.balance.exposed += drawn.balance.exposed;
    const bool ends = is_refused(session, drawn);  // by some rank
    taken.refusal = std::move(drawn.refusal);
    if (ends) return false;
    ++handed_out_;
    OpenBatch& batch = open_[drawn.first_index];
    batch.before = std::move(drawn.before);
    {
      const std::scoped_lock lock(mutex_);
      batch.dealt = std::move(dealt_.extract(drawn.first_index).mapped());
    }
    for (std::size_t i = 0; i < batch.dealt.tokens.size(); ++i) {
      const std::int64_t id = drawn.first_index + static_cast<std::int64_t>(i);
      if (!std::ranges::binary_search(trained_ahead_, id)) batch.left.insert(id);
    }
    for (data::EncodedSample& sample : drawn.samples)
      if (batch.left.contains(sample.id)) samples_[sample.id] = std::move(sample);
  }
  return true;
}

memory::PlanRecord ArrivalOrder::agree(const Session& session, std::int64_t step) {
  std::string own;
  if (session.leads()) {
    const memory::PlanRecord record = replayed_.empty() ? choose(session, step) : replay(step);
    log_->append(record);
    own = text_of(record);
  }
  return record_from(session.mesh->world().gather_text(own).front());
}

memory::PlanRecord ArrivalOrder::choose(const Session& session, std::int64_t step) const {
  const std::int64_t samples = config_.batch.global_samples;
  const std::set<std::int64_t> awaited = session.flow->samples_without_features();
  std::vector<Arrival> arrivals;
  for (const auto& [first, batch] : open_)
    for (const std::int64_t id : batch.left) {
      const auto place = static_cast<std::size_t>(id - first);
      arrivals.push_back({.id = id,
                          .replica = batch.dealt.replica_of[place],
                          .tokens = batch.dealt.tokens[place],
                          .is_ready = !awaited.contains(id),
                          .is_due = first / samples <= step - config_.pool.ahead + 1});
    }
  return {.step = static_cast<std::uint64_t>(step + 1),
          .dataset_epoch = static_cast<std::uint32_t>(step * samples / records_),
          .microbatches = choose_arrivals(arrivals, samples, session.mesh->data_ranks(),
                                          config_.batch.capacity_tokens)};
}

void ArrivalOrder::fill(const Session& session, TakenStep& taken) {
  taken.balance.parts = parts_of_load(session.model_config, session.lanes, *session.mesh).time;
  std::vector<std::vector<std::int32_t>> bins;
  std::vector<Tokens> lengths;
  bool is_as_planned = true;
  for (const memory::PlanRecordMicrobatch& microbatch : current_.microbatches) {
    if (static_cast<std::int64_t>(microbatch.dp_rank) != session.mesh->data_index()) continue;
    std::vector<std::int32_t>& bin = bins.emplace_back();
    for (const memory::PlannedSample& planned : microbatch.samples) {
      bin.push_back(static_cast<std::int32_t>(taken.samples.size()));
      taken.samples.push_back(
          std::move(samples_.extract(static_cast<std::int64_t>(planned.id)).mapped()));
      taken.shapes.push_back(taken.samples.back().shape());
      lengths.push_back(taken.shapes.back().tokens);
      is_as_planned = is_as_planned && lengths.back().count == planned.tokens;
    }
  }
  if (!is_as_planned) {  // a sample in place of a bad one
    bins = pack_arrivals(lengths, config_.batch.capacity_tokens);
    taken.balance.repacked = 1;
  }
  taken.microbatches = {.first = {0}, .items = {}};
  for (const std::vector<std::int32_t>& bin : bins) {
    taken.microbatches.items.insert(taken.microbatches.items.end(), bin.begin(), bin.end());
    taken.microbatches.first.push_back(static_cast<std::int32_t>(taken.microbatches.items.size()));
  }
  taken.plan = memory::crc_of(memory::record_bytes(current_, 0));
}

}  // namespace tributary::train
