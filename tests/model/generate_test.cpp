#include "model/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/kv_cache.h"
#include "tests/model/tiny_text_model.h"

namespace tributary::model {
namespace {

using config::ModelFamily;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Answers = std::vector<std::vector<std::int64_t>>;

/// Answers greedily by running the whole text again for each token.
std::vector<std::int64_t> answer_without_cache(Model& model, const PackedBatch& prompt,
                                               std::int64_t new_tokens) {
  const at::NoGradGuard no_grad;
  PackedBatch text = prompt;
  std::vector<std::int64_t> answer;
  for (std::int64_t i = 0; i < new_tokens; ++i) {
    const std::int64_t tokens = text.input_ids.size(0);
    const at::Tensor last = model.forward(text).narrow(0, tokens - 1, 1);
    const at::Tensor token = at::argmax(model.head(last), -1);
    answer.push_back(token.item<std::int64_t>());
    text.input_ids = at::cat({text.input_ids, token});
    text.position_ids = at::arange(tokens + 1).unsqueeze(0).expand({3, -1});
    text.cu_seqlens = {0, static_cast<std::int32_t>(tokens + 1)};
  }
  return answer;
}

TEST(Decode, GivesTheHiddenStatesOfTheFullPass) {
  for (const ModelFamily family : {ModelFamily::kQwen2, ModelFamily::kQwen3}) {
    const auto model = make_random_model(tiny_config(family));
    const at::NoGradGuard no_grad;
    const PackedBatch whole = random_pack({9, 14, 12}, 61);
    const at::Tensor expected = model->forward(whole);

    PackedBatch prompts;  // all but the last 5 tokens of each sample
    std::vector<at::Tensor> ids;
    prompts.cu_seqlens = {0};
    std::vector<at::Tensor> positions;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t length = whole.cu_seqlens[i + 1] - whole.cu_seqlens[i] - 5;
      ids.push_back(whole.input_ids.narrow(0, whole.cu_seqlens[i], length));
      positions.push_back(whole.position_ids.narrow(1, whole.cu_seqlens[i], length));
      prompts.cu_seqlens.push_back(prompts.cu_seqlens.back() + static_cast<std::int32_t>(length));
    }
    prompts.input_ids = at::cat(ids);
    prompts.position_ids = at::cat(positions, 1);

    KvCache cache(/*new_tokens=*/5);
    at::Tensor hidden = model->prefill(prompts, cache);
    for (std::int64_t step = 0; step <= 5; ++step) {
      std::vector<std::int64_t> rows;
      for (std::size_t i = 1; i < 4; ++i) rows.push_back(whole.cu_seqlens[i] - 6 + step);
      const at::Tensor wanted = expected.index_select(0, at::tensor(rows, at::kLong));
      EXPECT_LT(largest(hidden - wanted), 1e-5 * largest(wanted)) << "step " << step;
      if (step == 5) break;
      for (std::int64_t& row : rows) ++row;
      hidden = model->decode(whole.input_ids.index_select(0, at::tensor(rows, at::kLong)), cache);
    }
  }
}

TEST(Generate, EqualsTheArgmaxOfFullPassesForABatchOfLengths) {
  for (const ModelFamily family : {ModelFamily::kQwen2, ModelFamily::kQwen3}) {
    const auto model = make_random_model(tiny_config(family));
    const PackedBatch prompts = random_pack({3, 11, 7, 1}, 61);
    const Answers answers = generate(*model, prompts, {.max_new_tokens = 12});
    ASSERT_EQ(answers.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(answers[i], answer_without_cache(*model, take_sample(prompts, i), 12))
          << "sample " << i;
  }
}

TEST(Generate, EndsEachAnswerAtItsStopToken) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const PackedBatch prompts = random_pack({3, 11, 7}, 61);
  const Answers free = generate(*model, prompts, {.max_new_tokens = 12});
  const std::int64_t stop = free[1][4];
  const Answers stopped = generate(*model, prompts, {.max_new_tokens = 12, .stop_tokens = {stop}});
  for (std::size_t i = 0; i < 3; ++i) {
    const auto end = std::find(free[i].begin(), free[i].end(), stop);
    EXPECT_EQ(stopped[i], std::vector<std::int64_t>(free[i].begin(), end)) << "sample " << i;
  }
  EXPECT_LE(stopped[1].size(), 4u);
}

TEST(Generate, TellsEachTokenAsItComes) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  Answers told(2);
  const Answers answers = generate(*model, random_pack({3, 5}, 61), {.max_new_tokens = 6},
                                   [&](std::size_t sample, std::int64_t token) {
                                     told[sample].push_back(token);
                                     return true;
                                   });
  EXPECT_EQ(told, answers);
}

