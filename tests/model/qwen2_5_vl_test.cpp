#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/model.h"
#include "model/positions.h"

namespace tributary::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kImage = 50;
constexpr std::int64_t kVideo = 51;

config::ModelConfig small_config() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2_5Vl;
  config::BackboneConfig& text = config.backbone;
  text.layers = 2;
  text.width = 32;
  text.heads = 4;
  text.kv_heads = 2;
  text.head_width = 8;
  text.mlp_width = 48;
  text.vocab = 60;
  text.max_positions = 256;
  text.rope_theta = 1e4;
  text.norm_epsilon = 1e-6;
  text.qkv_bias = true;
  text.mrope_section = {2, 1, 1};
  config::VisionConfig& vision = config.vision.emplace();
  vision.layers = 2;
  vision.width = 16;
  vision.heads = 2;
  vision.mlp_width = 24;
  vision.output_width = 32;
  vision.patch = 4;
  vision.window = 16;
  vision.full_attention_layers = {1};
  config.tokens.image_pad = kImage;
  config.tokens.video_pad = kVideo;
  return config;
}

/// One sample of random text around random media.
struct Piece {
  std::vector<std::int64_t> tokens;
  std::vector<Grid> images;
  std::vector<Grid> videos;
};

void append(std::vector<std::int64_t>& tokens, std::int64_t id, std::int64_t count) {
  tokens.insert(tokens.end(), static_cast<std::size_t>(count), id);
}

std::vector<Piece> mixed_samples() {
  Piece text{{3, 7, 9, 4, 1}, {}, {}};
  Piece image{{5, 8}, {{1, 6, 4}}, {}};
  append(image.tokens, kImage, 6);
  append(image.tokens, 11, 3);
  Piece both{{2}, {{1, 2, 2}, {1, 4, 8}}, {{2, 4, 4}}};
  append(both.tokens, kImage, 1);
  append(both.tokens, 13, 1);
  append(both.tokens, kVideo, 8);
  append(both.tokens, 14, 2);
  append(both.tokens, kImage, 8);
  append(both.tokens, 15, 2);
  Piece clip{{21, 22}, {}, {{3, 2, 6}}};
  append(clip.tokens, kVideo, 9);
  append(clip.tokens, 23, 2);
  return {image, text, both, clip};
}

at::Tensor rows_of(const std::vector<Grid>& grids, std::int64_t seed) {
  std::int64_t patches = 0;
  for (const Grid& grid : grids) patches += grid.patches();
  if (patches == 0) return {};
  at::manual_seed(seed);
  return at::randn({patches, 96});
}

/// A sample as a batch of its own; its pixels follow only from `seed`.
PackedBatch batch_of(const Piece& piece, std::int64_t seed) {
  PackedBatch batch;
  batch.input_ids = at::tensor(piece.tokens, at::kLong);
  batch.cu_seqlens = {0, static_cast<std::int32_t>(piece.tokens.size())};
  batch.media[Modality::kImage].grids = piece.images;
  batch.media[Modality::kVideo].grids = piece.videos;
  batch.media[Modality::kImage].rows = rows_of(piece.images, seed);
  batch.media[Modality::kVideo].rows = rows_of(piece.videos, seed + 100);
  batch.position_ids = position_ids(small_config(),
                                    {.tokens = piece.tokens,
                                     .cu_seqlens = batch.cu_seqlens,
                                     .images = piece.images,
                                     .videos = piece.videos},
                                    config::MropeMode::kOfficial);
  return batch;
}

at::Tensor joined(std::vector<at::Tensor> parts) {
  std::erase_if(parts, [](const at::Tensor& part) { return !part.defined(); });
  return parts.empty() ? at::Tensor() : at::cat(parts);
}

PackedBatch pack(const std::vector<PackedBatch>& batches) {
  PackedBatch packed;
  packed.cu_seqlens = {0};
  std::vector<at::Tensor> ids, positions, images, videos;
  for (const PackedBatch& batch : batches) {
    packed.cu_seqlens.push_back(packed.cu_seqlens.back() + batch.cu_seqlens.back());
    ids.push_back(batch.input_ids);
    positions.push_back(batch.position_ids);
    images.push_back(batch.of(Modality::kImage).rows);
    videos.push_back(batch.of(Modality::kVideo).rows);
    packed.media[Modality::kImage].grids.insert(packed.media[Modality::kImage].grids.end(),
                                                batch.of(Modality::kImage).grids.begin(),
                                                batch.of(Modality::kImage).grids.end());
    packed.media[Modality::kVideo].grids.insert(packed.media[Modality::kVideo].grids.end(),
                                                batch.of(Modality::kVideo).grids.begin(),
                                                batch.of(Modality::kVideo).grids.end());
  }
  packed.input_ids = at::cat(ids);
  packed.position_ids = at::cat(positions, 1);
  packed.media[Modality::kImage].rows = joined(images);
  packed.media[Modality::kVideo].rows = joined(videos);
  return packed;
}

