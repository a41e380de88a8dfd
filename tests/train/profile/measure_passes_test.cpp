#include "train/profile/measure_passes.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "parallel/unit_chain.h"
#include "tests/model/tiny_text_model.h"
#include "train/profile/length_packs.h"

namespace tributary::train {
namespace {

const LayerKey kTextBlock{"backbone", "block"};
const LayerKey kFrames{"vision", "block"};
const LayerKey kWindows{"vision", "window_block"};

config::ModelConfig tiny_vision_model() {
  config::ModelConfig config = model::tiny_vision_model();
  config.tokens.vision_start = 0;
  config.tokens.vision_end = 1;
  return config;
}

/// A Qwen2-Audio, or with chunks of 20 frames the ear of a Qwen2.5-Omni.
config::ModelConfig tiny_hearing_model(std::int64_t chunk = 0) {
  config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen2);
  config.family = config::ModelFamily::kQwen2Audio;
  config.tokens.audio_pad = 57;
  config.audio = config::AudioConfig{.layers = 2,
                                     .width = 16,
                                     .heads = 2,
                                     .mlp_width = 20,
                                     .output_width = config.backbone.width,
                                     .mel_bins = 8,
                                     .positions = 400,
                                     .chunk = chunk};
  return config;
}

data::EncodedSample hearing_sample(const config::ModelConfig& config, std::int64_t frames) {
  data::EncodedSample sample;
  const Grid grid = config.audio->grid_of(frames);
  sample.tokens.resize(static_cast<std::size_t>(config.audio->tokens_of(grid) + 2));
  sample.targets.resize(sample.tokens.size());
  sample.items.push_back(
      {.modality = Modality::kAudio, .grid = grid, .seconds_per_step = 0, .rows = {}});
  return sample;
}

std::int64_t tokens_of(const SamplePack& pack) {
  std::int64_t tokens = 0;
  for (const data::EncodedSample& sample : pack) tokens += std::ssize(sample.tokens);
  return tokens;
}

TEST(MakeTextPacks, HaveEquallyManyTokensInSequencesOfOneLength) {
  const config::ModelConfig config = tiny_vision_model();
  const std::vector<SamplePack> packs = make_text_packs(config, {200});
  std::vector<std::size_t> lengths;
  for (const SamplePack& pack : packs) {
    lengths.push_back(pack.front().tokens.size());
    EXPECT_LE(tokens_of(pack), 200);
    EXPECT_GT(tokens_of(pack), 200 - std::ssize(pack.front().tokens));
    for (const data::EncodedSample& sample : pack) {
      EXPECT_EQ(sample.tokens, pack.front().tokens);
      EXPECT_EQ(sample.tokens.front(), 2) << "neither start nor end of an image";
      EXPECT_GE(sample.targets.back(), 0) << "a loss";
    }
  }
  EXPECT_EQ(lengths, (std::vector<std::size_t>{200, 100, 50, 25}));
  EXPECT_EQ(make_text_packs(config, {5}).size(), 1U) << "a capacity below the shortest";
}

TEST(MakeItemPacks, HalveTheLargestFrameAndFillUpToTheMostPatches) {
  const config::ModelConfig config = tiny_vision_model();
  data::EncodedSample clip;
  clip.tokens.resize(80);
  clip.targets.resize(80);
  clip.items.push_back(
      {.modality = Modality::kVideo, .grid = {3, 8, 12}, .seconds_per_step = 1, .rows = {}});
  const std::vector<data::EncodedSample> samples{clip, clip};
  const std::vector<SamplePack> packs = make_item_packs(config, {200}, samples);
  std::vector<std::pair<Grid, std::size_t>> images;
  for (const SamplePack& pack : packs) {
    EXPECT_LE(tokens_of(pack), 200);
    const Grid& grid = pack.front().items.front().grid;
    images.emplace_back(grid, pack.size());
    EXPECT_EQ(std::ssize(pack.front().tokens), grid.patches() / 4 + 1);
    EXPECT_EQ(std::ssize(pack.front().items.front().rows),
              grid.patches() * config.vision->patch_width());
  }
  // Two clips of 288 patches.
  EXPECT_EQ(
      images,
      (std::vector<std::pair<Grid, std::size_t>>{
          {{1, 8, 12}, 6}, {{1, 8, 6}, 12}, {{1, 4, 6}, 24}, {{1, 4, 2}, 66}, {{1, 2, 2}, 100}}));
  EXPECT_TRUE(make_item_packs(config, {200}, make_text_packs(config, {200}).front()).empty());
}

TEST(MakeItemPacks, HalveTheLongestSound) {
  const config::ModelConfig config = tiny_hearing_model();
  const std::vector<data::EncodedSample> samples{hearing_sample(config, 60),
                                                 hearing_sample(config, 160)};
  std::vector<std::int64_t> frames;
  for (const SamplePack& pack : make_item_packs(config, {100}, samples)) {
    const data::PatchedItem& item = pack.front().items.front();
    frames.push_back(item.grid.patches());
    EXPECT_EQ(std::ssize(item.rows), item.grid.patches() * config.audio->mel_bins);
    EXPECT_EQ(std::ssize(pack.front().tokens), config.audio->tokens_of(item.grid) + 1);
    EXPECT_EQ(pack.front().tokens.front(), config.tokens.audio_pad);
    EXPECT_LE(tokens_of(pack), 100);
  }
  // One more than two for each position.
  EXPECT_EQ(frames, (std::vector<std::int64_t>{161, 81, 41, 21, 11, 7}));
}

TEST(WorkOf, CountsPositionsOfSoundsAndTheirPairsInChunks) {
  const config::ModelConfig whole = tiny_hearing_model();
  const data::EncodedSample sample = hearing_sample(whole, 80);
  const std::vector<const data::EncodedSample*> pack{&sample, &sample};
  const LayerWork work = work_of(pack, {"audio", "block"}, whole);
  EXPECT_EQ(work.items, 2 * 40);
  EXPECT_EQ(work.pairs, 2 * 40 * 40);
  EXPECT_EQ(work_of(pack, {"projector", "projector"}, whole).items, 2 * 40);
  const config::ModelConfig chunked = tiny_hearing_model(/*chunk=*/20);
  const data::EncodedSample part = hearing_sample(chunked, 80);
  EXPECT_EQ(work_of(std::vector{&part}, {"audio", "window_block"}, chunked).pairs, 40 * 10);
}

TEST(WorkOf, CountsPairsInSequencesFramesAndWindows) {
  config::ModelConfig config = tiny_vision_model();
  config.vision->window = 56;  // of 4 x 4 patches
  data::EncodedSample sample;
  sample.tokens.resize(10);
  sample.items.push_back(
      {.modality = Modality::kVideo, .grid = {2, 8, 6}, .seconds_per_step = 1, .rows = {}});
  const std::vector<const data::EncodedSample*> pack{&sample, &sample};
  const LayerWork tokens = work_of(pack, kTextBlock, config);
  EXPECT_EQ(tokens.items, 20);
  EXPECT_EQ(tokens.pairs, 200);
  const LayerWork frames = work_of(pack, kFrames, config);
  EXPECT_EQ(frames.items, 192);
  EXPECT_EQ(frames.pairs, 4 * 48 * 48);
  EXPECT_EQ(work_of(pack, kWindows, config).pairs, 192 * 16);
}

/// The model and what measures it, on this rank alone.
class Measured {
 public:
  explicit Measured(const config::ModelConfig& config, const config::ModelSection& section = {})
      : config_(config) {
    at::set_num_threads(1);
    parallel::Layout layout;
    layout.chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{});
    layout.adapters = model::adapter_rules(section);
    model_ = model::make_model(config_, layout);
    for (const auto& unit : model_->units())
      unit->materialize(at::kCPU, at::kFloat, model::trains(section, *unit));
    model::initialize(*model_, /*seed=*/1);
    run_.data.sources.resize(1);
  }
  [[nodiscard]] std::map<LayerKey, config::MeasuredAttention> attention(const SamplePack& pack) {
    return measure_attention(*model_, run_, batch_of(pack), mesh_.world(), options()).front();
  }
  [[nodiscard]] PassMeasurement passes(const SamplePack& pack) {
    return measure_passes(*model_, run_, batch_of(pack), mesh_.world(), options()).front();
  }

