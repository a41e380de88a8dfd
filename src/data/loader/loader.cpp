#include "data/loader/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <stop_token>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "data/loader/data_order.h"
#include "data/loader/fill_slots.h"
#include "data/loader/look_at_sources.h"
#include "data/loader/pass_batch.h"
#include "data/loader/quarantine.h"
#include "data/loader/sample_reader.h"
#include "data/loader/source_files.h"

namespace tributary::data {
class Loader::Impl {
 public:
  Impl(const LoaderOptions& options, const SampleEncoder& encoder);

  std::vector<EncodedSample> next_batch();
  std::int64_t next_index() const { return next_index_; }
  DealSeconds deal_seconds() const { return deal_seconds_; }
  std::int64_t media_decoded() const { return media_decoded_; }
  void end_at(std::int64_t index) {
    const std::scoped_lock lock(mutex_);
    end_ = index;
  }
  EncodedSample load(std::int64_t id) const;
  std::vector<Picture> pictures(std::int64_t id) const { return reader_.pictures(draw_of(id)); }
  LoaderState state() const;
  void restore(const LoaderState& state, std::span<const std::string> accepted);
  std::int64_t records() const;
  std::int64_t left_out() const {
    return std::accumulate(left_out_.begin(), left_out_.end(), std::int64_t{0});
  }
  DataLook look() { return look_at_sources(options_.data, sources_, encoder_, unread_keys_); }

 private:
  void start_workers();
  void work(const std::stop_token& stop);
  Slot* take_work(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  void deal_ahead(const std::stop_token& stop);
  std::vector<std::unique_ptr<Slot>> deal_batch(const std::vector<Draw>& draws) const;
  Draw draw_next();
  Draw draw_of(std::int64_t id) const;
  bool is_in_turn(std::int64_t index) const;
  bool reads(std::int64_t place) const { return place % options_.readers == options_.reader; }
  std::size_t max_queued() const;
  DealSeconds wait_for_deal(std::unique_lock<std::mutex>& lock);
  bool may_draw() const { return drawn_index_ < end_; }
  Batch take_batch();
  Batch take_and_pass();
  Batch take_passed();
  std::int64_t good_records() const;
  void count_passed(const Slot& slot);

  LoaderOptions options_;
  const SampleEncoder& encoder_;
  std::vector<std::unique_ptr<SourceFiles>> sources_;
  DataOrder order_;
  SampleReader reader_;
  Quarantine quarantine_;
  std::set<std::string> unread_keys_;  // those that were reported

  std::int64_t next_index_ = 0;  // samples handed out; belongs to the caller's thread
  std::vector<std::int64_t> cursors_;
  std::vector<std::int64_t> left_out_;
  DealSeconds deal_seconds_;
  std::int64_t media_decoded_ = 0;

  mutable std::mutex counting_;  // guards the next two
  mutable std::int64_t counted_ = 0;
  mutable std::vector<std::int64_t> drawn_before_;  // sample counted_, from each source

  std::mutex mutex_;                         // guards what follows
  std::condition_variable_any room_;         // a slot may be drawn, or was dealt
  std::condition_variable_any filled_;       // a slot was filled, or dealt
  std::deque<std::unique_ptr<Slot>> queue_;  // samples from next_index_ on, in order
  std::size_t begun_ = 0;                    // slots in front that a worker has taken
  std::int64_t drawn_index_ = 0;
  std::int64_t end_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> drawn_cursors_;

  std::vector<std::jthread> workers_;  // they stop before anything they use goes
  std::future<Batch> passing_;         // the batch after the one handed out; it ends before them
};

Loader::Impl::Impl(const LoaderOptions& options, const SampleEncoder& encoder)
    : options_(options),
      encoder_(encoder),
      sources_(open_sources(options.data, answers_of(encoder))),
      order_(options.seed, mix(options.data, sources_, encoder, options.batch_samples)),
      reader_(sources_, order_, encoder, options.data.too_long),
      quarantine_(options.quarantine_path, options.data.bad_fraction, options.data.bad_at_least),
      cursors_(sources_.size()),
      left_out_(sources_.size()),
      drawn_before_(sources_.size()),
      drawn_cursors_(sources_.size()) {
  TRIB_REQUIRE(options_.data.workers >= 1, .what = "data: no decoding thread",
               .where = "data.workers", .found = str(options_.data.workers),
               .expected = "1 or more");
  TRIB_REQUIRE(options_.batch_samples >= 1, .what = "data: empty batch",
               .where = "batch.global_samples", .found = str(options_.batch_samples),
               .expected = "1 or more");
  require_samples(options_.data, sources_, options_.batch_samples);
  if (options_.data.too_long == config::TooLong::kRefuse)
    refuse_too_long(options_.data, sources_, encoder_);
}

Draw Loader::Impl::draw_next() {
  const int source = order_.source_at(drawn_index_);
  return {drawn_index_++, source, drawn_cursors_[static_cast<std::size_t>(source)]++};
}

/// Whether a sample is in this loader's part when there is no deal. The others are drawn too.
bool Loader::Impl::is_in_turn(std::int64_t index) const {
  return index % options_.batch_samples % options_.parts == options_.part;
}

std::size_t Loader::Impl::max_queued() const {
  return static_cast<std::size_t>(std::max(1, options_.data.prefetch_batches) *
                                  options_.batch_samples);
}

void Loader::Impl::start_workers() {
  if (!workers_.empty()) return;
  const auto start = [this](void (Impl::*run)(const std::stop_token&)) {
    workers_.emplace_back([this, run](const std::stop_token& stop) {
      if (options_.begin_thread) options_.begin_thread();
      (this->*run)(stop);
    });
  };
  if (options_.deal) start(&Impl::deal_ahead);
  for (int i = 0; i < options_.data.workers; ++i) start(&Impl::work);
}

/// Makes the slots of a batch and deals them by their shapes.
std::vector<std::unique_ptr<Slot>> Loader::Impl::deal_batch(const std::vector<Draw>& draws) const {
  std::vector<std::unique_ptr<Slot>> slots;
  for (const Draw& draw : draws) slots.emplace_back(std::make_unique<Slot>())->draw = draw;
  try {
    Stopwatch watch;
    std::vector<SampleShape> shapes;
    for (const Draw& draw : draws) shapes.push_back(reader_.describe(draw));
    slots.front()->seconds.describing = watch.lap();
    const std::vector<SampleDuty> duties = options_.deal(draws.front().index, shapes);
    TRIB_CHECK(duties.size() == slots.size(), .what = "data: not every sample was dealt",
               .found = str(duties.size()), .expected = str(slots.size()));
    slots.front()->seconds.dealing = watch.lap();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i]->duty = duties[i];
      slots[i]->is_filled = !duties[i].reads;
    }
  } catch (...) {
    slots.front()->failure = std::current_exception();  // raised where the batch is handed out
    for (auto& slot : slots) slot->is_filled = true;
  }
  return slots;
}

