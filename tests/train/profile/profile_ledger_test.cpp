#include "train/profile/profile_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::train {
namespace {

using config::CollectiveOp;

const ProfileIdentity kIdentity{
    .model = "demo 12", .device = "EPYC", .libraries = "torch 2", .cores = 2};

TEST(RequireIdentity, FillsAnEmptyProfileAndAcceptsItAgain) {
  config::Profile profile;
  require_identity(profile, kIdentity, "p.json");
  EXPECT_EQ(profile.model, "demo 12");
  EXPECT_EQ(profile.cores, 2);
  EXPECT_NO_THROW(require_identity(profile, kIdentity, "p.json"));
}

TEST(RequireIdentity, NamesTheKeyThatDiffers) {
  config::Profile profile;
  require_identity(profile, kIdentity, "p.json");
  const auto words_for = [&](ProfileIdentity other) {
    try {
      require_identity(profile, other, "p.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ProfileIdentity other = kIdentity;
  other.model = "demo 13";
  EXPECT_THAT(words_for(other), testing::HasSubstr("where: p.json model; found: \"demo 12\""));
  other = kIdentity;
  other.device = "Xeon";
  EXPECT_THAT(words_for(other), testing::HasSubstr("p.json device"));
  other = kIdentity;
  other.libraries = "torch 3";
  EXPECT_THAT(words_for(other), testing::HasSubstr("p.json libraries"));
  other = kIdentity;
  other.cores = 4;
  EXPECT_THAT(words_for(other), testing::HasSubstr("p.json cores; found: \"2\"; expected: \"4\""));
}

TEST(AddPoint, KeepsTablesApartAndPointsInOrder) {
  config::Profile profile;
  const config::ProfileTable block{.module = "backbone", .layer = "block", .threads = 1};
  config::ProfileTable cut = block;
  cut.tp = 2;
  add_point(profile, block, {.tokens = {512}, .forward = {5}});
  add_point(profile, block, {.tokens = {128}, .forward = {2}});
  add_point(profile, cut, {.tokens = {128}, .forward = {1}});
  add_point(profile, block, {.tokens = {512}, .forward = {6}});
  ASSERT_EQ(profile.layers.size(), 2U);
  ASSERT_EQ(profile.layers[0].points.size(), 2U);
  EXPECT_EQ(profile.layers[0].points[0].tokens, Tokens{128});
  EXPECT_EQ(profile.layers[0].points[1].forward, Nanoseconds{6}) << "the newer one stands";
  EXPECT_EQ(profile.layers[1].tp, 2);
}

TEST(AddAttention, GoesToTheTableOfItsLayerInOrderOfLengths) {
  config::Profile profile;
  const config::ProfileTable block{.module = "backbone", .layer = "block", .ranks = 2};
  EXPECT_FALSE(add_attention(profile, block, {.attended = 8, .tokens = {64}}));
  add_point(profile, block, {.tokens = {64}, .forward = {5}});
  EXPECT_FALSE(has_attention(profile, block));
  EXPECT_TRUE(add_attention(profile, block, {.attended = 8, .tokens = {64}, .forward = {1}}));
  EXPECT_TRUE(add_attention(profile, block, {.attended = 4, .tokens = {64}, .forward = {2}}));
  EXPECT_TRUE(add_attention(profile, block, {.attended = 8, .tokens = {64}, .forward = {3}}));
  ASSERT_EQ(profile.layers.front().attention.size(), 2U);
  EXPECT_EQ(profile.layers.front().attention[0].attended, 4);
  EXPECT_EQ(profile.layers.front().attention[1].forward, Nanoseconds{3}) << "the newer one stands";
  EXPECT_TRUE(has_attention(profile, block));
  EXPECT_FALSE(has_attention(profile, {.tp = 2, .ranks = 2}));
}

TEST(DropJointAttention, LeavesWhatWasMeasuredApart) {
  config::Profile profile;
  for (const std::int64_t tp : {1, 2}) {
    const config::ProfileTable block{
        .module = "backbone", .layer = "block", .tp = tp, .ranks = 2, .threads = 1};
    add_point(profile, block, {.tokens = {64}, .forward = {5}});
    config::ProfileTable head = block;
    head.layer = "head";
    add_point(profile, head, {.tokens = {64}, .forward = {5}});
    profile.passes.push_back({.ranks = 2, .tp = tp, .threads = 1, .capacity = {64}});
    const bool is_apart = tp == 2 && add_attention(profile, block, {.attended = 8, .tokens = {64}});
    EXPECT_EQ(is_apart, tp == 2);
  }
  EXPECT_TRUE(drop_joint_attention(profile));
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_EQ(profile.layers[0].tp, 2);
  EXPECT_EQ(profile.layers[1].layer, "head");
  ASSERT_EQ(profile.passes.size(), 1U);
  EXPECT_EQ(profile.passes[0].tp, 2);
  EXPECT_FALSE(drop_joint_attention(profile)) << "nothing is left to measure again";
}

TEST(HasMeasured, FindsWhatIsThereAndNothingElse) {
  config::Profile profile;
  add_collective(profile, CollectiveOp::kSend, {.ranks = 2, .bytes = {1024}, .time = {10}});
  add_collective(profile, CollectiveOp::kSend, {.ranks = 2, .bytes = {64}, .time = {5}});
  EXPECT_EQ(profile.collectives.front().points.front().bytes, Bytes{64});
  EXPECT_TRUE(has_collective(profile, CollectiveOp::kSend, 2, {1024}));
  EXPECT_FALSE(has_collective(profile, CollectiveOp::kSend, 4, {1024}));
  EXPECT_FALSE(has_collective(profile, CollectiveOp::kAllReduce, 2, {1024}));
  profile.passes.push_back({.ranks = 2, .tp = 1, .threads = 1, .capacity = {256}});
  EXPECT_TRUE(has_pass(profile, {.ranks = 2, .tp = 1, .threads = 1, .capacity = {256}}));
  EXPECT_FALSE(has_pass(profile, {.ranks = 1, .tp = 1, .threads = 1, .capacity = {256}}));
  EXPECT_FALSE(has_pass(profile, {.ranks = 2, .tp = 2, .threads = 1, .capacity = {256}}));
  EXPECT_FALSE(has_pass(profile, {.ranks = 2, .tp = 1, .threads = 2, .capacity = {256}}));
  EXPECT_FALSE(has_step(profile, 2, 1));
  profile.steps.push_back({.ranks = 2, .threads = 1, .spread = 0.5});
  EXPECT_TRUE(has_step(profile, 2, 1));
  add_point(profile, {.module = "m", .layer = "l"}, {.tokens = {1}, .spread = 0.1});
  summarise_noise(profile);
  EXPECT_DOUBLE_EQ(profile.noise, 0.05) << "median of 0, 0, 0.1 and 0.5";
}

}  // namespace
}  // namespace tributary::train
