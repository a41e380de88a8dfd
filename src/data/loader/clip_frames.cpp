#include "data/loader/clip_frames.h"

#include "core/text.h"
#include "data/decode/video_file.h"
#include "data/loader/encode_sample.h"
#include "data/preprocess/sample_frames.h"

namespace tributary::data {
namespace {

Refusal name_file(const Refusal& refusal, const Clip& clip) {
  return {refusal.code, str(escaped(clip.file.substr(0, 120)), ": ", refusal.reason)};
}

Result<ClipFrames> measure_video(const Record& record, const Clip& clip,
                                 const PreprocessorConfig& config) {
  const auto file = read_media_file(record, clip.file);
  if (!file) return file.refusal();
  const Result<VideoHeader> read = read_video_header(file.value());
  if (!read) return name_file(read.refusal(), clip);
  const VideoHeader& header = read.value();
  ClipFrames frames{.size = header.size,
                    .seconds = {},
                    .in_file = sample_frames(header.frames, header.fps, clip.fps, config)};
  for (const std::int64_t index : frames.in_file)
    frames.seconds.push_back(static_cast<double>(index) / header.fps);
  // In the reference's order of operations.
  frames.fps =
      static_cast<double>(frames.in_file.size()) / static_cast<double>(header.frames) * header.fps;
  return frames;
}

Result<ClipFrames> measure_pictures(const Record& record, const Clip& clip) {
  ClipFrames frames{.size = {}, .seconds = {}, .fps = clip.fps, .in_file = {}};
  for (const std::string& frame : clip.frames) {
    const auto size = measure_picture(record, frame);
    if (!size) return size.refusal();
    if (frames.seconds.empty()) frames.size = size.value();
    if (size.value() != frames.size)
      return Refusal{"frame_sizes", escaped(frame) + " differs in size from the first frame"};
    frames.seconds.push_back(static_cast<double>(frames.seconds.size()) / clip.fps);
  }
  return frames;
}

}  // namespace

Result<ClipFrames> measure_clip(const Record& record, const Clip& clip,
                                const PreprocessorConfig& config) {
  return clip.file.empty() ? measure_pictures(record, clip) : measure_video(record, clip, config);
}

Result<std::vector<Picture>> decode_clip(const Record& record, const Clip& clip,
                                         const ClipFrames& frames) {
  if (!clip.file.empty()) {
    const auto file = read_media_file(record, clip.file);
    if (!file) return file.refusal();
    Result<std::vector<Picture>> pictures = decode_video(file.value(), frames.in_file);
    if (!pictures) return name_file(pictures.refusal(), clip);
    return pictures;
  }
  std::vector<Picture> pictures;
  for (const std::string& frame : clip.frames) {
    Result<Picture> picture = decode_named_picture(record, frame);
    if (!picture) return picture.refusal();
    pictures.push_back(std::move(picture).value());
  }
  return pictures;
}

Result<PatchedItem> item_without_rows(const Record& record, MediaReference medium, const Grid& grid,
                                      const std::optional<PreprocessorConfig>& config) {
  if (medium.modality != Modality::kVideo)
    return PatchedItem{.modality = medium.modality, .grid = grid, .rows = {}};
  const Clip& clip = record.clips[static_cast<std::size_t>(medium.index)];
  const Result<ClipFrames> measured = measure_clip(record, clip, *config);
  if (!measured) return measured.refusal();
  return clip_without_rows(grid, measured.value().fps, *config);
}

}  // namespace tributary::data
