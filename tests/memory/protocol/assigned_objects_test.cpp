#include "memory/protocol/assigned_objects.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace tributary::memory {
namespace {

std::uint64_t sample_of(const AssignedObject* object) {
  return object == nullptr ? 99 : object->key.sample;
}

TEST(AssignedObjects, ComeInTheOrderOfTheirMessage) {
  AssignedObjects objects({.version = 4,
                           .objects = {{.key = {.sample = 7}, .pages = 5},
                                       {.key = {.sample = 3}, .pages = 2},
                                       {.key = {.sample = 8}, .pages = 2},
                                       {.key = {.sample = 1}, .pages = 1}}});
  EXPECT_EQ(objects.version(), 4);
  EXPECT_EQ(objects.pages(), 10);
  EXPECT_EQ(sample_of(objects.next(6)), 7);
  EXPECT_EQ(sample_of(objects.next(5)), 3);
  EXPECT_EQ(sample_of(objects.next(2)), 1);
  EXPECT_EQ(objects.next(1), nullptr);
  for (const std::uint64_t sample : {3, 7, 3, 42}) objects.begin({.sample = sample});
  EXPECT_EQ(sample_of(objects.next(6)), 8);
  objects.reopen({.sample = 3});
  objects.reopen({.sample = 42});
  EXPECT_EQ(sample_of(objects.next(6)), 3);
  for (const std::uint64_t sample : {1, 3, 8}) objects.begin({.sample = sample});
  EXPECT_EQ(objects.next(UINT64_MAX), nullptr);
  EXPECT_EQ(objects.pages(), 10);
}

TEST(AssignedObjects, AreFoundAsBySearchingThroughAll) {
  RandomStream draw(0, "assigned_objects_test");
  AssignMessage message;
  for (std::uint64_t i = 0; i < 60; ++i)
    message.objects.push_back(
        {.key = {.sample = mix_bits(i)}, .pages = 1 + static_cast<std::uint32_t>(draw.below(6))});
  AssignedObjects objects(message);
  std::vector<bool> is_begun(message.objects.size());
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t place = draw.below(message.objects.size());
    is_begun[place] = draw.below(3) > 0;
    if (is_begun[place])
      objects.begin(message.objects[place].key);
    else
      objects.reopen(message.objects[place].key);
    const std::uint64_t below = draw.below(8);
    const AssignedObject* expected = nullptr;
    for (std::size_t n = 0; n < message.objects.size() && expected == nullptr; ++n)
      if (!is_begun[n] && message.objects[n].pages < below) expected = &message.objects[n];
    const AssignedObject* found = objects.next(below);
    ASSERT_EQ(sample_of(found), sample_of(expected));
  }
}

}  // namespace
}  // namespace tributary::memory
