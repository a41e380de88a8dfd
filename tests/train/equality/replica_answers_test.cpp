#include <algorithm>
#include <gtest/gtest.h>
#include <mutex>
#include <set>

#include <ATen/ATen.h>

#include "core/text.h"
#include "model/generate.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"
#include "train/executor/collate.h"
#include "train/start/ranks.h"

namespace tributary::train {
namespace {

using Answers = std::vector<std::vector<std::int64_t>>;

constexpr int kPrompts = 5;
constexpr std::int64_t kMaxTokens = 9;

/// Makes prompt number `index`; later ones are longer.
data::EncodedSample make_prompt(std::int64_t index) {
  data::EncodedSample sample;
  sample.key = str("prompt:", index);
  for (std::int64_t i = 0; i < 2 + index; ++i)
    sample.tokens.push_back(static_cast<std::int32_t>((7 * index + 5 * i) % 50));
  sample.targets.assign(sample.tokens.size(), data::kIgnoredTarget);
  return sample;
}

model::PackedBatch collate_prompts(const config::ModelConfig& config,
                                   const std::vector<std::int64_t>& indices) {
  std::vector<data::EncodedSample> samples;
  for (const std::int64_t index : indices) samples.push_back(make_prompt(index));
  std::vector<const data::EncodedSample*> pointers;
  for (const data::EncodedSample& sample : samples) pointers.push_back(&sample);
  return collate(pointers, config, config::MropeMode::kOfficial, at::kCPU).batch;
}

std::unique_ptr<model::Model> make_model(const mesh::Mesh& mesh) {
  config::RunConfig run;
  const config::ModelConfig config = tiny_model_config(/*sees=*/true);
  auto model = model::make_model(config, lay_out_on(mesh, run));
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  model::initialize(*model, /*seed=*/3);
  return model;
}

Answers answer(model::Model& model, const std::vector<std::int64_t>& indices,
               const model::Decoding& decoding) {
  return model::generate(model, collate_prompts(model.config(), indices), decoding);
}

/// Ends answers at different lengths: by a token that they do not all reach at the same place.
model::Decoding uneven_decoding(model::Model& model, const std::vector<std::int64_t>& indices) {
  model::Decoding decoding{.max_new_tokens = kMaxTokens, .stop_tokens = {}};
  const Answers whole = answer(model, indices, decoding);
  for (const auto& said : whole)
    for (const std::int64_t token : said) {
      std::set<std::ptrdiff_t> lengths;
      for (const auto& each : whole) lengths.insert(std::ranges::find(each, token) - each.begin());
      if (lengths.size() > 1) {
        decoding.stop_tokens = {token};
        return decoding;
      }
    }
  ADD_FAILURE() << "all answers are alike";
  return decoding;
}

TEST(ReplicaAnswers, AreThoseOfOneRankWhateverAReplicaIsAsked) {
  std::vector<std::int64_t> all(kPrompts);
  for (int i = 0; i < kPrompts; ++i) all[static_cast<std::size_t>(i)] = i;
  const mesh::Mesh one;
  const auto alone = make_model(one);
  const model::Decoding decoding = uneven_decoding(*alone, all);
  const Answers wanted = answer(*alone, all, decoding);
  std::size_t longest = 0;
  std::size_t shortest = 99;
  for (const auto& each : wanted) {
    longest = std::max(longest, each.size());
    shortest = std::min(shortest, each.size());
  }
  ASSERT_LT(shortest, longest) << "replicas would end at the same step";
  // The prompts of each replica: more, fewer, or none.
  const std::vector<std::vector<std::int64_t>> asked{{0, 3}, {1, 2, 4}};
  const std::vector<std::vector<std::int64_t>> one_idle{{}, {0, 1, 2, 3, 4}};
  for (const auto& dealt : {asked, one_idle}) {
    for (const config::MeshShape& shape :
         {config::MeshShape{.dp_shard = 2}, config::MeshShape{.dp_replicate = 2},
          config::MeshShape{.dp_shard = 2, .tp = 2}}) {
      mesh::run_ranks(
          shape,
          [&](const mesh::Mesh& mesh) {
            const auto model = make_model(mesh);
            const auto& own = dealt[static_cast<std::size_t>(mesh.data_index())];
            const Answers answers = answer(*model, own, decoding);
            ASSERT_EQ(answers.size(), own.size());
            for (std::size_t i = 0; i < own.size(); ++i)
              EXPECT_EQ(answers[i], wanted[static_cast<std::size_t>(own[i])])
                  << "prompt " << own[i] << " on " << config::describe(shape);
          },
          /*kv_heads=*/2);
    }
  }
}

TEST(ReplicaAnswers, OfNoPromptAnywhereAreNone) {
  mesh::run_ranks({.dp_shard = 2}, [&](const mesh::Mesh& mesh) {
    const auto model = make_model(mesh);
    EXPECT_TRUE(answer(*model, {}, {.max_new_tokens = kMaxTokens}).empty());
  });
}

}  // namespace
}  // namespace tributary::train
