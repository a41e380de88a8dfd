#include <atomic>
#include <condition_variable>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "core/random.h"
#include "tests/data/small_mixture.h"

namespace tributary::data {
namespace {

/// Encodes letters; a record that begins with "late" has a good header, but bad pixels.
class LateEncoder final : public SampleEncoder {
 public:
  Result<SampleShape> describe(const Record& record) const override {
    return letters_.describe(record);
  }
  Result<EncodedSample> encode(const Record& record) const override {
    ++decoded;
    const std::string text = std::get<std::string>(record.turns.front().parts.front());
    if (text.starts_with("late")) return Refusal{"late_error", "text is " + text};
    return letters_.encode(record);
  }
  Result<EncodedSample> encode_without(const Record& record, ModalitySet /*rows*/) const override {
    return letters_.encode(record);
  }
  Result<HeldOutSample> encode_held_out(const Record& record) const override {
    return letters_.encode_held_out(record);
  }
  mutable std::atomic<int> decoded = 0;

 private:
  LetterEncoder letters_;
};

/// Deals parts by the shapes only, so that they differ from the parts without a deal.
std::vector<std::int32_t> deal_by_length(std::int64_t first_index,
                                         std::span<const SampleShape> shapes, std::int64_t parts) {
  std::vector<std::int32_t> part_of;
  for (const SampleShape& shape : shapes)
    part_of.push_back(static_cast<std::int32_t>(
        mix_bits(static_cast<std::uint64_t>(first_index + 31 * shape.tokens.count)) %
        static_cast<std::uint64_t>(parts)));
  return part_of;
}

/// Lets a part take what deal_by_length gives it, of which its readers read in turn.
Deal deal_to(std::int64_t part, std::int64_t parts, std::int64_t reader = 0,
             std::int64_t readers = 1) {
  return [=](std::int64_t first, std::span<const SampleShape> shapes) {
    std::vector<SampleDuty> duties;
    std::int64_t place = 0;  // among the samples of the part
    for (const std::int32_t each : deal_by_length(first, shapes, parts)) {
      const bool takes = each == part;
      duties.push_back(
          {.takes = takes, .reads = takes && place++ % readers == reader, .counts = takes});
    }
    return duties;
  };
}

class DealTest : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    folder_.write("large.jsonl", lines_of("l", 40) + line_of("bad one") + "{broken\n" +
                                     line_of("late one") + lines_of("m", 30) + line_of("late two"));
  }
  LoaderOptions part(std::int64_t part, std::int64_t parts) const {
    LoaderOptions chosen = options();
    chosen.part = part;
    chosen.parts = parts;
    chosen.deal = deal_to(part, parts);
    return chosen;
  }
  static std::string name_of(const EncodedSample& sample) {
    return str(sample.source, " ", sample.key, " ", text_of(sample));
  }
  std::map<std::int64_t, std::string> samples_of_one(int batches) const {
    Loader one(options(), late_);
    std::map<std::int64_t, std::string> samples;
    for (int i = 0; i < batches; ++i)
      for (const EncodedSample& sample : one.next_batch()) samples[sample.id] = name_of(sample);
    return samples;
  }

  LateEncoder late_;
};

constexpr int kBatches = 40;

TEST_F(DealTest, PartsTogetherHandOutWhatOneLoaderDoes) {
  const auto expected = samples_of_one(kBatches);
  Loader one(options(), late_);
  for (int i = 0; i < kBatches; ++i) (void)one.next_batch();
  std::map<std::int64_t, std::string> samples;
  std::set<QuarantinedRecord> bad;
  for (std::int64_t p = 0; p < 3; ++p) {
    Loader loader(part(p, 3), late_);
    for (int i = 0; i < kBatches; ++i) {
      std::int64_t last = -1;
      for (const EncodedSample& sample : loader.next_batch()) {
        EXPECT_GT(sample.id, last) << "ids ascend";
        last = sample.id;
        EXPECT_TRUE(samples.emplace(sample.id, name_of(sample)).second) << "handed out twice";
      }
    }
    EXPECT_EQ(loader.state().next_index, one.state().next_index);
    EXPECT_EQ(loader.state().cursors, one.state().cursors);
    for (const QuarantinedRecord& record : loader.state().quarantined) bad.insert(record);
  }
  EXPECT_EQ(samples, expected);
  const std::vector<QuarantinedRecord> of_one = one.state().quarantined;
  EXPECT_EQ(bad, std::set<QuarantinedRecord>(of_one.begin(), of_one.end()));
  EXPECT_EQ(of_one.size(), 4) << "bad header, broken line, and two with bad pixels";
}

