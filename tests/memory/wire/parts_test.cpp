#include "memory/wire/parts.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "core/random.h"
#include "tests/memory/full_size.h"

namespace tributary::memory {
namespace {

AssignMessage assign_of(std::uint64_t step, std::uint64_t objects) {
  AssignMessage message{.step = step, .version = 1};
  for (std::uint64_t i = 0; i < objects; ++i)
    message.objects.push_back({.key = {.sample = i}, .pages = 1});
  return message;
}

PartMessage part_of(const FrameContent& frame) {
  return std::get<PartMessage>(parse_message(frame.type, frame.body).value());
}

/// The message, where this was the last frame that it lacked.
std::optional<Message> given(PartCollector& collector, const FrameContent& frame) {
  const Result<std::optional<Message>> taken = collector.take(frame.type, frame.body);
  EXPECT_TRUE(taken) << taken.refusal().reason;
  return taken.value();
}

bool refuses(PartCollector& collector, const PartMessage& part) {
  return !collector.take(FrameType::kPart, body_of(part));
}

TEST(Parts, AreThoseOfMessagesThatAFrameDoesNotHold) {
  const std::size_t fits = (kMaxBodyBytes - 24) / sizeof(AssignedObject);
  EXPECT_EQ(frames_of(assign_of(0, fits)).front().type, FrameType::kAssign);
  EXPECT_EQ(frames_of(assign_of(0, fits + 1)).size(), 2);
  EXPECT_EQ(frames_of(CommitMessage{.step = 1}, /*max_bytes=*/4).size(),
            1);  // no step is so large
}

TEST(Parts, OfALargeStepTravelInWholeFrames) {
  PlanMessage plan{.step = 3, .microbatches = {{.dp_rank = 1, .order = 2}}};
  for (std::uint64_t i = 0; i < 100'000; ++i)
    plan.microbatches.front().keys.push_back({.sample = i});
  const std::vector<FrameContent> frames = frames_of(plan);
  EXPECT_EQ(frames.size(), 37);
  PartCollector collector;
  for (std::size_t i = frames.size() - 1; i > 0; --i)  // the last one first
    EXPECT_FALSE(given(collector, frames[i]));
  EXPECT_EQ(given(collector, frames.front()), std::optional<Message>(plan));
  EXPECT_EQ(collector.held_bytes(), 0);
}

TEST(Parts, MakeTheirMessagesHoweverTheyCome) {  // lost, repeated, reordered, and sent again
  RandomStream draw(0, "parts_test");
  for (int round = 0; round < cases(50, 2'000); ++round) {
    const std::vector<Message> messages = {assign_of(1, 1 + draw.below(20)), assign_of(2, 7),
                                           PlanMessage{.step = 1, .microbatches = {{}, {}, {}}}};
    std::vector<int> made(messages.size());
    PartCollector collector;
    while (std::ranges::count(made, 0) > 0) {
      std::vector<FrameContent> sent;
      for (const Message& message : messages)
        for (FrameContent& frame : frames_of(message, kPartHead + 16))
          for (std::uint64_t copies = draw.below(3); copies > 0; --copies) sent.push_back(frame);
      for (std::size_t i = sent.size(); i > 1; --i) std::swap(sent[i - 1], sent[draw.below(i)]);
      for (const FrameContent& frame : sent)
        if (const std::optional<Message> message = given(collector, frame)) {
          const auto which = std::ranges::find(messages, *message);
          ASSERT_NE(which, messages.end());  // never a mixture
          ++made[static_cast<std::size_t>(which - messages.begin())];
        }
    }
  }
}

TEST(Parts, AreRefusedWhereTheyContradictEachOther) {
  const std::vector<FrameContent> frames = frames_of(assign_of(1, 3), kPartHead + 50);
  ASSERT_EQ(frames.size(), 3);
  const PartMessage first = part_of(frames[0]);
  PartCollector collector;
  const auto refuses_after_first = [&](auto change) {
    EXPECT_FALSE(given(collector, frames[0]));
    PartMessage changed = first;
    change(changed);
    return refuses(collector, changed);
  };
  EXPECT_TRUE(refuses_after_first([](PartMessage& part) { part.content[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refuses_after_first([](PartMessage& part) { ++part.parts; }));
  EXPECT_EQ(collector.held_messages(), 0);

  PartMessage wrong = part_of(frames[2]);  // the digest finds it out
  wrong.content.back() ^= std::byte{1};
  EXPECT_FALSE(given(collector, frames[0]));
  EXPECT_FALSE(given(collector, frames[1]));
  EXPECT_TRUE(refuses(collector, wrong));
  EXPECT_EQ(collector.held_bytes(), 0);
  for (const FrameContent& frame : frames)  // nothing of it is left
    EXPECT_EQ(given(collector, frame).has_value(), &frame == &frames.back());
}

TEST(Parts, OfABadMessageAreRefusedAsItIs) {
  AssignMessage bad = assign_of(1, 3);
  bad.objects.front().pages = 0;
  const std::vector<FrameContent> frames = frames_of(bad, kPartHead + 60);
  ASSERT_EQ(frames.size(), 2);
  PartCollector collector;
  EXPECT_FALSE(given(collector, frames[0]));
  EXPECT_TRUE(refuses(collector, part_of(frames[1])));
}

TEST(Parts, OfOnePeerNeverHoldMoreThanTheirShare) {  // I19
  RandomStream draw(1, "parts_test");
  PartCollector collector;
  const std::vector<std::byte> content(kMaxBodyBytes - kPartHead);
  for (int i = 0; i < cases(3'000, 100'000); ++i) {
    PartMessage part{.type = draw.below(2) == 0 ? FrameType::kPlan : FrameType::kAssign,
                     .part = static_cast<std::uint32_t>(draw.below(kMaxParts)),
                     .parts = kMaxParts,
                     .digest = {std::byte(draw.below(256))},
                     .content = {content.begin(), content.end() - draw.below(2)}};
    (void)collector.take(FrameType::kPart, body_of(part));
    ASSERT_LE(collector.held_bytes(), kMaxMessageBytes);
    ASSERT_LE(collector.held_messages(), PartCollector::kMaxMessages);
  }
  const std::vector<FrameContent> frames = frames_of(assign_of(1, 5'000));
  for (const FrameContent& frame : frames)  // and what is whole still comes through
    EXPECT_EQ(given(collector, frame).has_value(), &frame == &frames.back());
}

}  // namespace
}  // namespace tributary::memory