 private:
  static ProfileBatch batch_of(const SamplePack& pack) {
    ProfileBatch batch{.capacity = {tokens_of(pack)}, .microbatches = {{}}};
    for (const data::EncodedSample& sample : pack) batch.microbatches.front().push_back(&sample);
    return batch;
  }
  static PassOptions options() { return {.crowds = {{.ranks = 1}}, .rounds = 5}; }

  config::ModelConfig config_;
  config::RunConfig run_;
  mesh::Mesh mesh_;
  std::unique_ptr<model::Model> model_;
};

TEST(MeasureAttention, GrowsWithTheLengthsAtEqualTokens) {
  const config::ModelConfig config = tiny_vision_model();
  Measured measured(config);
  const std::vector<SamplePack> packs = make_text_packs(config, {4096});
  const auto longest = measured.attention(packs.front()).at(kTextBlock);
  const auto shorter = measured.attention(packs[6]).at(kTextBlock);
  EXPECT_EQ(longest.attended, 4096);
  EXPECT_EQ(shorter.attended, 64);
  EXPECT_EQ(longest.tokens, shorter.tokens);
  // 64 times the pairs.
  EXPECT_GT(longest.forward.count, 4 * shorter.forward.count);
  EXPECT_GT(longest.gradient.count, 4 * shorter.gradient.count);
}

