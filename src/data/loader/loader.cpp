#include "data/loader/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>

#include "core/error.h"
#include "data/loader/data_order.h"
#include "data/loader/quarantine.h"
#include "data/loader/source_files.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMostReplacements = 100;  // for one sample, in a row

/// Where sample `index` comes from.
struct Draw {
  std::int64_t index = 0;
  int source = 0;
  std::int64_t position = 0;  // in the source, over all epochs
};

/// A place in the queue: drawn, then filled by a worker, then handed out.
struct Slot {
  Draw draw;
  bool is_filled = false;
  EncodedSample sample;
  std::vector<Rejection> rejections;  // of the records that were tried before
  std::exception_ptr failure;
};

std::vector<MixtureShare> mix(const LoaderOptions& options,
                              const std::vector<std::unique_ptr<SourceFiles>>& sources) {
  std::vector<MixtureShare> shares;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const config::SourceSection& source = options.data.sources[i];
    shares.push_back({.weight = source.weight,
                      .size = sources[i]->train_size(),
                      .first_index = source.start_step * options.batch_samples});
  }
  return shares;
}

/// What a resumed run must find again.
std::vector<double> weights_of(const config::DataSection& data) {
  std::vector<double> weights;
  for (const config::SourceSection& source : data.sources) weights.push_back(source.weight);
  return weights;
}

std::vector<std::int64_t> start_steps_of(const config::DataSection& data) {
  std::vector<std::int64_t> steps;
  for (const config::SourceSection& source : data.sources) steps.push_back(source.start_step);
  return steps;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(const LoaderOptions& options, const SampleEncoder& encoder);

  std::vector<EncodedSample> next_batch();
  EncodedSample load(std::int64_t id) const;
  LoaderState state() const;
  void restore(const LoaderState& state, std::span<const std::string> accepted);
  std::int64_t records() const;

 private:
  void start_workers();
  void work(const std::stop_token& stop);
  void fill(Slot& slot) const;
  Draw draw_next();
  bool is_own(std::int64_t index) const;
  std::vector<std::unique_ptr<Slot>> take_batch();
  std::int64_t good_records() const;

  LoaderOptions options_;
  const SampleEncoder& encoder_;
  std::vector<std::unique_ptr<SourceFiles>> sources_;
  DataOrder order_;
  Quarantine quarantine_;

  std::int64_t next_index_ = 0;  // of the caller's thread: what was handed out
  std::vector<std::int64_t> cursors_;

  std::mutex mutex_;                         // guards what follows
  std::condition_variable_any room_;         // a slot may be drawn
  std::condition_variable_any filled_;       // a slot was filled
  std::deque<std::unique_ptr<Slot>> queue_;  // samples from next_index_ on, in order
  std::int64_t drawn_index_ = 0;
  std::vector<std::int64_t> drawn_cursors_;

  std::vector<std::jthread> workers_;  // last: they stop before anything they use goes
};

Loader::Impl::Impl(const LoaderOptions& options, const SampleEncoder& encoder)
    : options_(options),
      encoder_(encoder),
      sources_(open_sources(options.data)),
      order_(options.seed, mix(options, sources_)),
      quarantine_(options.quarantine_path, options.data.bad_fraction, options.data.bad_at_least),
      cursors_(sources_.size()),
      drawn_cursors_(sources_.size()) {
  TRIB_REQUIRE(options_.data.workers >= 1, .what = "data: no decoding thread",
               .where = "data.workers", .found = str(options_.data.workers),
               .expected = "1 or more");
  TRIB_REQUIRE(options_.batch_samples >= 1, .what = "data: empty batch",
               .where = "batch.global_samples", .found = str(options_.batch_samples),
               .expected = "1 or more");
  std::int64_t reachable = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (options_.data.sources[i].weight == 0) continue;
    reachable += sources_[i]->train_size();
    TRIB_REQUIRE(sources_[i]->train_size() > 0, .what = "data: source has no training record",
                 .where = options_.data.sources[i].path,
                 .found = str(sources_[i]->held_out_size(), " records, all held out"),
                 .fix = "lower data.held_out_fraction");
  }
  TRIB_REQUIRE(reachable >= options_.batch_samples, .what = "data: fewer samples than one batch",
               .where = "data.sources", .found = str(reachable, " training samples"),
               .expected = str("at least ", options_.batch_samples, " (batch.global_samples)"),
               .fix = "lower batch.global_samples or add data");
}