TEST_F(DealTest, APartDecodesItsOwnSamplesAlone) {
  folder_.write("large.jsonl", lines_of("l", 82));
  LoaderOptions chosen = part(1, 4);
  chosen.data.prefetch_batches = 1;
  int own = 0;
  {
    Loader loader(chosen, late_);
    for (int i = 0; i < kBatches; ++i) own += static_cast<int>(loader.next_batch().size());
  }
  EXPECT_GT(own, kBatches);
  EXPECT_LT(own, kBatches * 3);
  EXPECT_GE(late_.decoded, own);
  EXPECT_LE(late_.decoded, own + 8) << "of the batch read ahead";
}

TEST_F(DealTest, WhatOthersEncodeIsDecodedOnlyWhereItsPixelsAreBad) {
  Loader one(options(), late_);
  std::vector<std::string> expected;
  for (int i = 0; i < kBatches; ++i)
    for (const EncodedSample& sample : one.next_batch()) expected.push_back(name_of(sample));
  const LateEncoder encoder;
  LoaderOptions leaving = part(0, 1);
  leaving.leaves = [](std::int64_t id) {
    return id % 8 == 3 ? ModalitySet() : ModalitySet(kMediaModalities);  // this one nobody encodes
  };
  leaving.lacks = [](const EncodedSample& sample) { return text_of(sample).starts_with("late"); };
  std::vector<std::string> found;
  Loader loader(leaving, encoder);
  loader.end_at(kBatches * 8);
  for (int i = 0; i < kBatches; ++i)
    for (const EncodedSample& sample : loader.next_batch()) found.push_back(name_of(sample));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(loader.state().quarantined, one.state().quarantined);
  EXPECT_GE(encoder.decoded, kBatches);
  EXPECT_LE(encoder.decoded, 2 * kBatches) << "one of 8, bad ones, and those in their place";
}

/// Exchanges messages between the readers of one part, which are threads.
class Meeting {
 public:
  explicit Meeting(std::size_t readers) : readers_(readers), messages_(readers) {}
  /// The Pass of one reader. It waits until all other readers have called theirs.
  Pass pass_of(std::size_t reader) {
    return [this, reader](std::int64_t /*first_index*/, const WriteRead& write) {
      std::unique_lock lock(mutex_);
      messages_[reader] = write([](std::int64_t) { return ModalitySet(kMediaModalities); });
      const std::int64_t own_turn = turn_;
      if (++here_ == readers_) {
        here_ = 0;
        ++turn_;
        result_ = messages_;
        all_here_.notify_all();
      }
      all_here_.wait(lock, [&] { return turn_ > own_turn; });
      std::vector<std::string> others = result_;
      others[reader].clear();
      return others;
    };
  }

 private:
  std::size_t readers_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t here_ = 0;
  std::int64_t turn_ = 0;
  std::vector<std::string> messages_;
  std::vector<std::string> result_;
};