/// Deals batches ahead, whenever the queue has room for a whole one.
void Loader::Impl::deal_ahead(const std::stop_token& stop) {
  const auto samples = static_cast<std::size_t>(options_.batch_samples);
  std::unique_lock lock(mutex_);
  const auto has_work = [&] { return queue_.size() + samples <= max_queued() && may_draw(); };
  while (room_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    std::vector<Draw> draws;
    for (std::size_t i = 0; i < samples; ++i) draws.push_back(draw_next());
    lock.unlock();
    std::vector<std::unique_ptr<Slot>> slots = deal_batch(draws);
    lock.lock();
    for (std::unique_ptr<Slot>& slot : slots) queue_.push_back(std::move(slot));
    room_.notify_all();
    filled_.notify_all();
  }
}

/// Waits for a slot to fill: the next dealt one, or without a deal a new one. Null means stop.
Slot* Loader::Impl::take_work(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  const auto has_work = [&] {
    while (begun_ < queue_.size() && queue_[begun_]->is_filled) ++begun_;
    return options_.deal ? begun_ < queue_.size() : queue_.size() < max_queued() && may_draw();
  };
  if (!room_.wait(lock, stop, has_work) || stop.stop_requested()) return nullptr;
  if (!options_.deal) {
    Slot& slot = *queue_.emplace_back(std::make_unique<Slot>());
    slot.draw = draw_next();
    slot.duty.takes = slot.duty.counts = is_in_turn(slot.draw.index);
    slot.duty.reads =
        slot.duty.takes && reads(slot.draw.index % options_.batch_samples / options_.parts);
  }
  return queue_[begun_++].get();
}

