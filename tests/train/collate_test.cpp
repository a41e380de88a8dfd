#include "train/executor/collate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/model/tiny_text_model.h"
#include "tests/train/tiny_samples.h"

namespace tributary::train {
namespace {

config::ModelConfig vision_config() {
  config::ModelConfig config = model::tiny_vision_model();
  config.vision->layers = 1;
  config.vision->full_attention_layers = {0};
  return config;
}

Microbatch collate_all(const std::vector<data::EncodedSample>& samples,
                       const config::ModelConfig& config) {
  std::vector<const data::EncodedSample*> pointers;
  for (const data::EncodedSample& sample : samples) pointers.push_back(&sample);
  return collate(pointers, config, config::MropeMode::kOfficial, at::kCPU);
}

TEST(Collate, LaysSamplesBackToBack) {
  const config::ModelConfig config = vision_config();
  auto samples = make_text_samples({4, 2, 5}, 57);
  add_image(samples[0], config, {1, 2, 4}, 1);
  add_image(samples[2], config, {1, 4, 2}, 2);
  const Microbatch pack = collate_all(samples, config);

  EXPECT_EQ(pack.batch.cu_seqlens, (std::vector<std::int32_t>{0, 8, 10, 19}));
  EXPECT_EQ(pack.batch.of(Modality::kImage).grids, (std::vector<Grid>{{1, 2, 4}, {1, 4, 2}}));
  EXPECT_FALSE(pack.batch.of(Modality::kVideo).rows.defined());
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;
  std::vector<float> rows;
  std::vector<int> sources;
  for (const data::EncodedSample& sample : samples) {
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
    targets.insert(targets.end(), sample.targets.begin(), sample.targets.end());
    for (const std::int64_t target : sample.targets)
      if (target != data::kIgnoredTarget) sources.push_back(sample.source);
    for (const data::PatchedItem& item : sample.items)
      rows.insert(rows.end(), item.rows.begin(), item.rows.end());
  }
  EXPECT_TRUE(at::equal(pack.batch.input_ids, at::tensor(tokens, at::kLong)));
  EXPECT_TRUE(at::equal(pack.targets, at::tensor(targets, at::kLong)));
  EXPECT_TRUE(at::equal(pack.batch.of(Modality::kImage).rows.view({-1}), at::tensor(rows)));
  EXPECT_EQ(pack.batch.of(Modality::kImage).rows.size(0), 16);
  EXPECT_EQ(pack.target_sources, sources);
}

TEST(Collate, RestartsPositionsInEachSample) {
  const config::ModelConfig config = vision_config();
  auto samples = make_text_samples({3, 2}, 57);
  add_image(samples[1], config, {1, 2, 4}, 1);
  const Microbatch pack = collate_all(samples, config);
  // text 0 1 2; then start 0, two merged patches in one row from 1, end after the larger side
  const at::Tensor expected = at::tensor({0, 1, 2, 0, 1, 1, 3, 4, 5,   //
                                          0, 1, 2, 0, 1, 1, 3, 4, 5,   //
                                          0, 1, 2, 0, 1, 2, 3, 4, 5},  //
                                         at::kLong)
                                  .view({3, 9});
  EXPECT_TRUE(at::equal(pack.batch.position_ids, expected)) << pack.batch.position_ids;
}

TEST(Collate, NamesTheSampleOfATokenOutsideTheVocabulary) {
  const config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen2);
  const auto message = [&](auto&& change) -> std::string {
    auto samples = make_text_samples({4, 2, 5}, config.backbone.vocab);
    change(samples[2]);
    try {
      (void)collate_all(samples, config);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kInput);
      return error.what();
    }
    return "collated";
  };
  using data::EncodedSample;
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_EQ(message([](EncodedSample&) {}), "collated");
  EXPECT_THAT(message([&](EncodedSample& s) {
                s.tokens[3] = static_cast<std::int32_t>(config.backbone.vocab);
              }),
              AllOf(HasSubstr("train: token id outside the vocabulary; where: samples.jsonl:3"),
                    HasSubstr(str("token 3 with id ", config.backbone.vocab)),
                    HasSubstr(str("expected: 0 to ", config.backbone.vocab - 1))));
  EXPECT_THAT(message([](EncodedSample& s) { s.tokens[1] = -1; }), HasSubstr("token 1 with id -1"));
  EXPECT_THAT(message([](EncodedSample& s) { s.targets[2] = 5000; }),
              HasSubstr("target 2 with id 5000"));
}

}  // namespace
}  // namespace tributary::train