TEST(Generate, EndsAnAnswerThatNobodyWaitsFor) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const PackedBatch prompts = random_pack({3, 5}, 61);
  const Answers whole = generate(*model, prompts, {.max_new_tokens = 6});
  std::int64_t taken = 0;
  const Answers answers =
      generate(*model, prompts, {.max_new_tokens = 6},
               [&](std::size_t sample, std::int64_t) { return sample != 0 || ++taken < 2; });
  EXPECT_EQ(answers[0], std::vector<std::int64_t>(whole[0].begin(), whole[0].begin() + 2));
  EXPECT_EQ(answers[1], whole[1]);
}

TEST(Generate, SamplesFromTheSeedAlone) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const PackedBatch prompts = random_pack({3, 5}, 61);
  const auto sample = [&](std::uint64_t seed) {
    return generate(*model, prompts, {.max_new_tokens = 10, .temperature = 5, .seed = seed});
  };
  EXPECT_EQ(sample(1), sample(1));
  EXPECT_NE(sample(1), sample(2));
}

TEST(Generate, SamplesByTheStreamOfAPrompt) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const PackedBatch prompts = random_pack({3, 5}, 61);
  const Answers together = generate(
      *model, prompts, {.max_new_tokens = 10, .temperature = 5, .seed = 3, .streams = {40, 41}});
  const Answers alone =
      generate(*model, take_sample(prompts, 1),
               {.max_new_tokens = 10, .temperature = 5, .seed = 3, .streams = {41}});
  EXPECT_EQ(alone[0], together[1]);
}

TEST(Generate, KeepsToTheMostProbableTokensOfTopP) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen3));
  const PackedBatch prompts = random_pack({3, 5}, 61);
  const Answers greedy = generate(*model, prompts, {.max_new_tokens = 8});
  const Answers narrow =
      generate(*model, prompts, {.max_new_tokens = 8, .temperature = 1, .top_p = 1e-6, .seed = 4});
  EXPECT_EQ(narrow, greedy);
}

TEST(Generate, DrawsTokensAsOftenAsTheirShareSays) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  constexpr int kSamples = 400;
  PackedBatch prompts = random_pack(std::vector<std::int32_t>(kSamples, 1), 61);
  prompts.input_ids.fill_(7);
  const at::NoGradGuard no_grad;
  const at::Tensor shares =
      at::softmax(model->head(model->forward(take_sample(prompts, 0))) / 3, -1)[0];
  const auto max = at::argmax(shares).item<std::int64_t>();
  const double share = shares[max].item<double>();
  int hits = 0;
  for (const auto& answer : generate(*model, prompts, {.max_new_tokens = 1, .temperature = 3}))
    hits += answer[0] == max ? 1 : 0;
  EXPECT_NEAR(hits, kSamples * share, 4 * std::sqrt(kSamples * share * (1 - share)));
}

TEST(Generate, EndsWhereADynamicRopeChanges) {
  config::ModelConfig config = tiny_config(ModelFamily::kQwen2);
  const PackedBatch prompts = random_pack({9, 14, 16}, 61);
  const Answers whole = generate(*make_random_model(config), prompts, {.max_new_tokens = 5});
  config.backbone.dynamic_rope = true;
  config.backbone.max_positions = 16;
  const Answers cut = generate(*make_random_model(config), prompts, {.max_new_tokens = 5});
  EXPECT_EQ(cut[0], whole[0]);
  EXPECT_EQ(cut[1], std::vector(whole[1].begin(), whole[1].begin() + 2));
  EXPECT_EQ(cut[2], std::vector(whole[2].begin(), whole[2].begin() + 1)) << "no token is fed back";
}

TEST(Generate, NamesOptionsOutOfRange) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const auto run = [&](const Decoding& decoding) {
    (void)generate(*model, random_pack({3}, 61), decoding);
  };
  EXPECT_THAT([&] { run({.max_new_tokens = 0}); },
              ThrowsMessage<Error>(HasSubstr("found: max_new_tokens 0")));
  EXPECT_THAT([&] { run({.temperature = -1}); },
              ThrowsMessage<Error>(HasSubstr("found: temperature -1")));
  EXPECT_THAT([&] { run({.top_p = 0}); }, ThrowsMessage<Error>(HasSubstr("found: top_p 0")));
}

TEST(KvCache, RefusesAnEmptyPromptAndMoreTokensThanItHasRoomFor) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  KvCache empty(1);
  EXPECT_THAT(
      [&] {
        (void)model->prefill(random_pack({3, 0}, 61), empty);
      },
      ThrowsMessage<Error>(HasSubstr("empty prompt; found: sample 1")));
  KvCache cache(1);
  (void)model->prefill(random_pack({3}, 61), cache);
  const at::Tensor token = at::zeros({1}, at::kLong);
  (void)model->decode(token, cache);
  EXPECT_THAT([&] { (void)model->decode(token, cache); },
              ThrowsMessage<Error>(HasSubstr("cache is full; found: 4 columns")));
}

}  // namespace
}  // namespace tributary::model
