#include "data/decode/ffmpeg/sound_codec.h"

#include <cstring>
#include <optional>
#include <vector>

#include "core/text.h"
#include "data/decode/ffmpeg/media_stream.h"

namespace tributary::data {
namespace {

constexpr double kPaddingSeconds = 0.25;  // that an encoder adds and a decoder cuts off, at most

/// FFmpeg 5.1 renamed the field.
template <class Frame>
int channels_of(const Frame& frame) {
  if constexpr (requires { frame.ch_layout; })
    return frame.ch_layout.nb_channels;
  else
    return frame.channels;
}

template <class Value>
float value_at(const std::uint8_t* data, std::int64_t place) {
  Value value;
  std::memcpy(&value, data + place * static_cast<std::int64_t>(sizeof value), sizeof value);
  return static_cast<float>(value);
}

/// Reads one value as a number from -1 to 1; null for a format of samples that is not known.
using ReadValue = float (*)(const std::uint8_t* data, std::int64_t place);
ReadValue reader_of(int format) {
  switch (av_get_packed_sample_fmt(static_cast<AVSampleFormat>(format))) {
    case AV_SAMPLE_FMT_U8:
      return [](const std::uint8_t* data, std::int64_t place) {
        return (static_cast<float>(data[place]) - 128.0F) / 128.0F;
      };
    case AV_SAMPLE_FMT_S16:
      return [](const std::uint8_t* data, std::int64_t place) {
        return value_at<std::int16_t>(data, place) / 32768.0F;
      };
    case AV_SAMPLE_FMT_S32:
      return [](const std::uint8_t* data, std::int64_t place) {
        return value_at<std::int32_t>(data, place) / 2147483648.0F;
      };
    case AV_SAMPLE_FMT_FLT:
      return value_at<float>;
    case AV_SAMPLE_FMT_DBL:
      return value_at<double>;
    default:
      return nullptr;
  }
}

/// Adds the mean of the channels of each sample.
void add_samples(const AVFrame& frame, ReadValue read, std::vector<float>& samples) {
  const int channels = channels_of(frame);
  const bool is_planar = av_sample_fmt_is_planar(static_cast<AVSampleFormat>(frame.format)) != 0;
  for (int i = 0; i < frame.nb_samples; ++i) {
    float sum = 0;
    for (int channel = 0; channel < channels; ++channel)
      sum += is_planar ? read(frame.extended_data[channel], i)
                       : read(frame.extended_data[0], std::int64_t{i} * channels + channel);
    samples.push_back(sum / static_cast<float>(channels));
  }
}

/// What the first frame says, which the others must say too.
struct SoundFormat {
  int rate = 0;
  int channels = 0;
  int format = -1;

  friend bool operator==(const SoundFormat&, const SoundFormat&) = default;
};

std::optional<Refusal> refuse_format(const SoundFormat& format, const SoundLimits& limits) {
  if (auto refusal = refuse_sound(format.rate, format.channels, limits)) return refusal;
  if (reader_of(format.format) == nullptr)
    return Refusal{"sound_damaged", "samples are in an unknown format"};
  return std::nullopt;
}

/// The length that the container states [s]; 0 where it is a guess, or that of other streams.
double stated_seconds(const MediaStream& media) {
  const AVFormatContext& input = media.input();
  if (input.duration_estimation_method == AVFMT_DURATION_FROM_BITRATE) return 0;
  if (media.stream().duration > 0)
    return static_cast<double>(media.stream().duration) * av_q2d(media.stream().time_base);
  return input.nb_streams == 1 && input.duration > 0
             ? static_cast<double>(input.duration) / AV_TIME_BASE
             : 0;
}

/// Decodes the stream, and keeps its samples where `samples` is not null.
Result<SoundSize> decode_all(std::span<const std::uint8_t> file, const SoundLimits& limits,
                             std::vector<float>* samples) {
  MediaStream media(file, AVMEDIA_TYPE_AUDIO, "sound_damaged");
  if (auto refusal = media.open())
    return media.lacks_stream() ? Refusal{"empty_sound", "no stream of sound"} : *refusal;
  SoundFormat first;
  std::int64_t count = 0;
  std::optional<Refusal> refused;
  const auto take = [&](const AVFrame& frame) {
    const SoundFormat format{frame.sample_rate, channels_of(frame), frame.format};
    if (count == 0) refused = refuse_format(first = format, limits);
    count += frame.nb_samples;
    if (!refused && format != first)
      refused = Refusal{"sound_damaged", "its rate or channels change"};
    if (!refused && static_cast<double>(count) / first.rate > limits.max_seconds)
      refused = Refusal{"sound_limit", str("more than ", limits.max_seconds, " seconds")};
    if (!refused && samples != nullptr) add_samples(frame, reader_of(format.format), *samples);
    return !refused;
  };
  if (auto refusal = media.decode(take)) return *refusal;
  if (refused) return *refused;
  if (count == 0) return Refusal{"empty_sound", "no samples"};
  const double seconds = static_cast<double>(count) / first.rate;
  if (const double stated = stated_seconds(media); seconds + kPaddingSeconds < stated)
    return Refusal{"sound_damaged", str(seconds, " of ", stated, " seconds can be decoded")};
  return SoundSize{.samples = count, .rate = first.rate};
}

}  // namespace

Result<SoundSize> count_samples(std::span<const std::uint8_t> file, const SoundLimits& limits) {
  return decode_all(file, limits, nullptr);
}

Result<Sound> decode_stream(std::span<const std::uint8_t> file, const SoundLimits& limits) {
  Sound sound;
  const Result<SoundSize> size = decode_all(file, limits, &sound.samples);
  if (!size) return size.refusal();
  sound.rate = size.value().rate;
  return sound;
}

}  // namespace tributary::data