TEST_F(DealTest, ReadersOfAPartDecodeEachSampleOnceAndHaveAllOfIt) {
  constexpr std::size_t kReaders = 3;
  for (const bool is_dealt : {false, true}) {
    LoaderOptions of_part = is_dealt ? part(1, 2) : options();
    of_part.data.prefetch_batches = 1;
    std::vector<std::string> expected;
    std::int64_t decoded_alone = 0;
    std::vector<QuarantinedRecord> bad;
    {
      const LateEncoder encoder;
      Loader alone(of_part, encoder);
      for (int i = 0; i < kBatches; ++i)
        for (const EncodedSample& sample : alone.next_batch()) expected.push_back(name_of(sample));
      decoded_alone = encoder.decoded;
      bad = alone.state().quarantined;
    }
    const LateEncoder shared;  // counts what all readers decode
    Meeting meeting(kReaders);
    std::vector<std::vector<std::string>> found(kReaders);
    std::vector<std::vector<QuarantinedRecord>> quarantined(kReaders);
    std::vector<std::jthread> threads;
    for (std::size_t reader = 0; reader < kReaders; ++reader)
      threads.emplace_back([&, reader] {
        LoaderOptions own = of_part;
        own.reader = static_cast<std::int64_t>(reader);
        own.readers = kReaders;
        if (is_dealt) own.deal = deal_to(1, 2, own.reader, own.readers);
        own.pass = meeting.pass_of(reader);
        Loader loader(own, shared);
        for (int i = 0; i < kBatches; ++i)
          for (const EncodedSample& sample : loader.next_batch())
            found[reader].push_back(name_of(sample));
        quarantined[reader] = loader.state().quarantined;
      });
    threads.clear();  // joins
    for (std::size_t reader = 0; reader < kReaders; ++reader) {
      EXPECT_EQ(found[reader], expected);
      EXPECT_EQ(quarantined[reader], bad);
    }
    EXPECT_NEAR(static_cast<double>(shared.decoded), static_cast<double>(decoded_alone), 16)
        << "but for what was read ahead";
  }
}

TEST_F(DealTest, GoesOnFromAStateUnderAnotherNumberOfParts) {
  const auto expected = samples_of_one(kBatches);
  Loader first(part(0, 3), late_);
  for (int i = 0; i < kBatches / 2; ++i) (void)first.next_batch();
  const LoaderState state = first.state();
  std::map<std::int64_t, std::string> samples;
  for (std::int64_t p = 0; p < 2; ++p) {
    Loader loader(part(p, 2), late_);
    (void)loader.next_batch();  // what was read ahead is dropped
    loader.restore(state);
    for (int i = kBatches / 2; i < kBatches; ++i)
      for (const EncodedSample& sample : loader.next_batch()) samples[sample.id] = name_of(sample);
  }
  auto later = expected;
  std::erase_if(later, [&](const auto& sample) { return sample.first < state.next_index; });
  EXPECT_EQ(samples, later);
}

TEST_F(DealTest, IsABatchAheadSoThatNobodyWaits) {
  LoaderOptions chosen = options();
  chosen.data.prefetch_batches = 1;
  std::atomic<int> dealt = 0;
  chosen.deal = [&](std::int64_t first, std::span<const SampleShape> shapes) {
    EXPECT_EQ(first, 8 * dealt) << "batch by batch";
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ++dealt;
    return std::vector<SampleDuty>(shapes.size(), {.takes = true, .reads = true, .counts = true});
  };
  Loader loader(chosen, late_);
  EXPECT_EQ(loader.next_batch().size(), 8);
  EXPECT_GT(loader.deal_seconds().waited, 0.02) << "nothing could be ahead of the first batch";
  for (int step = 1; step < 4; ++step) {
    for (int waits = 0; waits < 200 && dealt <= step; ++waits)  // about as long as a step
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(dealt, step + 1);
    (void)loader.next_batch();
    EXPECT_LT(loader.deal_seconds().waited, 0.005);
    EXPECT_GT(loader.deal_seconds().dealing, 0.02);
  }
}

TEST_F(DealTest, AnErrorOfTheDealReachesTheCaller) {
  LoaderOptions chosen = options();
  chosen.deal = [](std::int64_t first, std::span<const SampleShape> shapes) {
    if (first > 0) throw std::runtime_error("no deal");
    return std::vector<SampleDuty>(shapes.size(), {.takes = true, .reads = true, .counts = true});
  };
  Loader loader(chosen, late_);
  EXPECT_EQ(loader.next_batch().size(), 8);
  EXPECT_THROW((void)loader.next_batch(), std::runtime_error);
  chosen.deal = [](std::int64_t, std::span<const SampleShape>) {
    return std::vector<SampleDuty>(1);
  };
  Loader short_dealt(chosen, late_);
  EXPECT_THROW((void)short_dealt.next_batch(), Error);
}

}  // namespace
}  // namespace tributary::data
