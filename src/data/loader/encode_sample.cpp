#include "data/loader/encode_sample.h"

#include <algorithm>
#include <utility>

#include "config/family/all_families.h"
#include "core/error.h"
#include "data/loader/clip_frames.h"
#include "data/loader/write_objects.h"
#include "data/record/record.h"
#include "data/text/document_template.h"
#include "data/text/model_template.h"

namespace tributary::data {
namespace {

constexpr std::size_t kAskedOfDocument = 8;  // tokens, of a held-out one

std::string text_of(const Turn& turn) {
  std::string text;
  for (const Part& part : turn.parts)
    if (const auto* words = std::get_if<std::string>(&part)) text += *words;
  return text;
}

/// The turn of the last answer that counts in the loss.
std::size_t find_answer(const std::vector<Turn>& turns) {
  for (std::size_t i = turns.size(); i-- > 0;)
    if (turns[i].role == Role::kAssistant && turns[i].is_learned) return i;
  TRIB_RAISE(Fault::kBug, .what = "data: record without an assistant turn was accepted");
}

/// A chat, and its size with its media expanded. Of a pair the rejected one stands behind the
/// chosen one.
struct SizedChat {
  EncodedChat chat;
  SampleShape shape;
  std::vector<Grid> grids;  // [media]
};

void append(EncodedChat& chat, const EncodedChat& other) {
  chat.tokens.insert(chat.tokens.end(), other.tokens.begin(), other.tokens.end());
  chat.targets.insert(chat.targets.end(), other.targets.begin(), other.targets.end());
  chat.media.insert(chat.media.end(), other.media.begin(), other.media.end());
  chat.pads.insert(chat.pads.end(), other.pads.begin(), other.pads.end());
}

class QwenEncoder final : public SampleEncoder {
 public:
  explicit QwenEncoder(QwenEncoding encoding)
      : encoding_(std::move(encoding)), chat_(*encoding_.tokenizer, encoding_.chat) {}

  bool takes_pairs() const override { return encoding_.takes_pairs; }
  Result<SampleShape> describe(const Record& record) const override {
    return describe_as(record, encoding_.truncates);
  }
  Result<SampleShape> describe_held_out(const Record& record) const override {
    return describe_as(record, /*truncates=*/false);
  }
  Result<EncodedSample> encode(const Record& record) const override {
    return encode_with(record, encoding_.truncates, {}, nullptr);
  }
  Result<EncodedSample> encode_without(const Record& record, ModalitySet rows) const override {
    return encode_with(record, encoding_.truncates, rows, nullptr);
  }
  Result<std::vector<Picture>> pictures(const Record& record) const override {
    std::vector<Picture> pictures;
    const Result<EncodedSample> sample = encode_with(record, encoding_.truncates, {}, &pictures);
    if (!sample) return sample.refusal();
    return pictures;
  }
  Result<HeldOutSample> encode_held_out(const Record& record) const override;

 private:
  std::optional<Refusal> refuse_media(const Record& record) const;
  EncodedChat encode_turns(const Record& record, const std::vector<Turn>& turns) const;
  ClipTimes times_in(const Record& record) const;
  Result<SizedChat> size_chat(const Record& record, bool truncates) const;
  Result<SampleShape> describe_as(const Record& record, bool truncates) const;
  void cut_chat(EncodedChat& chat, const std::vector<Grid>& grids) const;
  std::int64_t tokens_of(Modality modality, const Grid& grid) const;
  Result<Grid> measure(const Record& record, MediaReference medium) const;
  Result<PatchedItem> patch(const Record& record, MediaReference medium,
                            std::vector<Picture>* keep) const;
  Result<EncodedSample> encode_with(const Record& record, bool truncates, ModalitySet without,
                                    std::vector<Picture>* keep) const;
  void ask_for_middle(HeldOutSample& held_out) const;
  std::optional<Refusal> refuse_shape(const SampleShape& shape) const;
  EncodedChat expand(const EncodedChat& chat, const std::vector<PatchedItem>& items) const;

