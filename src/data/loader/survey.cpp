#include "data/loader/survey.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "data/decode/decode_picture.h"
#include "data/decode/video_file.h"
#include "data/loader/encode_sample.h"
#include "data/loader/source_files.h"
#include "data/record/media_folder.h"
#include "data/record/record.h"
#include "data/record/record_file.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMaxBadShown = 10;
constexpr std::size_t kMaxTextShown = 400;

/// Cuts a text for the terminal, never inside a UTF-8 character.
std::string shorten(const std::string& text) {
  if (text.size() <= kMaxTextShown) return text;
  std::size_t end = kMaxTextShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string_view name_of(Role role) {
  if (role == Role::kSystem) return "system";
  return role == Role::kUser ? "user" : "assistant";
}

std::string shown(const Record& record, MediaReference medium) {
  const auto index = static_cast<std::size_t>(medium.index);
  if (medium.modality == Modality::kImage)
    return str("[image ", shorten(record.images[index]).substr(0, 80), "]");
  if (medium.modality == Modality::kAudio)
    return str("[sound ", shorten(record.sounds[index]).substr(0, 80), "]");
  const Clip& clip = record.clips[index];
  if (!clip.file.empty())
    return str("[clip of ", clip.fps, " frames per second of ", clip.file.substr(0, 80), "]");
  return str("[clip of ", clip.frames.size(), " frames at ", clip.fps, " per second, ",
             clip.frames.front().substr(0, 80), "]");
}

std::string shown(const Record& record, const ObjectReference& object) {
  const auto index = static_cast<std::size_t>(object.index);
  if (object.kind == ObjectReference::Kind::kName) return shorten(record.object_names[index]);
  std::string text;
  for (const double corner : record.boxes[index].corners)
    text += str(text.empty() ? "[box " : ", ", corner);
  return text + "]";
}

/// The turns of a pair's worse answer, behind the prompt.
std::span<const Turn> rejected_answer(const Record& record) {
  const auto differs = std::ranges::mismatch(record.rejected, record.turns).in1;
  return {differs, record.rejected.end()};
}

std::string render(const Record& record, const Turn& turn) {
  std::string text;
  for (const Part& part : turn.parts) {
    if (const auto* words = std::get_if<std::string>(&part))
      text += shorten(*words);
    else if (const auto* object = std::get_if<ObjectReference>(&part))
      text += shown(record, *object);
    else
      text += shown(record, std::get<MediaReference>(part));
  }
  return text;
}

std::string render(const Record& record) {
  std::string text;
  for (const Turn& turn : record.turns)
    text += str(text.empty() ? "" : "\n", record.is_document ? "document" : name_of(turn.role),
                turn.role == Role::kAssistant && !turn.is_learned ? " (not learned)" : "", ": ",
                render(record, turn));
  for (const Turn& turn : rejected_answer(record))
    text += str("\nrejected ", name_of(turn.role), ": ", render(record, turn));
  return text;
}

std::int64_t count_text(std::span<const Turn> turns) {
  std::size_t bytes = 0;
  for (const Turn& turn : turns)
    for (const Part& part : turn.parts)
      if (const auto* text = std::get_if<std::string>(&part)) bytes += text->size();
  return static_cast<std::int64_t>(bytes);
}

/// Decodes the first frame of a video file.
Result<Picture> decode_first_frame(const Record& record, const std::string& video) {
  const auto file = read_media_file(record, video);
  if (!file) return file.refusal();
  constexpr std::array<std::int64_t, 1> kFirst{0};
  Result<std::vector<Picture>> frames = decode_video(file.value(), kFirst);
  if (!frames)
    return Refusal{frames.refusal().code,
                   str(escaped(video.substr(0, 120)), ": ", frames.refusal().reason)};
  return std::move(std::move(frames).value().front());
}

/// Decodes every picture and sound of a record, and one frame of each video file, and returns the
/// longer sides of pictures.
Result<std::vector<std::int64_t>> decode_all(const Record& record) {
  std::vector<std::string> pictures = record.images;
  for (const Clip& clip : record.clips)
    pictures.insert(pictures.end(), clip.frames.begin(), clip.frames.end());
  std::vector<std::int64_t> sides;
  for (const std::string& picture : pictures) {
    const auto file = read_media_file(record, picture);
    if (!file) return file.refusal();
    const auto decoded = decode_picture(file.value());
    if (!decoded)
      return Refusal{decoded.refusal().code,
                     str(escaped(picture.substr(0, 120)), ": ", decoded.refusal().reason)};
    sides.push_back(std::max(decoded.value().width, decoded.value().height));
  }
  for (const Clip& clip : record.clips) {
    if (clip.file.empty()) continue;
    const Result<Picture> frame = decode_first_frame(record, clip.file);
    if (!frame) return frame.refusal();
    sides.push_back(std::max(frame.value().width, frame.value().height));
  }
  for (const std::string& name : record.sounds)
    if (const auto sound = read_sound(record, name); !sound) return sound.refusal();
  return sides;
}

/// Adds one record to the survey, but only when all of it is good; else says why not.
std::optional<Refusal> survey_record(const RecordFile& file, std::int64_t number,
                                     const RecordOptions& reading, const MediaFiles& folder,
                                     const SampleEncoder* encoder, Survey& survey) {
  const std::string key = file.key(number);
  const Result<StoredRecord> stored = file.read(number);
  if (!stored) return stored.refusal();
  Result<ParsedRecord> parsed = read_record(stored.value().json, key, reading);
  if (!parsed) return parsed.refusal();
  const RecordForm form = parsed.value().form;
  Record record = std::move(parsed).value().record;
  record.folder = &folder;
  record.inside = stored.value().inside;
  const auto sides = decode_all(record);
  if (!sides) return sides.refusal();
  if (encoder != nullptr) {
    const Result<SampleShape> shape = encoder->describe(record);
    if (!shape) return shape.refusal();
    survey.tokens.add(shape.value().tokens.count);
    survey.target_tokens.add(shape.value().target_tokens.count);
    if (survey.max_tokens.count == 0 || shape.value().tokens <= survey.max_tokens) {
      ++survey.shapes[shape.value()];
    } else {
      ++survey.too_long;
      if (survey.first_too_long.size() < kMaxBadShown)
        survey.first_too_long.push_back(
            {key, {kTooLong, str(shape.value().tokens, ", limit ", survey.max_tokens)}});
    }
  }
  for (const std::string& unread : record.unread_keys) ++survey.unread_keys[unread];
  ++survey.forms[std::string(name_of(form))];
  survey.turns += std::ssize(record.turns);
  survey.images += std::ssize(record.images);
  survey.clips += std::ssize(record.clips);
  survey.sounds += std::ssize(record.sounds);
  for (const Clip& clip : record.clips) survey.frames += std::ssize(clip.frames);
  survey.text_bytes.add(count_text(record.turns) + count_text(rejected_answer(record)));
  for (const std::int64_t side : sides.value()) survey.picture_sides.add(side);
  if (survey.first_sample.empty()) survey.first_sample = render(record);
  return std::nullopt;
}

}  // namespace

