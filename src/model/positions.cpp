#include "model/positions.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::model {
namespace {

/// Walks over one pack; knows which image and clip comes next.
class PositionWriter {
 public:
  PositionWriter(const config::ModelConfig& config, const PositionInputs& inputs,
                 config::MropeMode mode, std::int64_t* positions)
      : config_(config), inputs_(inputs), mode_(mode), positions_(positions) {
    const bool splits = config.vision && config.vision->splits_clips();
    for (const Grid& clip : inputs.videos)
      for (std::int64_t step = 0; step < (splits ? clip.time : 1); ++step)
        videos_.push_back({splits ? 1 : clip.time, clip.rows, clip.columns});
  }

  void write_sample(std::int64_t sample) {
    const std::int64_t end = inputs_.cu_seqlens[sample + 1];
    std::int64_t next = 0;
    for (std::int64_t token = inputs_.cu_seqlens[sample]; token < end;) {
      const std::int64_t id = inputs_.tokens[token];
      if (has_places() && (id == config_.tokens.image_pad || id == config_.tokens.video_pad)) {
        token = write_item(sample, token, end, next);
      } else {
        set(token++, next, next, next);
        ++next;
      }
    }
  }

  void check_all_used() const {
    const std::int64_t images = std::ssize(inputs_.images);
    TRIB_REQUIRE(image_ == images && video_ == std::ssize(videos_),
                 .what = "model: more images or clips than placeholders in the text",
                 .found = str(images, " images, ", videos_.size(), " clips"),
                 .expected = str(image_, " images, ", video_, " clips"));
  }

 private:
  /// Whether media have places of their own in rows and columns.
  [[nodiscard]] bool has_places() const {
    return config_.vision && !config_.backbone.mrope_section.empty();
  }

  void set(std::int64_t token, std::int64_t time, std::int64_t row, std::int64_t column) {
    const std::int64_t tokens = std::ssize(inputs_.tokens);
    positions_[token] = time;
    positions_[tokens + token] = row;
    positions_[2 * tokens + token] = column;
  }

  /// Writes the item whose first placeholder is `token`; returns the token after it and moves
  /// `next` to that token's position.
  std::int64_t write_item(std::int64_t sample, std::int64_t token, std::int64_t end,
                          std::int64_t& next) {
    const std::int64_t pad = inputs_.tokens[token];
    const bool is_video = pad == config_.tokens.video_pad;
    const Grid grid = take_grid(is_video, sample, token);
    const double seconds = is_video ? take_seconds() : 0;
    const std::int64_t rows = grid.rows / config_.vision->merge;
    const std::int64_t columns = grid.columns / config_.vision->merge;
    check_run(sample, token, end, pad, grid.time * rows * columns);
    std::int64_t last = next;
    for (std::int64_t step = 0; step < grid.time; ++step) {
      const std::int64_t time = next + time_of(step, seconds, is_video);
      last = std::max(last, time);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column)
          set(token++, time, next + row, next + column);
    }
    const std::int64_t longer = std::max(rows, columns);
    next = takes_whole_seconds() ? next + longer : std::max(last + 1, next + longer);
    return token;
  }

  [[nodiscard]] bool takes_whole_seconds() const {
    return mode_ == config::MropeMode::kHf5 && !config_.vision->keeps_fractions;
  }

  [[nodiscard]] std::int64_t time_of(std::int64_t step, double seconds, bool is_video) const {
    const double rate = config_.vision->tokens_per_second;
    if (config_.vision->kind != config::VisionClass::kQwen2_5Vl) return step;
    if (takes_whole_seconds())
      return is_video ? static_cast<std::int64_t>(static_cast<double>(step) * rate *
                                                  static_cast<double>(static_cast<int>(seconds)))
                      : step;
    // In f32, as the published code computes it.
    return static_cast<std::int64_t>(static_cast<float>(step) * static_cast<float>(seconds) *
                                     static_cast<float>(rate));
  }

  Grid take_grid(bool is_video, std::int64_t sample, std::int64_t token) {
    const std::span<const Grid> grids = is_video ? std::span<const Grid>(videos_) : inputs_.images;
    std::int64_t& next = is_video ? video_ : image_;
    TRIB_REQUIRE(next < std::ssize(grids), .what = "model: placeholder without an image or clip",
                 .where = str("sample ", sample, ", token ", token - inputs_.cu_seqlens[sample]),
                 .found = str(grids.size(), is_video ? " clips" : " images"));
    return grids[next++];
  }

  [[nodiscard]] double take_seconds() const {
    const bool is_given = !inputs_.seconds_per_step.empty() && !config_.vision->splits_clips();
    return is_given ? inputs_.seconds_per_step[video_ - 1] : 1.0;
  }

  void check_run(std::int64_t sample, std::int64_t token, std::int64_t end, std::int64_t pad,
                 std::int64_t expected) const {
    std::int64_t found = 0;
    while (found < expected && token + found < end && inputs_.tokens[token + found] == pad) ++found;
    TRIB_REQUIRE(found == expected,
                 .what = "model: placeholders of an image or clip do not match its grid",
                 .where = str("sample ", sample, ", token ", token - inputs_.cu_seqlens[sample]),
                 .found = str(found, " placeholders"), .expected = str(expected));
  }

  const config::ModelConfig& config_;
  const PositionInputs& inputs_;
  config::MropeMode mode_;
  std::int64_t* positions_;
  std::vector<Grid> videos_ = {};  // clips, or their steps where those stand apart in the text
  std::int64_t image_ = 0;
  std::int64_t video_ = 0;
};

}  // namespace

at::Tensor position_ids(const config::ModelConfig& config, const PositionInputs& inputs,
                        config::MropeMode mode) {
  const std::int64_t tokens = std::ssize(inputs.tokens);
  TRIB_REQUIRE(!inputs.cu_seqlens.empty() && inputs.cu_seqlens.front() == 0 &&
                   inputs.cu_seqlens.back() == tokens && std::ranges::is_sorted(inputs.cu_seqlens),
               .what = "model: sample boundaries do not fit the tokens",
               .found = str(inputs.cu_seqlens.size(), " boundaries, ", tokens, " tokens"),
               .expected = "0 first, the tokens last, ascending");
  TRIB_REQUIRE(
      inputs.seconds_per_step.empty() || inputs.seconds_per_step.size() == inputs.videos.size(),
      .what = "model: seconds per step and clips differ in number",
      .found = str(inputs.seconds_per_step.size()), .expected = str(inputs.videos.size()));
  at::Tensor positions = at::empty({3, tokens}, at::kLong);
  PositionWriter writer(config, inputs, mode, positions.mutable_data_ptr<std::int64_t>());
  for (std::int64_t sample = 0; sample + 1 < std::ssize(inputs.cu_seqlens); ++sample)
    writer.write_sample(sample);
  if (config.vision && !config.backbone.mrope_section.empty()) writer.check_all_used();
  require_in_rope(config.backbone, positions);
  return positions;
}

void require_in_rope(const config::BackboneConfig& backbone, const at::Tensor& positions) {
  if (!backbone.max_tokens() || positions.numel() == 0) return;
  const std::int64_t length = positions.max().item<std::int64_t>() + 1;
  TRIB_REQUIRE(length <= *backbone.max_tokens(), .what = "model: a sample outgrows a dynamic rope",
               .found = str(length, " tokens"),
               .expected = str("at most max_position_embeddings ", *backbone.max_tokens()),
               .fix = "shorten it: longer samples have other positions, by their length");
}

}  // namespace tributary::model