  QwenEncoding encoding_;
  ChatTemplate chat_;
};

std::optional<Refusal> QwenEncoder::refuse_media(const Record& record) const {
  const std::size_t pictures = record.images.size() + record.clips.size();
  if (pictures > 0 && !encoding_.pictures)
    return Refusal{"no_vision", str(pictures, " images or clips, and the model sees none")};
  if (!record.sounds.empty() && !encoding_.sounds)
    return Refusal{"no_sound", str(record.sounds.size(), " sounds, and the model hears none")};
  return std::nullopt;
}

EncodedChat QwenEncoder::encode_turns(const Record& record, const std::vector<Turn>& turns) const {
  if (record.is_document)
    return encode_document(*encoding_.tokenizer, turns.front().parts, encoding_.chat.media,
                           times_in(record));
  return chat_.encode(turns, ChatEnd::kLastTurn, times_in(record));
}

ClipTimes QwenEncoder::times_in(const Record& record) const {
  if (!encoding_.pictures || !encoding_.pictures->times_clips()) return {};
  return [this, &record](const MediaReference& clip) {
    const Clip& own = record.clips[static_cast<std::size_t>(clip.index)];
    const Result<ClipFrames> frames = measure_clip(record, own, *encoding_.pictures);
    if (!frames) return std::vector<double>();  // measure() refuses it
    return times_of_clip(frames.value().seconds, *encoding_.pictures);
  };
}

std::int64_t QwenEncoder::tokens_of(Modality modality, const Grid& grid) const {
  return modality == Modality::kAudio ? encoding_.sounds->model.tokens_of(grid)
                                      : merged_tokens(grid, *encoding_.pictures);
}

Result<Grid> QwenEncoder::measure(const Record& record, MediaReference medium) const {
  const auto index = static_cast<std::size_t>(medium.index);
  if (medium.modality == Modality::kAudio) {
    const std::string& name = record.sounds[index];
    const auto file = read_media_file(record, name);
    if (!file) return file.refusal();
    const auto size = read_sound_size(file.value());
    if (!size) return name_medium(size.refusal(), name);
    Result<Grid> grid = grid_of_sound(size.value(), *encoding_.sounds);
    if (!grid) return name_medium(grid.refusal(), name);
    return grid;
  }
  if (medium.modality == Modality::kImage) {
    const auto size = measure_picture(record, record.images[index]);
    if (!size) return size.refusal();
    return grid_of_image(size.value(), *encoding_.pictures, company_of(record.images.size()));
  }
  const Result<ClipFrames> frames = measure_clip(record, record.clips[index], *encoding_.pictures);
  if (!frames) return frames.refusal();
  return grid_of_clip(frames.value().size, std::ssize(frames.value().seconds), *encoding_.pictures);
}

Result<PatchedItem> QwenEncoder::patch(const Record& record, MediaReference medium,
                                       std::vector<Picture>* keep) const {
  const auto index = static_cast<std::size_t>(medium.index);
  if (medium.modality == Modality::kAudio) {
    const Result<Sound> sound = read_sound(record, record.sounds[index]);
    if (!sound) return sound.refusal();
    return frame_sound(sound.value(), *encoding_.sounds, encoding_.log_mel);
  }
  if (medium.modality == Modality::kImage) {
    Result<Picture> picture = decode_named_picture(record, record.images[index]);
    if (!picture) return picture.refusal();
    auto item = patch_image(picture.value(), *encoding_.pictures, encoding_.resize,
                            company_of(record.images.size()));
    if (keep != nullptr) keep->push_back(std::move(picture).value());
    return item;
  }
  const Clip& clip = record.clips[index];
  const Result<ClipFrames> measured = measure_clip(record, clip, *encoding_.pictures);
  if (!measured) return measured.refusal();
  Result<std::vector<Picture>> frames = decode_clip(record, clip, measured.value());
  if (!frames) return frames.refusal();
  auto item =
      patch_clip(frames.value(), measured.value().fps, *encoding_.pictures, encoding_.resize);
  if (keep != nullptr)
    for (Picture& frame : std::move(frames).value()) keep->push_back(std::move(frame));
  return item;
}

std::optional<Refusal> QwenEncoder::refuse_shape(const SampleShape& shape) const {
  if (encoding_.max_tokens.count > 0 && shape.tokens > encoding_.max_tokens)
    return Refusal{kTooLong,
                   str(shape.tokens, ", limit ", encoding_.max_tokens, encoding_.limit_source)};
  if (shape.target_tokens.count == 0)
    return Refusal{"no_targets", "no token of the sample counts in the loss"};
  return std::nullopt;
}

EncodedChat QwenEncoder::expand(const EncodedChat& chat,
                                const std::vector<PatchedItem>& items) const {
  std::vector<std::int64_t> merged;
  for (const PatchedItem& item : items) merged.push_back(tokens_of(item.modality, item.grid));
  return chat_.expand_media(chat, merged);
}

/// Cuts a chat at the limit: behind a token, or before a medium that does not fit as a whole, with
/// the tokens that stand around each of its pads.
void QwenEncoder::cut_chat(EncodedChat& chat, const std::vector<Grid>& grids) const {
  const auto is_pad = [&](std::size_t at) { return chat_.is_pad(chat.tokens[at]); };
  const std::size_t margin = chat_.wraps_pads() ? 1 : 0;
  std::int64_t length = 0;
  std::size_t kept = 0;   // tokens, of which pads stand for a whole picture
  std::size_t media = 0;  // among them
  std::size_t begun = 0;  // where the latest of them begins
  int pads = 0;           // of an item that goes on
  for (; kept < chat.tokens.size(); ++kept) {
    const bool pad = is_pad(kept);
    if (pad && pads == 0) begun = kept - margin;
    length += pad ? tokens_of(chat.media[media].modality, grids[media]) / chat.pads[media] : 1;
    if (length > encoding_.max_tokens.count) break;
    if (pad && ++pads == chat.pads[media]) ++media, pads = 0;
  }
  if (kept == chat.tokens.size()) return;
  const bool lacks_end = margin > 0 && kept > 0 && is_pad(kept - 1);
  if (lacks_end && pads == 0) --media;
  if (lacks_end || pads > 0 || is_pad(kept)) kept = begun;
  chat.tokens.resize(kept);
  chat.targets.resize(kept);
  chat.media.resize(media);
  chat.pads.resize(media);
}

/// The first medium that is the same as one: both answers of a pair are to the same media, which
/// are measured and decoded once.
std::size_t first_like(const std::vector<MediaReference>& media, std::size_t i) {
  return static_cast<std::size_t>(std::ranges::find(media, media[i]) - media.begin());
}

Result<SizedChat> QwenEncoder::size_chat(const Record& record, bool truncates) const {
  if (auto refusal = refuse_media(record)) return *refusal;
  SizedChat sized{.chat = encode_turns(record, record.turns), .shape = {}, .grids = {}};
  const std::size_t media_of_chosen = sized.chat.media.size();
  if (!record.rejected.empty()) {
    const EncodedChat rejected = encode_turns(record, record.rejected);
    sized.shape.rejected = {std::ssize(rejected.tokens)};
    append(sized.chat, rejected);
  }
  std::vector<Grid>& grids = sized.grids;
  for (std::size_t i = 0; i < sized.chat.media.size(); ++i) {
    if (const std::size_t first = first_like(sized.chat.media, i); first < i) {
      grids.push_back(grids[first]);
      continue;
    }
    const Result<Grid> grid = measure(record, sized.chat.media[i]);
    if (!grid) return grid.refusal();
    grids.push_back(grid.value());
  }
  const bool may_cut = truncates && encoding_.max_tokens.count > 0;
  if (may_cut) cut_chat(sized.chat, grids);
  SampleShape& shape = sized.shape;
  shape.tokens = {std::ssize(sized.chat.tokens)};
  shape.target_tokens = {std::ranges::count_if(
      sized.chat.targets, [](std::int64_t target) { return target != kIgnoredTarget; })};
  for (std::size_t i = 0; i < sized.chat.media.size(); ++i) {
    // Each item has its pad tokens already.
    const Modality modality = sized.chat.media[i].modality;
    const bool is_pictures = modality == Modality::kVideo && encoding_.pictures->tiles &&
                             encoding_.pictures->tiles->clips_are_pictures();
    const Tokens more{tokens_of(modality, grids[i]) - sized.chat.pads[i]};
    shape.tokens += more;
    if (i >= media_of_chosen) shape.rejected += more;
    shape.grids(is_pictures ? Modality::kImage : modality).push_back(grids[i]);
  }
  if (may_cut && shape.target_tokens.count == 0)
    return Refusal{kTooLong, str("nothing to learn within ", encoding_.max_tokens)};
  if (auto refusal = refuse_shape(shape)) return *refusal;
  return sized;
}

Result<SampleShape> QwenEncoder::describe_as(const Record& record, bool truncates) const {
  Result<SizedChat> sized = size_chat(record, truncates);
  if (!sized) return sized.refusal();
  return std::move(sized).value().shape;
}

Result<EncodedSample> QwenEncoder::encode_with(const Record& record, bool truncates,
                                               ModalitySet without,
                                               std::vector<Picture>* keep) const {
  // Headers first: a sample that is too long is refused before its pixels are decoded.
  const Result<SizedChat> sized = size_chat(record, truncates);
  if (!sized) return sized.refusal();
  const EncodedChat& chat = sized.value().chat;
  EncodedSample sample;
  sample.key = record.key;
  sample.rejected = sized.value().shape.rejected.count;
  for (std::size_t i = 0; i < chat.media.size(); ++i) {
    if (const std::size_t first = first_like(chat.media, i); first < i) {
      sample.items.push_back(sample.items[first]);
      continue;
    }
    Result<PatchedItem> item =
        without.has(chat.media[i].modality)
            ? item_without_rows(record, chat.media[i], sized.value().grids[i], encoding_.pictures)
            : patch(record, chat.media[i], keep);
    if (!item) return item.refusal();
    sample.items.push_back(std::move(item).value());
  }
  EncodedChat whole = expand(chat, sample.items);
  sample.tokens = std::move(whole.tokens);
  sample.targets = std::move(whole.targets);
  if (sample.shape() != sized.value().shape)
    return Refusal{"length_changed", "a file was written between its header and its content"};
  return sample;
}

/// Asks for a few tokens from the middle of a document on, behind its last picture.
void QwenEncoder::ask_for_middle(HeldOutSample& held_out) const {
  const std::vector<TokenId>& tokens = held_out.sample.tokens;
  std::size_t begin = tokens.size() / 2;
  for (std::size_t i = begin; i < tokens.size(); ++i)
    if (chat_.is_pad(tokens[i])) begin = i + (chat_.wraps_pads() ? 2 : 1);
  const std::size_t end = std::min(begin + kAskedOfDocument, tokens.size() - 1);
  held_out.prompt.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(begin));
  held_out.answer = encoding_.tokenizer->decode(
      std::span(tokens).subspan(begin, std::max(begin, end) - begin), SpecialTokens::kSkip);
  held_out.references = {held_out.answer};
}

Result<HeldOutSample> QwenEncoder::encode_held_out(const Record& record) const {
  const Record judged = judged_part(record);
  const std::size_t answer = judged.turns.size() - 1;
  HeldOutSample held_out;
  Result<EncodedSample> sample = encode_with(judged, /*truncates=*/false, {}, &held_out.pictures);
  if (!sample) return sample.refusal();
  held_out.sample = std::move(sample).value();
  if (!record.rejected.empty()) return held_out;
  if (record.is_document) {
    ask_for_middle(held_out);
    return held_out;
  }
  held_out.answer = text_of(judged.turns[answer]);
  held_out.references = judged.references;
  if (held_out.references.empty()) held_out.references = {held_out.answer};
  for (const Turn& turn : judged.turns)
    if (turn.role == Role::kUser) held_out.question = text_of(turn);
  const std::span<const Turn> before(judged.turns.data(), answer);
  held_out.prompt = expand(chat_.encode(before, ChatEnd::kGenerationPrompt, times_in(judged)),
                           held_out.sample.items)
                        .tokens;
  return held_out;
}

}  // namespace

