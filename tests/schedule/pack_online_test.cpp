#include "schedule/pack_online.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/schedule/packing_oracle.h"

namespace tributary::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Samples = std::vector<std::vector<std::int64_t>>;

Samples samples_of(const std::vector<ClosedBin>& bins) {
  Samples samples;
  for (const ClosedBin& bin : bins) samples.push_back(bin.samples);
  return samples;
}

void append(std::vector<ClosedBin>& all, std::vector<ClosedBin> more) {
  for (ClosedBin& bin : more) all.push_back(std::move(bin));
}

TEST(OnlinePacker, ClosesBinsAsTheyFill) {
  OnlinePacker packer({.capacity = {10}});
  EXPECT_TRUE(packer.add(100, {6}).empty());
  EXPECT_TRUE(packer.add(101, {7}).empty());
  EXPECT_THAT(samples_of(packer.add(102, {3})), ElementsAre(ElementsAre(101, 102)));
  const std::vector<ClosedBin> full = packer.add(103, {4});
  EXPECT_THAT(samples_of(full), ElementsAre(ElementsAre(100, 103)));
  EXPECT_EQ(full[0].used, Tokens{10});
  EXPECT_EQ(full[0].waited, 3);
  EXPECT_TRUE(packer.flush().empty());
}

TEST(OnlinePacker, ClosesABinThatNothingFitsInto) {
  OnlinePacker packer({.capacity = {10}, .close_below = {3}});
  EXPECT_TRUE(packer.add(0, {7}).empty());
  EXPECT_THAT(samples_of(packer.add(1, {8})), ElementsAre(ElementsAre(1)));
}

TEST(OnlinePacker, MakesTheBinsOfPackOnline) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "stream");
    const Tokens capacity = {random.between(1, 5000)};
    const std::vector<Tokens> lengths = random_lengths(random, 300, capacity.count);
    OnlinePacker packer({.capacity = capacity});
    std::vector<ClosedBin> closed;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      append(closed, packer.add(static_cast<std::int64_t>(i), lengths[i]));
    }
    append(closed, packer.flush());
    Samples found = samples_of(closed);
    std::sort(found.begin(), found.end());  // by first sample, which is the order of opening
    const PackedBins packed = pack_online(lengths, capacity);
    Samples expected;
    for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
      expected.emplace_back(packed.bin(bin).begin(), packed.bin(bin).end());
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(OnlinePacker, LetsNoSampleWaitLongerThanAllowed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "age");
    const std::int64_t max = random.between(1, 40);
    OnlinePacker packer({.capacity = {1000}, .max_waiting = max});
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < 500; ++i) {
      for (const ClosedBin& bin : packer.add(i, {random.between(1, 700)})) {
        EXPECT_EQ(bin.waited, i - bin.samples.front());
        longest = std::max(longest, bin.waited);
      }
      for (const WaitingBin& bin : packer.state().waiting) EXPECT_LT(i - bin.opened_at, max);
    }
    EXPECT_LE(longest, max);
  }
}

TEST(OnlinePacker, GoesOnFromItsStateAsIfNeverStopped) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "resume");
    const OnlinePackerOptions options = {.capacity = {random.between(10, 4000)},
                                         .close_below = {random.between(1, 10)},
                                         .max_waiting = random.between(0, 60)};
    const std::vector<Tokens> lengths = random_lengths(random, 300, options.capacity.count);
    const std::int64_t cut = random.between(0, 300);
    OnlinePacker whole(options);
    OnlinePacker part(options);
    std::vector<ClosedBin> never_stopped;
    std::vector<ClosedBin> resumed;
    for (std::int64_t i = 0; i < 300; ++i) {
      if (i == cut) part = OnlinePacker(options, OnlinePackerState(part.state()));
      append(never_stopped, whole.add(i, lengths[i]));
      append(resumed, part.add(i, lengths[i]));
    }
    EXPECT_EQ(samples_of(resumed), samples_of(never_stopped));
    EXPECT_EQ(part.state(), whole.state());
    EXPECT_EQ(samples_of(part.flush()), samples_of(whole.flush()));
    EXPECT_TRUE(part.state().waiting.empty());
  }
}

TEST(OnlinePacker, RefusesWhatCannotBe) {
  OnlinePacker packer({.capacity = {10}});
  EXPECT_THAT([&] { (void)packer.add(77, {11}); },
              ThrowsMessage<Error>(HasSubstr("where: sample 77; found: 11 tokens; expected: 1 to "
                                             "10 tokens")));
  EXPECT_THAT([] { OnlinePacker({.capacity = {0}}); },
              ThrowsMessage<Error>(HasSubstr("packing capacity out of range")));
  EXPECT_THAT([] { OnlinePacker({.capacity = {10}, .close_below = {0}}); },
              ThrowsMessage<Error>(HasSubstr("bins can never close; where: close_below")));
  EXPECT_THAT([] { OnlinePacker({.capacity = {10}, .max_waiting = -1}); },
              ThrowsMessage<Error>(HasSubstr("waiting time below 0; where: max_waiting; found: "
                                             "-1 arrivals")));
}

TEST(OnlinePacker, RefusesABufferOfAnotherRun) {
  const WaitingBin sound = {.opened_at = 3, .samples = {3, 4}, .used = {6}};
  const auto refuses = [](const OnlinePackerState& state, const std::string& words) {
    EXPECT_THAT([&] { OnlinePacker({.capacity = {10}}, state); },
                ThrowsMessage<Error>(testing::AllOf(
                    HasSubstr("schedule: packing buffer does not fit the run"), HasSubstr(words))));
  };
  EXPECT_NO_THROW(OnlinePacker({.capacity = {10}}, {.arrivals = 5, .waiting = {sound}}));
  refuses({.arrivals = 3, .waiting = {sound}}, "bin opened at 3; found: 2 samples, 6 tokens, 3");
  refuses({.arrivals = 5, .waiting = {sound, sound}}, "the oldest first");
  WaitingBin full = sound;
  full.used = {10};
  refuses({.arrivals = 5, .waiting = {full}}, "2 samples, 10 tokens");
  WaitingBin empty = sound;
  empty.samples.clear();
  refuses({.arrivals = 5, .waiting = {empty}}, "0 samples");
  WaitingBin light = sound;
  light.used = {1};
  refuses({.arrivals = 5, .waiting = {light}}, "2 samples, 1 tokens");
}

}  // namespace
}  // namespace tributary::schedule
