#include "data/preprocess/whisper.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "data/preprocess/processor_file.h"
#include "data/preprocess/resample.h"

namespace tributary::data {
SoundConfig read_sound_config(const std::string& directory, const config::AudioConfig& model) {
  SoundConfig config{.model = model};
  const ProcessorSettings settings = find_processor_settings(directory, ProcessorPart::kSounds);
  if (settings.values.is_null()) return config;
  const std::string& path = settings.where;
  const Json& json = settings.values;
  const auto whole = [&](const char* key, std::int64_t standard) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return standard;
    TRIB_REQUIRE(found->is_number_integer() && *found >= 1 && *found <= 1 << 20,
                 .what = "data: impossible number in the feature extractor's file",
                 .where = str(path, " ", key), .found = found->dump(),
                 .expected = "a positive whole number");
    return found->get<std::int64_t>();
  };
  config.rate = whole("sampling_rate", config.rate);
  config.window = whole("n_fft", config.window);
  config.step = whole("hop_length", config.step);
  const std::int64_t bins = whole("feature_size", model.mel_bins);
  TRIB_REQUIRE(bins == model.mel_bins, .what = "data: feature extractor and model differ",
               .where = str(path, " feature_size"), .found = str(bins),
               .expected = str(model.mel_bins, ", as num_mel_bins in config.json"));
  const double standard =
      static_cast<double>(config.max_samples()) / static_cast<double>(config.rate);
  const double seconds = static_cast<double>(whole("chunk_length", std::llround(standard)));
  TRIB_REQUIRE(seconds == standard, .what = "data: feature extractor and model differ",
               .where = str(path, " chunk_length"), .found = str(seconds, " seconds"),
               .expected = str(standard, ", by max_source_positions in config.json"));
  return config;
}

Result<Grid> grid_of_sound(SoundSize size, const SoundConfig& config) {
  const std::int64_t samples = resampled_length(size, config.rate);
  const auto seconds = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(config.rate);
  };
  if (samples > config.max_samples())
    return Refusal{"long_sound", str(seconds(samples), " seconds, and the model hears ",
                                     seconds(config.max_samples()), "; cut the file into parts")};
  const Grid grid = config.model.grid_of((samples + config.step - 1) / config.step);
  if (config.model.tokens_of(grid) < 1)
    return Refusal{"short_sound", str(seconds(samples), " seconds, which give no token")};
  return grid;
}

Result<PatchedItem> frame_sound(const Sound& sound, const SoundConfig& config,
                                const LogMel& log_mel) {
  const Result<Grid> grid = grid_of_sound({std::ssize(sound.samples), sound.rate}, config);
  if (!grid) return grid.refusal();
  PatchedItem item{.modality = Modality::kAudio, .grid = grid.value(), .rows = {}};
  item.rows = log_mel(resample(sound, config.rate), config, item.grid.patches());
  TRIB_CHECK(std::ssize(item.rows) == item.grid.patches() * config.model.mel_bins,
             .what = "data: spectrogram of another size", .found = str(item.rows.size()));
  return item;
}

}  // namespace tributary::data
