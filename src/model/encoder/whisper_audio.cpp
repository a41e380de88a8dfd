#include "model/encoder/whisper_audio.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/sinusoids.h"
#include "ops/to_device.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using parallel::Unit;

const std::string kSoundTower = "audio";
constexpr double kNormEpsilon = 1e-5;
constexpr std::int64_t kKernel = 3;

BlockStyle whisper_style(const config::AudioConfig& config) {
  return {.width = config.width,
          .heads = config.heads,
          .mlp_width = config.mlp_width,
          .norm_epsilon = kNormEpsilon,
          .deviation = config.initializer_range,
          .activation = ops::Activation::kGelu,
          .norm1 = "self_attn_layer_norm",
          .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          .has_key_bias = false,
          .out = "self_attn.out_proj",
          .norm2 = "final_layer_norm",
          .mlp = {"fc1", "fc2"}};
}

at::Tensor as_index(const std::vector<std::int64_t>& values, at::Device device) {
  return ops::to_device(at::tensor(values, at::kLong), device);
}

void require_possible(const Grid& grid, std::int64_t item, const config::AudioConfig& config) {
  const std::int64_t frames = grid.columns;
  const bool is_whole = config.chunk > 0 || frames % 2 == 1 || frames == config.max_frames();
  TRIB_REQUIRE(grid.time == 1 && grid.rows == 1 && config.tokens_of(grid) > 0 &&
                   frames <= config.max_frames() && is_whole,
               .what = "model: impossible frames of a sound", .where = str("item ", item),
               .found = str(grid.time, "x", grid.rows, "x", frames),
               .expected = str("1x1 and frames for a token, at most ", config.max_frames(),
                               config.chunk > 0 ? "" : ", an odd number below that"));
}

}  // namespace

/// Everything about a list of sounds that does not depend on their values. For the convolutions
/// they, or their chunks, lie in one row with zeros between: n positions take 2n + 2 places.
struct WhisperAudio::SoundLayout {
  SoundLayout(std::span<const Grid> of, const config::AudioConfig& config, at::Device on)
      : grids(of.begin(), of.end()), device(on) {
    std::vector<std::int64_t> frame_places;
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> paired_rows;
    std::vector<bool> within;
    std::vector<std::int32_t> cu_sounds{0};
    for (const Grid& grid : grids) {
      require_possible(grid, &grid - grids.data(), config);
      const std::int64_t first = std::ssize(rows);
      for (std::int64_t i = 0; i < 2 * config.tokens_of(grid); ++i)
        paired_rows.push_back(first + i);
      const std::int64_t step = config.chunk > 0 ? config.chunk : grid.columns;
      for (std::int64_t begin = 0; begin < grid.columns; begin += step) {
        const std::int64_t frames = std::min(step, grid.columns - begin);
        const std::int64_t positions = config.positions_of({1, 1, frames});
        for (std::int64_t i = 0; i < frames; ++i) frame_places.push_back(places + i);
        for (std::int64_t i = 0; i < positions; ++i) {
          rows.push_back(places / kFramesOfPosition + i);
          numbers.push_back(i);
        }
        cu_sounds.push_back(static_cast<std::int32_t>(rows.size()));
        const std::int64_t used = config.chunk > 0 ? frames : kFramesOfPosition * positions;
        within.resize(static_cast<std::size_t>(places + used), true);
        places += kFramesOfPosition * (positions + 1);
        within.resize(static_cast<std::size_t>(places), false);
      }
    }
    place_of_frame = as_index(frame_places, device);
    row_of_position = as_index(rows, device);
    position = as_index(numbers, device);
    if (paired_rows.size() < rows.size()) paired = as_index(paired_rows, device);
    is_within = ops::to_device(
        at::tensor(std::vector<float>(within.begin(), within.end()), at::kFloat), device);
    sounds.emplace(cu_sounds, ops::Mask::kNone, device);
  }