Draw Loader::Impl::draw_next() {
  const int source = order_.source_at(drawn_index_);
  return {drawn_index_++, source, drawn_cursors_[static_cast<std::size_t>(source)]++};
}

/// Whether a sample is of this loader's part; the others are drawn and left to other ranks.
bool Loader::Impl::is_own(std::int64_t index) const {
  return index % options_.batch_samples % options_.parts == options_.part;
}

/// Reads, decodes and encodes the sample of a slot; a bad record gives way to the next replacement.
void Loader::Impl::fill(Slot& slot) const {
  const auto [index, source, position] = slot.draw;
  const SourceFiles& files = *sources_[static_cast<std::size_t>(source)];
  std::int64_t item = order_.item_at(source, position);
  for (std::int64_t attempt = 0; attempt <= kMostReplacements; ++attempt) {
    const Result<Record> record = files.read_train(item);
    Result<EncodedSample> sample =
        record ? encoder_.encode(record.value()) : Result<EncodedSample>(record.refusal());
    const std::int64_t in_file = files.train_record(item);
    if (sample) {
      slot.sample = std::move(sample).value();
      slot.sample.id = index;
      slot.sample.source = source;
      slot.sample.key = files.file().key(in_file);
      return;
    }
    slot.rejections.push_back({{source, in_file},
                               files.file().key(in_file),
                               files.file().offset(in_file),
                               files.digest_beginning(in_file),
                               sample.refusal()});
    item = order_.replacement(source, index, attempt);
  }
  TRIB_RAISE(Fault::kInput, .what = "data: no good record found in place of a bad one",
             .where = files.file().path(),
             .found = str(kMostReplacements + 1, " bad records in a row, the last: ",
                          slot.rejections.back().refusal.reason),
             .exit = ExitCode::kDataLimit);
}

void Loader::Impl::start_workers() {
  if (!workers_.empty()) return;
  for (int i = 0; i < options_.data.workers; ++i)
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

void Loader::Impl::work(const std::stop_token& stop) {
  const auto capacity = static_cast<std::size_t>(std::max(1, options_.data.prefetch_batches) *
                                                 options_.batch_samples);
  std::unique_lock lock(mutex_);
  while (room_.wait(lock, stop, [&] { return queue_.size() < capacity; }) &&
         !stop.stop_requested()) {
    Slot& slot = *queue_.emplace_back(std::make_unique<Slot>());
    slot.draw = draw_next();
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (is_own(slot.draw.index)) fill(slot);
    } catch (...) {
      failure = std::current_exception();  // raised again where the sample is handed out
    }
    lock.lock();
    slot.failure = failure;
    slot.is_filled = true;
    filled_.notify_all();
  }
}

/// Waits until the next batch is filled and takes it out of the queue.
std::vector<std::unique_ptr<Slot>> Loader::Impl::take_batch() {
  std::vector<std::unique_ptr<Slot>> batch;
  std::unique_lock lock(mutex_);
  while (std::ssize(batch) < options_.batch_samples) {
    const auto is_ready = [&] { return !queue_.empty() && queue_.front()->is_filled; };
    if (!filled_.wait_for(lock, options_.sample_deadline, is_ready))
      TRIB_RAISE(Fault::kResource, .what = "data: sample was not read in time",
                 .where = str("sample ", next_index_ + std::ssize(batch)),
                 .expected = str("within ", options_.sample_deadline.count(), " ms"),
                 .fix = "look whether the disk of the data set answers", .exit = ExitCode::kHang);
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
    room_.notify_one();
  }
  return batch;
}

std::vector<EncodedSample> Loader::Impl::next_batch() {
  start_workers();
  std::vector<EncodedSample> samples;
  for (std::unique_ptr<Slot>& slot : take_batch()) {
    ++next_index_;
    ++cursors_[static_cast<std::size_t>(slot->draw.source)];
    // In the order of the samples, so that counts and limit do not depend on the threads.
    for (const Rejection& rejection : slot->rejections) quarantine_.add(rejection, good_records());
    if (slot->failure) std::rethrow_exception(slot->failure);
    if (is_own(slot->draw.index)) samples.push_back(std::move(slot->sample));
  }
  return samples;
}