void Histogram::add(std::int64_t value) {
  min = values == 0 ? value : std::min(min, value);
  max = values == 0 ? value : std::max(max, value);
  ++values;
  sum += value;
  ++counts[static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value)))];
  ++exact[value];
}

std::int64_t Histogram::percentile(int percent) const {
  std::int64_t below = 0;
  for (const auto& [value, count] : exact) {
    below += count;
    if (below * 100 >= values * percent) return value;
  }
  return 0;
}

std::int64_t Survey::bad_records() const {
  std::int64_t all = 0;
  for (const auto& [code, count] : bad) all += count;
  return all;
}

Survey survey_source(const config::SourceSection& source, const SurveyOptions& options) {
  const std::unique_ptr<RecordFile> file = open_record_file(source.path);
  const RecordOptions reading = record_options(
      source, options.encoder == nullptr ? Answers::kAny : answers_of(*options.encoder));
  const MediaRoots folder(image_root(source), source.roots);
  Survey survey;
  survey.name = source.name;
  survey.path = source.path;
  survey.bytes = file->bytes();
  survey.records = file->records();
  survey.blank_lines = file->blank_lines();
  survey.max_tokens = options.max_tokens;
  survey.surveyed = options.limit > 0 ? std::min(options.limit, file->records()) : file->records();
  for (std::int64_t record = 0; record < survey.surveyed; ++record) {
    const auto refusal = survey_record(*file, record, reading, folder, options.encoder, survey);
    if (!refusal) continue;
    ++survey.bad[refusal->code];
    if (survey.first_bad.size() < kMaxBadShown)
      survey.first_bad.push_back({file->key(record), *refusal});
  }
  return survey;
}

}  // namespace tributary::data