  std::vector<Grid> grids;
  at::Device device;
  std::int64_t places = 0;
  at::Tensor place_of_frame;   // [frames] i64
  at::Tensor is_within;        // [places] f32: 1 for the first convolution's outputs that are used
  at::Tensor row_of_position;  // [positions] i64, of the second convolution's outputs
  at::Tensor position;         // [positions] i64, within the sound or chunk
  at::Tensor paired;           // [2 * tokens] i64; undefined: all positions
  std::optional<ops::SampleGroups> sounds;
};

/// Both convolutions, and the table of positions, which no step changes.
class WhisperAudio::Convolutions {
 public:
  Convolutions(const config::AudioConfig& config, const WhisperNames& names, Unit& unit)
      : unit_(unit) {
    const std::string& prefix = names.tower;
    const parallel::Initializer normal{.kind = parallel::Initializer::Kind::kNormal,
                                       .deviation = config.initializer_range};
    const parallel::Split whole = parallel::replicated(unit.layout(), /*uses_part=*/false);
    const auto declare = [&](const std::string& name, std::int64_t channels) {
      return Pair{&unit.declare(prefix + name + ".weight", {config.width, channels, kKernel},
                                normal, whole),
                  &unit.declare(prefix + name + ".bias", {config.width}, {}, whole)};
    };
    first_ = declare("conv1", config.mel_bins);
    second_ = declare("conv2", config.width);
    if (config.chunk > 0) {
      sinusoids_ = ops::sinusoids(config.chunk / kFramesOfPosition, config.width);
      unit.declare(prefix + names.unused + ".weight", {2, config.output_width}, normal, whole)
          .is_fixed = true;
      return;
    }
    positions_ = &unit.declare(prefix + "embed_positions.weight", {config.positions, config.width},
                               {.kind = parallel::Initializer::Kind::kSinusoids}, whole);
    positions_->is_fixed = true;
  }

  /// shape: rows [frames, mel_bins] -> returns [positions, width]
  [[nodiscard]] at::Tensor run(const at::Tensor& rows,
                               std::shared_ptr<const SoundLayout> layout) const {
    return parallel::run_layer(
        unit_, parallel::Keep::kActivations, rows,
        [this, layout = std::move(layout)](const at::Tensor& x) {
          const at::Tensor spread =
              at::zeros({layout->places, x.size(1)}, first_.weight->value.options())
                  .index_copy(0, layout->place_of_frame, x.to(first_.weight->value.scalar_type()));
          const at::Tensor one = at::gelu(at::conv1d(spread.t().unsqueeze(0), first_.weight->value,
                                                     first_.bias->value, /*stride=*/1,
                                                     /*padding=*/1));
          const at::Tensor two = at::gelu(at::conv1d(one * layout->is_within.to(one.scalar_type()),
                                                     second_.weight->value, second_.bias->value,
                                                     /*stride=*/kFramesOfPosition, /*padding=*/1));
          return two.squeeze(0).t().index_select(0, layout->row_of_position) +
                 table(two).index_select(0, layout->position);
        });
  }
  [[nodiscard]] const Unit& unit() const { return unit_; }

 private:
  struct Pair {
    parallel::Parameter* weight = nullptr;
    parallel::Parameter* bias = nullptr;
  };

  /// The table of positions, on the device and of the dtype of the hidden states.
  [[nodiscard]] at::Tensor table(const at::Tensor& hidden) const {
    if (positions_ != nullptr) return positions_->value.detach();
    return ops::to_device(sinusoids_, hidden.device()).to(hidden.scalar_type());
  }

  Unit& unit_;
  Pair first_;
  Pair second_;
  parallel::Parameter* positions_ = nullptr;
  at::Tensor sinusoids_;  // where the table is no parameter
};