TEST(MeasureAttention, GrowsWithTheFramesInBlocksWithoutWindows) {
  const config::ModelConfig config = tiny_vision_model();
  Measured measured(config);
  data::EncodedSample sample;
  sample.tokens.resize(1100);
  sample.targets.resize(1100);
  sample.items.push_back(
      {.modality = Modality::kImage, .grid = {1, 64, 64}, .seconds_per_step = 0, .rows = {}});
  const auto packs = make_item_packs(config, {1200}, std::vector{sample});
  const auto large = measured.attention(packs.front());
  const auto small = measured.attention(packs[4]);
  const auto per_patch = [](const config::MeasuredAttention& of) {
    return double(of.forward.count) / double(of.tokens.count);
  };
  EXPECT_EQ(large.at(kFrames).attended, 4096);
  EXPECT_EQ(small.at(kFrames).attended, 256);
  EXPECT_GT(per_patch(large.at(kFrames)), 3 * per_patch(small.at(kFrames)));
  EXPECT_EQ(large.at(kWindows).attended, 64);
  EXPECT_LT(per_patch(large.at(kWindows)), per_patch(large.at(kFrames)) / 3);
}

TEST(MeasurePasses, LeavesAttentionOutOfTheLayerAndLosesNothing) {
  const config::ModelConfig config = tiny_vision_model();
  Measured measured(config);
  const PassMeasurement passes = measured.passes(make_text_packs(config, {2048}).front());
  const config::ProfilePoint& rest = passes.points.at(kTextBlock);
  const config::MeasuredAttention& attention = passes.attention.at(kTextBlock);
  EXPECT_EQ(passes.attention.size(), 1U) << "text alone";
  EXPECT_EQ(attention.attended, 2048);
  EXPECT_GT(attention.forward, rest.forward) << "2048 tokens of 24 values";
  EXPECT_GT(attention.gradient, rest.input_gradient);
  std::int64_t layers = 0;
  for (const auto& [key, point] : passes.points)
    layers += (point.forward.count) * (key == kTextBlock ? config.backbone.layers : 1);
  layers += config.backbone.layers * attention.forward.count;
  EXPECT_NEAR(double(layers), double(passes.whole.forward.count),
              0.2 * double(passes.whole.forward.count));
}

TEST(MeasurePasses, OfAModelThatHearsLoseNothing) {
  const config::ModelConfig config = tiny_hearing_model();
  Measured measured(config);
  const SamplePack pack =
      make_item_packs(config, {600}, std::vector{hearing_sample(config, 400)}).front();
  const PassMeasurement passes = measured.passes(pack);
  const config::ProfilePoint& front = passes.points.at({"audio", "patch_embedding"});
  EXPECT_EQ(front.tokens.count, 200);
  EXPECT_EQ(front.input_gradient.count, 0) << "frames have none";
  EXPECT_GT(front.weight_gradient.count, 0);
  // The graph of the model has two convolutions, and no layer for the norm behind the blocks.
  const std::int64_t values = 16 * (8 * 3 + 16 * 3 + 2 + 2 + config.audio->positions);
  EXPECT_NEAR(double(passes.parameters.at({"audio", "patch_embedding"}).all.count),
              2.0 * double(values), 64);
  std::int64_t layers = 0;
  for (const auto& [key, point] : passes.points)
    layers += point.forward.count *
              (key == kTextBlock || key.module == "audio" ? std::int64_t{2} : std::int64_t{1});
  for (const auto& [key, attention] : passes.attention) layers += 2 * attention.forward.count;
  EXPECT_EQ(passes.attention.at({"audio", "block"}).attended, 200);
  EXPECT_NEAR(double(layers), double(passes.whole.forward.count),
              0.2 * double(passes.whole.forward.count));
}

TEST(MeasurePasses, OfLayersWithAdaptersSayWhatTrains) {
  const config::ModelConfig config = tiny_vision_model();
  config::ModelSection section;
  section.adapter = {.kind = config::AdapterKind::kLora, .rank = 4, .targets = {"q_proj"}};
  section.freeze = {"vision", "projector"};
  Measured measured(config, section);
  const PassMeasurement passes = measured.passes(make_text_packs(config, {512}).front());
  const LayerBytes& block = passes.parameters.at(kTextBlock);
  // The shard of a unit is padded to 64 bytes.
  EXPECT_NEAR(double(block.adapters.count), 4 * 4 * (24 + 32), 64);
  EXPECT_GT(block.all, block.adapters);
  EXPECT_EQ(passes.parameters.at(kFrames).adapters.count, 0);
  const config::ProfilePoint& point = passes.points.at(kTextBlock);
  EXPECT_GT(point.weight_gradient.count, 0);
  EXPECT_LT(point.weight_gradient, point.input_gradient);
  EXPECT_EQ(passes.points.at({"backbone", "embedding"}).weight_gradient.count, 0);
}

}  // namespace
}  // namespace tributary::train