EncodedSample Loader::Impl::load(std::int64_t id) const {
  TRIB_CHECK(id >= 0 && id < next_index_, .what = "data: sample was not handed out yet",
             .found = str(id), .expected = str("below ", next_index_));
  Slot slot;
  slot.draw = {.index = id, .source = order_.source_at(id), .position = 0};
  std::int64_t later = 0;  // draws of the same source since
  for (std::int64_t index = id; index < next_index_; ++index)
    later += order_.source_at(index) == slot.draw.source ? 1 : 0;
  slot.draw.position = cursors_[static_cast<std::size_t>(slot.draw.source)] - later;
  fill(slot);
  return std::move(slot.sample);
}

/// Every index drawn ends in one good record, whatever was tried before.
std::int64_t Loader::Impl::good_records() const {
  std::int64_t good = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    good += std::min(cursors_[i], sources_[i]->train_size());
  return good;
}

LoaderState Loader::Impl::state() const {
  LoaderState state;
  state.seed = options_.seed;
  state.held_out_fraction = options_.data.held_out_fraction;
  for (const auto& source : sources_) state.sources.push_back(source->digest());
  state.weights = weights_of(options_.data);
  state.start_steps = start_steps_of(options_.data);
  state.next_index = next_index_;
  state.cursors = cursors_;
  state.quarantined = quarantine_.records();
  state.bad = quarantine_.counts();
  return state;
}

void Loader::Impl::restore(const LoaderState& saved, std::span<const std::string> accepted) {
  const LoaderState own = state();
  const auto refuse_if = [&](bool differs, const char* what, const char* key,
                             const std::string& found, const std::string& expected) {
    const bool may_differ = std::ranges::find(accepted, key) != accepted.end();
    TRIB_REQUIRE(!differs || may_differ, .what = str("data: resumed run has another ", what),
                 .found = found, .expected = expected,
                 .fix = "resume with the data section of the first run",
                 .exit = ExitCode::kCheckpointRefused);
  };
  refuse_if(saved.seed != own.seed, "seed", "run.seed", str(own.seed), str(saved.seed));
  refuse_if(saved.held_out_fraction != own.held_out_fraction, "held_out_fraction",
            "data.held_out_fraction", str(own.held_out_fraction), str(saved.held_out_fraction));
  refuse_if(
      saved.sources.size() != own.sources.size() || saved.cursors.size() != own.cursors.size(),
      "number of sources", "", str(own.sources.size()), str(saved.sources.size()));
  for (std::size_t i = 0; i < own.sources.size(); ++i) {
    refuse_if(saved.sources[i] != own.sources[i], "data set", "data.digest",
              describe(own.sources[i]), describe(saved.sources[i]));
  }
  refuse_if(saved.weights != own.weights || saved.start_steps != own.start_steps, "mixture",
            "data.sources", "other weights or start steps", "the saved ones");
  const std::int64_t drawn =
      std::accumulate(saved.cursors.begin(), saved.cursors.end(), std::int64_t{0});
  refuse_if(drawn != saved.next_index ||
                std::ranges::any_of(saved.cursors, [](std::int64_t cursor) { return cursor < 0; }),
            "cursor", "", str("cursors that sum up to ", drawn), str(saved.next_index));

  workers_.clear();  // stops and joins
  queue_.clear();
  next_index_ = drawn_index_ = saved.next_index;
  cursors_ = drawn_cursors_ = saved.cursors;
  quarantine_.restore(saved.quarantined, saved.bad);
}

std::string describe(const SourceDigest& source) {
  return str(source.name, ": ", source.records, " records, ", source.bytes, " bytes, content ",
             source.content, source.images.empty() ? "" : ", first images ", source.images);
}

std::int64_t Loader::Impl::records() const {
  std::int64_t all = 0;
  for (const auto& source : sources_) all += source->train_size();
  return all;
}

Loader::Loader(const LoaderOptions& options, const SampleEncoder& encoder)
    : impl_(std::make_unique<Impl>(options, encoder)) {}
Loader::~Loader() = default;
std::vector<EncodedSample> Loader::next_batch() { return impl_->next_batch(); }
EncodedSample Loader::load(std::int64_t id) const { return impl_->load(id); }
LoaderState Loader::state() const { return impl_->state(); }
void Loader::restore(const LoaderState& state, std::span<const std::string> accepted) {
  impl_->restore(state, accepted);
}
std::int64_t Loader::records() const { return impl_->records(); }

}  // namespace tributary::data