void Loader::Impl::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (Slot* slot = take_work(lock, stop)) {
    lock.unlock();
    const std::int64_t id = slot->draw.index;
    if (slot->duty.reads)
      fill_slot(reader_, *slot, options_.leaves ? options_.leaves(id) : ModalitySet{});
    lock.lock();
    slot->is_filled = true;
    filled_.notify_all();
  }
}

/// Waits until the next batch is dealt, which usually has happened long before.
DealSeconds Loader::Impl::wait_for_deal(std::unique_lock<std::mutex>& lock) {
  const Stopwatch watch;
  const auto is_dealt = [&] { return std::ssize(queue_) >= options_.batch_samples; };
  const bool had_to_wait = !is_dealt();
  if (!filled_.wait_for(lock, options_.sample_deadline, is_dealt))
    TRIB_RAISE(Fault::kResource, .what = "data: batch was not dealt in time",
               .where = str("sample ", drawn_index_),
               .expected = str("within ", options_.sample_deadline.count(), " ms"),
               .fix = "look whether the disk of the data set answers", .exit = ExitCode::kHang);
  DealSeconds seconds = queue_.front()->seconds;
  seconds.waited = had_to_wait ? watch.seconds() : 0;
  return seconds;
}

/// Waits until the next batch is filled and takes it out of the queue.
Batch Loader::Impl::take_batch() {
  Batch batch;
  std::unique_lock lock(mutex_);
  if (options_.deal) batch.seconds = wait_for_deal(lock);
  while (std::ssize(batch.slots) < options_.batch_samples) {
    const auto is_ready = [&] { return !queue_.empty() && queue_.front()->is_filled; };
    if (!filled_.wait_for(lock, options_.sample_deadline, is_ready))
      TRIB_RAISE(
          Fault::kResource, .what = "data: sample was not read in time",
          .where = str("sample ", queue_.empty() ? drawn_index_ : queue_.front()->draw.index),
          .expected = str("within ", options_.sample_deadline.count(), " ms"),
          .fix = "look whether the disk of the data set answers", .exit = ExitCode::kHang);
    batch.slots.push_back(std::move(queue_.front()));
    queue_.pop_front();
    begun_ -= begun_ > 0 ? 1 : 0;  // 0 if no worker has passed a slot of another part
    room_.notify_all();
  }
  lock.unlock();
  if (options_.lacks) fill_lacking(reader_, batch, options_);
  return batch;
}

Batch Loader::Impl::take_and_pass() {
  Batch batch = take_batch();
  pass_batch(batch, options_.pass);
  return batch;
}

/// Takes a batch that has been passed on while the one before was trained on, and lets the next one
/// be passed on. Every loader asks for each batch, so each exchange has all of them.
Batch Loader::Impl::take_passed() {
  const Stopwatch watch;
  Batch batch = passing_.valid() ? passing_.get() : take_and_pass();
  batch.seconds.waited = std::min(batch.seconds.waited, watch.seconds());
  if (next_index_ + options_.batch_samples < end_)
    passing_ = std::async(std::launch::async, [this] {
      if (options_.begin_thread) options_.begin_thread();
      return take_and_pass();
    });
  return batch;
}

std::vector<EncodedSample> Loader::Impl::next_batch() {
  TRIB_CHECK(next_index_ < end_, .what = "data: batch behind the end of the run",
             .found = str("sample ", next_index_));
  start_workers();
  std::vector<EncodedSample> samples;
  Batch batch = options_.pass ? take_passed() : take_batch();
  deal_seconds_ = batch.seconds;
  media_decoded_ = 0;
  for (std::unique_ptr<Slot>& slot : batch.slots) {
    if (slot->duty.reads) media_decoded_ += count_decoded(slot->read.sample);
    ++next_index_;
    ++cursors_[static_cast<std::size_t>(slot->draw.source)];
    // In the order of the samples, so that counts and limit do not depend on the threads.
    if (slot->duty.counts) count_passed(*slot);
    if (slot->failure) std::rethrow_exception(slot->failure);
    TRIB_REQUIRE(slot->read.passed.limit.empty(),
                 .what = "data: another rank of the replica met data beyond a limit",
                 .found = slot->read.passed.limit, .exit = ExitCode::kDataLimit);
    if (slot->duty.takes) samples.push_back(std::move(slot->read.sample));
  }
  return samples;
}