std::vector<PackedBatch> mixed_batches() {
  std::vector<PackedBatch> batches;
  std::int64_t seed = 1;
  for (const Piece& piece : mixed_samples()) batches.push_back(batch_of(piece, seed++));
  return batches;
}

/// A model with every parameter drawn from N(0, 0.05^2) by its name; `frozen` lists modules.
std::unique_ptr<Model> small_model(std::vector<std::string> frozen = {}) {
  std::unique_ptr<Model> model = make_model(small_config());
  std::int64_t seed = 0;
  for (const auto& unit : model->units()) {
    unit->materialize(at::kCPU, at::kFloat, std::ranges::count(frozen, unit->module()) == 0);
    const at::NoGradGuard no_gradients;
    at::manual_seed(++seed);
    unit->shard_value().normal_(0, 0.05);
  }
  return model;
}

/// Weighs every logit differently, so that no gradient cancels.
at::Tensor loss_of(Model& model, const PackedBatch& batch) {
  return model.head(model.forward(batch)).sin().pow(2).sum();
}

std::vector<at::Tensor> gradients_of(const Model& model) {
  std::vector<at::Tensor> list;
  for (const auto& unit : model.units())
    list.push_back(unit->trainable() ? unit->shard_gradient().clone() : at::Tensor());
  return list;
}

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

TEST(Qwen2_5Vl, GivesPackedSamplesTheLogitsThatTheyHaveAlone) {
  const auto model = small_model();
  std::vector<at::Tensor> alone;
  for (const PackedBatch& batch : mixed_batches())
    alone.push_back(model->head(model->forward(batch)));
  const at::Tensor together = model->head(model->forward(pack(mixed_batches())));
  EXPECT_EQ(together.sizes(), at::cat(alone).sizes());
  EXPECT_LT((together - at::cat(alone)).abs().max().item<double>(),
            1e-6 * together.abs().max().item<double>());
}

TEST(Qwen2_5Vl, GivesAPackTheSumOfTheGradientsOfItsSamples) {
  const auto model = small_model();
  for (const PackedBatch& batch : mixed_batches()) loss_of(*model, batch).backward();
  const std::vector<at::Tensor> alone = gradients_of(*model);
  for (const auto& unit : model->units()) unit->shard_gradient().zero_();
  loss_of(*model, pack(mixed_batches())).backward();
  const std::vector<at::Tensor> together = gradients_of(*model);
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_LT(relative_error(together[i], alone[i]), 1e-5) << model->units()[i]->name();
}

TEST(Qwen2_5Vl, LetsNoGradientPassBetweenSamples) {
  const auto model = small_model();
  PackedBatch batch = pack(mixed_batches());
  batch.media[Modality::kImage].rows.requires_grad_();
  batch.media[Modality::kVideo].rows.requires_grad_();
  // The loss is that of the third sample: two images and a clip, after one image of the first.
  const at::Tensor hidden = model->forward(batch);
  hidden.slice(0, batch.cu_seqlens[2], batch.cu_seqlens[3]).sin().sum().backward();
  const auto touched = [](const at::Tensor& rows) {
    const at::Tensor list = (rows.grad().abs().sum(1) > 0).nonzero().squeeze(1);
    return std::pair(list.min().item<std::int64_t>(), list.size(0));
  };
  EXPECT_EQ(touched(batch.media[Modality::kImage].rows),
            std::pair(std::int64_t{24}, std::int64_t{36}));
  EXPECT_EQ(touched(batch.media[Modality::kVideo].rows),
            std::pair(std::int64_t{0}, std::int64_t{32}));
  // Tokens that occur only in other samples get no gradient; those of the third do.
  const at::Tensor embedding = model->units()[4]
                                   ->shard_gradient()
                                   .view({-1})
                                   .narrow(0, 0, 60 * 32)
                                   .view({60, 32})
                                   .abs()
                                   .sum(1);
  ASSERT_EQ(model->units()[4]->name(), "backbone.embed");
  for (const std::int64_t other : {3, 5, 7, 8, 9, 11, 21, 22, 23})
    EXPECT_EQ(embedding[other].item<double>(), 0) << other;
  for (const std::int64_t own : {2, 13, 14, 15}) EXPECT_GT(embedding[own].item<double>(), 0) << own;
}

TEST(Qwen2_5Vl, GivesPlaceholdersNoEmbeddingGradient) {
  const auto model = small_model();
  loss_of(*model, pack(mixed_batches())).backward();
  const at::Tensor embedding =
      model->units()[4]->gradient_of(*model->units()[4]->parameters().front());
  EXPECT_EQ(embedding[kImage].abs().max().item<double>(), 0);
  EXPECT_EQ(embedding[kVideo].abs().max().item<double>(), 0);
}

