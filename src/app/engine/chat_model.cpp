#include "app/engine/chat_model.h"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "app/engine/answerer.h"
#include "app/engine/engine_verbs.h"
#include "config/family/all_families.h"
#include "core/error.h"
#include "data/preprocess/qwen_vl.h"
#include "data/preprocess/whisper.h"
#include "data/text/chat_template.h"
#include "data/text/model_template.h"
#include "data/text/tokenizer.h"
#include "mesh/device.h"
#include "model/generate.h"
#include "model/positions.h"
#include "ops/to_device.h"
#include "train/start/guarded.h"
#include "train/start/media_kernels.h"

namespace tributary::app {
namespace {

constexpr std::int64_t kAnswerTokens = 1024;  // where the user names no limit

/// A chat as tokens and patches.
struct EncodedRequest {
  data::EncodedChat chat;
  std::vector<data::PatchedItem> items;  // in order of appearance
};

class LoadedChatModel final : public ChatModel {
 public:
  explicit LoadedChatModel(const ChatModelOptions& options)
      : device_(mesh::open_device(options.device, /*local_rank=*/0)),
        answerer_(find_answerer(options.path)),
        config_(config::read_model_config(answerer_.directory)),
        tokenizer_(data::Tokenizer::load(answerer_.directory)),
        chat_(tokenizer_, {.system_prompt = data::system_prompt_of(
                               answerer_.directory, config_.family,
                               options.system.value_or(answerer_.run.data.system_prompt)),
                           .media = data::media_form_of(config_),
                           .numbers_sounds = config::entry_of(config_.family).numbers_sounds}) {
    if (config_.vision)
      preprocessor_ =
          data::read_preprocessor_config(answerer_.directory, *config_.vision,
                                         data::PixelLimits{.min = answerer_.run.data.min_pixels,
                                                           .max = answerer_.run.data.max_pixels});
    if (config_.audio) sounds_ = data::read_sound_config(answerer_.directory, *config_.audio);
  }

  [[nodiscard]] bool sees_pictures() const override { return preprocessor_.has_value(); }
  [[nodiscard]] bool hears() const override { return sounds_.has_value(); }

  void load() override {
    train::guarded([&] { load_once(); });
  }

  ChatReply answer(const ChatRequest& request, const OnText& on_text) override {
    return train::guarded([&] { return decode(request, on_text); });
  }

 private:
  void load_once();
  [[nodiscard]] data::PatchedItem patch(const ChatRequest& request,
                                        const data::MediaReference& medium) const;
  [[nodiscard]] EncodedRequest encode(const ChatRequest& request) const;
  [[nodiscard]] model::PackedBatch make_pack(const EncodedRequest& encoded) const;
  [[nodiscard]] std::int64_t room_for_answer(const ChatRequest& request,
                                             std::int64_t prompt_tokens) const;
  [[nodiscard]] std::vector<std::int64_t> stop_tokens() const;
  ChatReply decode(const ChatRequest& request, const OnText& on_text);