Record judged_part(const Record& record) {
  Record judged = record;
  if (record.rejected.empty()) judged.turns.resize(find_answer(record.turns) + 1);
  return judged;
}

Result<std::vector<std::string>> SampleEncoder::answers(const Record& record) const {
  if (record.is_document) return std::vector<std::string>();
  std::vector<std::string> answers = record.references;
  answers.push_back(text_of(record.turns[find_answer(record.turns)]));
  return answers;
}

std::unique_ptr<SampleEncoder> make_qwen_encoder(QwenEncoding encoding) {
  TRIB_CHECK(encoding.tokenizer != nullptr, .what = "data: encoder without a tokenizer");
  TRIB_CHECK(!encoding.pictures || encoding.resize, .what = "data: encoder without a resize");
  return std::make_unique<QwenEncoder>(std::move(encoding));
}

Tokens max_tokens_of(const config::RunConfig& run, const config::BackboneConfig& backbone) {
  const Tokens max =
      run.data.max_tokens > 0 ? Tokens{run.data.max_tokens} : run.batch.capacity_tokens;
  return std::min(max, Tokens{backbone.max_tokens().value_or(max.count)});
}

std::unique_ptr<SampleEncoder> make_encoder(const config::RunConfig& run,
                                            const config::ModelConfig& model,
                                            const Tokenizer& tokenizer, Resize resize,
                                            LogMel log_mel) {
  QwenEncoding encoding;
  encoding.tokenizer = &tokenizer;
  encoding.chat = {
      .system_prompt = system_prompt_of(run.model.path, model.family, run.data.system_prompt),
      .media = media_form_of(model),
      .train_on_newline = run.data.train_on_newline,
      .numbers_sounds = config::entry_of(model.family).numbers_sounds};
  encoding.max_tokens = max_tokens_of(run, model.backbone);
  if (model.backbone.max_tokens() == encoding.max_tokens.count)
    encoding.limit_source = " (max_position_embeddings of a model with a dynamic rope)";
  encoding.takes_pairs = run.objective.compares_pairs();
  encoding.truncates = run.data.too_long == config::TooLong::kTruncate;
  if (model.vision)
    encoding.pictures = read_preprocessor_config(
        run.model.path, *model.vision,
        PixelLimits{.min = run.data.min_pixels, .max = run.data.max_pixels});
  encoding.resize = std::move(resize);
  if (model.audio) encoding.sounds = read_sound_config(run.model.path, *model.audio);
  encoding.log_mel = std::move(log_mel);
  const std::optional<PreprocessorConfig> pictures = encoding.pictures;
  return write_objects(make_qwen_encoder(std::move(encoding)),
                       config::entry_of(model.family).objects, pictures);
}

}  // namespace tributary::data