TEST(Qwen2_5Vl, TrainsTheSameBackboneWhenTheTowerIsFrozen) {
  const PackedBatch batch = pack(mixed_batches());
  const auto trained = small_model();
  const auto frozen = small_model({"vision", "projector"});
  loss_of(*trained, batch).backward();
  loss_of(*frozen, batch).backward();
  for (std::size_t i = 0; i < trained->units().size(); ++i) {
    const parallel::Unit& unit = *frozen->units()[i];
    SCOPED_TRACE(unit.name());
    if (unit.module() == "backbone")
      EXPECT_TRUE(unit.shard_gradient().equal(trained->units()[i]->shard_gradient()));
    else
      EXPECT_FALSE(unit.shard_gradient().defined());
  }
}

TEST(Qwen2_5Vl, BuildsNoGraphWhenEverythingIsFrozen) {
  const auto model = small_model({"vision", "projector", "backbone"});
  EXPECT_FALSE(model->forward(pack(mixed_batches())).requires_grad());
}

TEST(Qwen2_5Vl, TrainsTheTowerThroughAFrozenBackbone) {
  const PackedBatch batch = pack(mixed_batches());
  const auto trained = small_model();
  const auto model = small_model({"backbone"});
  loss_of(*trained, batch).backward();
  loss_of(*model, batch).backward();
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(model->units()[i]->shard_gradient().equal(trained->units()[i]->shard_gradient()))
        << model->units()[i]->name();
}

TEST(Qwen2_5Vl, RecomputesToTheSameBits) {
  const PackedBatch batch = pack(mixed_batches());
  const auto model = small_model();
  loss_of(*model, batch).backward();
  const std::vector<at::Tensor> kept = gradients_of(*model);
  using config::RecomputePlan::kAttention;
  using config::RecomputePlan::kFull;
  using config::RecomputePlan::kSelective;
  for (const std::vector<config::ModuleRecompute>& modules :
       {std::vector<config::ModuleRecompute>{{"vision"}, {"projector"}, {"backbone"}},
        {{"vision", kSelective}, {"backbone", kSelective}},
        {{"vision", kAttention}, {"backbone", kAttention}},
        {{"vision", kFull, 2}, {"backbone", kSelective, 2}}}) {
    for (const auto& unit : model->units()) unit->shard_gradient().zero_();
    model->set_recompute(modules);
    loss_of(*model, batch).backward();
    const std::vector<at::Tensor> again = gradients_of(*model);
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(kept[i].equal(again[i])) << model->units()[i]->name();
  }
}

TEST(Qwen2_5Vl, LeavesTheTowerAloneInATextPack) {
  const auto model = small_model();
  const std::vector<PackedBatch> batches = mixed_batches();
  loss_of(*model, pack({batches[1], batches[1]})).backward();
  for (const auto& unit : model->units())
    EXPECT_EQ(unit->shard_gradient().abs().max().item<double>() > 0, unit->module() == "backbone")
        << unit->name();
}

TEST(Qwen2_5Vl, NamesItsUnitsInOrderOfTheForwardPass) {
  std::vector<std::string> names;
  const auto model = make_model(small_config());
  for (const auto& unit : model->units()) names.push_back(unit->name());
  EXPECT_THAT(names, testing::ElementsAre("vision.patches", "vision.layers.0", "vision.layers.1",
                                          "projector.merger", "backbone.embed", "backbone.layers.0",
                                          "backbone.layers.1", "backbone.head"));
}

TEST(Qwen2_5Vl, RefusesMediaThatDoNotMatchTheText) {
  const auto model = small_model();
  const auto run = [&](auto change) {
    PackedBatch batch = mixed_batches().front();
    change(batch);
    return [&model, batch] { (void)model->forward(batch); };
  };
  EXPECT_THAT(run([](PackedBatch& batch) { batch.input_ids[2] = 1; }),
              ThrowsMessage<Error>(AllOf(HasSubstr("placeholders and media differ in number"),
                                         HasSubstr("images, token 50"), HasSubstr("5 placeholders"),
                                         HasSubstr("6 for 1 images"))));
  EXPECT_THAT(run([](PackedBatch& batch) { batch.input_ids[0] = kVideo; }),
              ThrowsMessage<Error>(AllOf(HasSubstr("clips, token 51"), HasSubstr("1 placeholders"),
                                         HasSubstr("0 for 0 clips"))));
  EXPECT_THAT(run([](PackedBatch& batch) { batch.media[Modality::kImage].rows = at::Tensor(); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("input rows and grids differ in number"),
                                         HasSubstr("0 rows"), HasSubstr("24 for 1 images"))));
  EXPECT_THAT(run([](PackedBatch& batch) {
                batch.media[Modality::kVideo].rows = batch.media[Modality::kImage].rows;
                batch.media[Modality::kImage].rows = at::Tensor();
              }),
              ThrowsMessage<Error>(HasSubstr("differ in number")));
}

}  // namespace
}  // namespace tributary::model