  at::Device device_;
  Answerer answerer_;
  config::ModelConfig config_;
  data::Tokenizer tokenizer_;
  data::ChatTemplate chat_;
  std::optional<data::PreprocessorConfig> preprocessor_;  // null: it sees nothing
  std::optional<data::SoundConfig> sounds_;               // null: it hears nothing
  std::unique_ptr<model::Model> model_;                   // null before load
};

void LoadedChatModel::load_once() {
  if (model_) return;
  const bool is_bf16 = dtype_on(answerer_, device_.str()) == config::Dtype::kBfloat16;
  std::unique_ptr<model::Model> model =
      model::make_model(config_, model::one_rank_layout(answerer_.run.model));
  for (const auto& unit : model->units())
    unit->materialize(device_, is_bf16 ? at::kBFloat16 : at::kFloat, /*trainable=*/false);
  load_weights(answerer_, *model);
  model_ = std::move(model);
}

data::PatchedItem LoadedChatModel::patch(const ChatRequest& request,
                                         const data::MediaReference& medium) const {
  const bool is_sound = medium.modality == Modality::kAudio;
  TRIB_CHECK(is_sound ? hears() : sees_pictures(),
             .what = "app: medium that the model cannot take");
  const auto index = static_cast<std::size_t>(medium.index);
  const data::Company company = data::company_of(request.pictures.size());
  Result<data::PatchedItem> item =
      is_sound ? data::frame_sound(request.sounds.at(index).sound, *sounds_, train::frame_samples)
               : data::patch_image(request.pictures.at(index).picture, *preprocessor_,
                                   train::resize_picture, company);
  TRIB_REQUIRE(item.has_value(),
               .what = str("app: ", is_sound ? "sound" : "image", " does not fit the model"),
               .where = is_sound ? request.sounds[index].name : request.pictures[index].name,
               .found = str(item.refusal().code, ": ", item.refusal().reason));
  return std::move(item).value();
}

EncodedRequest LoadedChatModel::encode(const ChatRequest& request) const {
  EncodedRequest encoded;
  const data::EncodedChat chat = chat_.encode(request.turns, data::ChatEnd::kGenerationPrompt);
  std::vector<std::int64_t> merged;
  for (const data::MediaReference& medium : chat.media) {
    const data::PatchedItem& item = encoded.items.emplace_back(patch(request, medium));
    merged.push_back(item.modality == Modality::kAudio
                         ? config_.audio->tokens_of(item.grid)
                         : data::merged_tokens(item.grid, *preprocessor_));
  }
  encoded.chat = chat_.expand_media(chat, merged);
  return encoded;
}

model::PackedBatch LoadedChatModel::make_pack(const EncodedRequest& encoded) const {
  model::PackedBatch batch;
  const std::vector<std::int64_t> tokens(encoded.chat.tokens.begin(), encoded.chat.tokens.end());
  batch.input_ids = at::tensor(tokens, at::kLong);
  batch.cu_seqlens = {0, static_cast<std::int32_t>(tokens.size())};
  std::map<Modality, std::vector<at::Tensor>> rows;
  for (const data::PatchedItem& item : encoded.items) {
    batch.media[item.modality].grids.push_back(item.grid);
    rows[item.modality].push_back(
        at::tensor(item.rows, at::kFloat).view({item.grid.patches(), -1}));
  }
  for (const auto& [modality, own] : rows)
    batch.media[modality].rows = ops::to_device(at::cat(own), device_);
  batch.position_ids = model::position_ids(config_,
                                           {.tokens = tokens,
                                            .cu_seqlens = batch.cu_seqlens,
                                            .images = batch.media[Modality::kImage].grids},
                                           answerer_.run.model.mrope);
  return batch;
}

std::vector<std::int64_t> LoadedChatModel::stop_tokens() const {
  std::vector<std::int64_t> stops{chat_.end_of_turn()};
  for (const char* end : {"<|endoftext|>", "<|end_of_text|>"})
    if (const auto token = tokenizer_.find(end)) stops.push_back(*token);
  return stops;
}

/// The most tokens of the answer. Refuses prompts and answers beyond the positions of config.json:
/// libtorch would compute them without an error, but the model was not trained for them.
std::int64_t LoadedChatModel::room_for_answer(const ChatRequest& request,
                                              std::int64_t prompt_tokens) const {
  const std::int64_t room = config_.backbone.max_positions - prompt_tokens;
  TRIB_REQUIRE(
      room > 0, .what = "app: the prompt fills the model's context",
      .found = str(prompt_tokens, " tokens"),
      .expected = str("fewer than max_position_embeddings ", config_.backbone.max_positions),
      .fix = "give a shorter prompt, or fewer or smaller images");
  if (!request.max_new_tokens) return std::min(room, kAnswerTokens);
  TRIB_REQUIRE(
      *request.max_new_tokens <= room, .what = "app: the answer may outgrow the model's context",
      .where = request.limit_name,
      .found = str(*request.max_new_tokens, " after a prompt of ", prompt_tokens, " tokens"),
      .expected =
          str("1 to ", room, ": max_position_embeddings is ", config_.backbone.max_positions),
      .fix = str(request.limit_name, " ", room));
  return *request.max_new_tokens;
}

ChatReply LoadedChatModel::decode(const ChatRequest& request, const OnText& on_text) {
  const model::PackedBatch prompt = make_pack(encode(request));
  const std::int64_t max = room_for_answer(request, prompt.cu_seqlens.back());
  load_once();
  data::StreamDecoder words(tokenizer_, data::SpecialTokens::kSkip);
  bool goes_on = true;
  const auto answers = model::generate(*model_, prompt,
                                       {.max_new_tokens = max,
                                        .stop_tokens = stop_tokens(),
                                        .temperature = request.temperature,
                                        .top_p = request.top_p,
                                        .seed = request.seed},
                                       [&](std::size_t, std::int64_t token) {
                                         const std::string text =
                                             words.push(static_cast<data::TokenId>(token));
                                         goes_on = on_text(text);
                                         return goes_on;
                                       });
  if (const std::string rest = words.finish(); goes_on && !rest.empty()) goes_on = on_text(rest);
  const std::int64_t tokens = std::ssize(answers.front());
  return {.prompt_tokens = prompt.cu_seqlens.back(),
          .answer_tokens = tokens,
          .end = !goes_on        ? AnswerEnd::kAsked
                 : tokens == max ? AnswerEnd::kLength
                                 : AnswerEnd::kStop};
}

}  // namespace

std::unique_ptr<ChatModel> open_chat_model(const ChatModelOptions& options) {
  return std::make_unique<LoadedChatModel>(options);
}

}  // namespace tributary::app