WhisperAudio::WhisperAudio(const config::AudioConfig& config, const EncoderPlace& place,
                           const WhisperNames& names)
    : config_(config),
      convolutions_(std::make_unique<Convolutions>(
          config, names, place.add_tower(kSoundTower, "convolutions", 0))),
      blocks_([&] {
        std::vector<std::unique_ptr<EncoderBlock>> blocks;
        for (std::int64_t layer = 0; layer < config.layers; ++layer)
          blocks.push_back(std::make_unique<EncoderBlock>(
              whisper_style(config), str(names.tower, "layers.", layer, "."),
              place.add_tower(kSoundTower, str("layers.", layer), layer)));
        return blocks;
      }()),
      norm_unit_(&place.add_tower(kSoundTower, "norm", config.layers - 1)),
      norm_(*norm_unit_, names.tower + names.norm, config.width, kNormEpsilon,
            parallel::NormOver::kTokens, parallel::NormKind::kLayer),
      projector_unit_(&place.add_projector(names.projector_module, "linear")),
      projector_(*projector_unit_, names.projector,
                 {.in = config.width,
                  .out = config.output_width,
                  .bias = parallel::Bias::kZeros,
                  .deviation = config.initializer_range}),
      projector_module_(names.projector_module) {}

WhisperAudio::~WhisperAudio() = default;

Grid WhisperAudio::smallest_item() const { return config_.grid_of(2 * kFramesOfPosition); }

void WhisperAudio::set_keep(const parallel::KeepOf& keep_of) {
  const parallel::LayerKeep keep = keep_of(kSoundTower);
  model::set_keep(blocks_, keep);
  keep_norm_ = keep.of(config_.layers - 1);
  keep_projector_ = keep_of(projector_module_).keep;
}

std::shared_ptr<const WhisperAudio::SoundLayout> WhisperAudio::layout_of(
    std::span<const Grid> grids, at::Device device) {
  if (!layout_ || layout_->device != device || !std::ranges::equal(layout_->grids, grids))
    layout_ = std::make_shared<const SoundLayout>(grids, config_, device);
  return layout_;
}

at::Tensor WhisperAudio::embed_frames(const at::Tensor& rows,
                                      const std::shared_ptr<const SoundLayout>& layout) const {
  TRIB_REQUIRE(rows.dim() == 2 && rows.size(0) == layout->place_of_frame.size(0) &&
                   rows.size(1) == config_.mel_bins,
               .what = "model: frames do not match the sounds",
               .found = tributary::str(rows.sizes()),
               .expected = str("[", layout->place_of_frame.size(0), ", ", config_.mel_bins, "]"));
  return convolutions_->run(rows, layout);
}

at::Tensor WhisperAudio::average_pairs(const at::Tensor& hidden,
                                       const std::shared_ptr<const SoundLayout>& layout) const {
  return parallel::run_layer(*norm_unit_, keep_norm_, hidden, [this, layout](const at::Tensor& x) {
    const at::Tensor pairs = layout->paired.defined() ? x.index_select(0, layout->paired) : x;
    return norm_(pairs.reshape({-1, 2, config_.width}).mean(1));
  });
}

at::Tensor WhisperAudio::run_tower(int stage, const at::Tensor& input,
                                   std::span<const Grid> items) {
  const std::shared_ptr<const SoundLayout> layout = layout_of(items, input.device());
  // Nothing before the frames trains, so a frozen tower needs no graph at all.
  const at::AutoGradMode mode(at::GradMode::is_enabled() && convolutions_->unit().trainable());
  at::Tensor hidden = stage == 0 ? embed_frames(input, layout) : input;
  for (const auto& block : blocks_)
    if (block->stage() == stage) hidden = block->run(hidden, {.groups = *layout->sounds}, layout);
  const bool is_last = norm_unit_->layout().virtual_stage == stage;
  return is_last ? average_pairs(hidden, layout) : hidden;
}

at::Tensor WhisperAudio::project(const at::Tensor& features, std::span<const Grid> /*items*/) {
  return parallel::run_layer(*projector_unit_, keep_projector_, features,
                             [this](const at::Tensor& x) { return projector_(x); });
}

}  // namespace tributary::model