/// The draw of a sample, handed out or not.
Draw Loader::Impl::draw_of(std::int64_t id) const {
  TRIB_CHECK(id >= 0, .what = "data: no such sample", .found = str(id));
  const int source = order_.source_at(id);
  const std::scoped_lock lock(counting_);
  const auto drawn_from = [this](int from) -> std::int64_t& {
    return drawn_before_[static_cast<std::size_t>(from)];
  };
  while (counted_ < id) ++drawn_from(order_.source_at(counted_++));
  while (counted_ > id) --drawn_from(order_.source_at(--counted_));
  return {.index = id, .source = source, .position = drawn_from(source)};
}

EncodedSample Loader::Impl::load(std::int64_t id) const {
  ReadSample read;
  reader_.read(draw_of(id), read);
  return std::move(read.sample);
}

/// Counts the records that were passed over for a sample, and warns once of each key that nothing
/// reads; look() has reported those of the first records.
void Loader::Impl::count_passed(const Slot& slot) {
  const auto source = static_cast<std::size_t>(slot.draw.source);
  const Passed& passed = slot.read.passed;
  for (const Rejection& rejection : passed.bad)
    quarantine_.add(rejection, good_records(), sources_[source]->train_size());
  left_out_[source] += passed.is_left_out ? 1 : 0;
  const std::string& name = options_.data.sources[source].name;
  for (const std::string& key : passed.unread_keys)
    if (unread_keys_.insert(str(name, " ", key)).second && !options_.quarantine_path.empty())
      log_warning(str("data: nothing reads the key ", key, " of source ", name, ", first seen in ",
                      slot.read.sample.key));
}

/// Good records so far: every index drawn ends in one, whatever was tried before.
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
  for (const config::SourceSection& source : options_.data.sources) {
    state.weights.push_back(source.weight);
    state.start_steps.push_back(source.start_step);
  }
  state.next_index = next_index_;
  state.cursors = cursors_;
  state.quarantined = quarantine_.records();
  state.left_out = left_out_;
  return state;
}

void Loader::Impl::restore(const LoaderState& saved, std::span<const std::string> accepted) {
  check_same_data(saved, state(), accepted);
  if (passing_.valid()) (void)passing_.get();
  workers_.clear();  // stops and joins
  queue_.clear();
  begun_ = 0;
  next_index_ = drawn_index_ = saved.next_index;
  cursors_ = drawn_cursors_ = saved.cursors;
  {
    const std::scoped_lock counting(counting_);
    counted_ = saved.next_index;
    drawn_before_ = saved.cursors;
  }
  left_out_ = saved.left_out;
  quarantine_.restore(saved.quarantined);
}

std::int64_t Loader::Impl::records() const {
  std::int64_t records = 0;
  for (const auto& source : sources_) records += source->train_size();
  return records;
}

Loader::Loader(const LoaderOptions& options, const SampleEncoder& encoder)
    : impl_(std::make_unique<Impl>(options, encoder)) {}
Loader::~Loader() = default;
std::vector<EncodedSample> Loader::next_batch() { return impl_->next_batch(); }
std::int64_t Loader::next_index() const { return impl_->next_index(); }
void Loader::end_at(std::int64_t index) { impl_->end_at(index); }
std::int64_t Loader::media_decoded() const { return impl_->media_decoded(); }
DealSeconds Loader::deal_seconds() const { return impl_->deal_seconds(); }
EncodedSample Loader::load(std::int64_t id) const { return impl_->load(id); }
std::vector<Picture> Loader::pictures(std::int64_t id) const { return impl_->pictures(id); }
LoaderState Loader::state() const { return impl_->state(); }
void Loader::restore(const LoaderState& state, std::span<const std::string> accepted) {
  impl_->restore(state, accepted);
}
std::int64_t Loader::records() const { return impl_->records(); }
std::int64_t Loader::left_out() const { return impl_->left_out(); }
DataLook Loader::look() { return impl_->look(); }

}  // namespace tributary::data
