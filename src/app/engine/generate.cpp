#include "model/generate.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "app/engine/engine_verbs.h"
#include "config/family/all_families.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "core/file/given_file.h"
#include "core/file/weight_directory.h"
#include "core/log.h"
#include "data/decode/decode_picture.h"
#include "data/preprocess/qwen_vl.h"
#include "data/preprocess/whisper.h"
#include "data/text/chat_template.h"
#include "data/text/tokenizer.h"
#include "mesh/device.h"
#include "model/model.h"
#include "model/positions.h"
#include "ops/to_device.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/start/media_kernels.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

/// The model that answers: a Hugging Face directory, or a checkpoint with the settings of its run.
struct Answerer {
  std::string directory;   // has config.json, tokenizer.json, preprocessor_config.json
  std::string checkpoint;  // empty: the weights are in `directory`
  std::string system_prompt = config::DataSection().system_prompt;
  std::optional<data::PixelLimits> limits;
  config::ModelSection section = {};  // how positions run, and adapters
  bool is_bf16 = false;               // trained, or stored, as bf16
};

/// The dtypes other than f32 in a directory of weights.
std::set<StoredDtype> other_floats(const std::string& directory) {
  std::set<StoredDtype> types;
  const WeightDirectory weights(directory);
  for (const auto& [name, place] : weights.tensors())
    if (place.tensor->dtype != StoredDtype::kFloat32) types.insert(place.tensor->dtype);
  return types;
}

Answerer find_answerer(const std::string& path) {
  FileSystem& files = real_file_system();
  TRIB_REQUIRE(exists(files, path), .what = "app: no such model or run", .where = path,
               .expected = "a Hugging Face directory, a run directory or a checkpoint");
  if (exists(files, fs::path(path) / "config.json")) {
    Answerer answerer;
    answerer.directory = path;
    answerer.is_bf16 = other_floats(path).contains(StoredDtype::kBfloat16);
    return answerer;
  }
  const bool is_run = exists(files, fs::path(path) / "config.yaml") ||
                      exists(files, fs::path(path) / "checkpoints") ||
                      exists(files, fs::path(path) / train::kManifestName);
  TRIB_REQUIRE(is_run, .what = "app: neither a model nor a run", .where = path,
               .found = str("no config.json, config.yaml or ", train::kManifestName),
               .expected = "a Hugging Face directory, a run directory or a checkpoint");
  Answerer answerer;
  answerer.checkpoint = train::find_checkpoint(path);
  const train::CheckpointFacts facts = train::read_checkpoint_facts(answerer.checkpoint);
  const config::RunConfig run =
      config::parse_run_config(facts.config, answerer.checkpoint + " (configuration)");
  answerer.directory = facts.model_directory;
  answerer.system_prompt = run.data.system_prompt;
  answerer.limits = data::PixelLimits{.least = run.data.min_pixels, .most = run.data.max_pixels};
  answerer.section = run.model;
  answerer.is_bf16 = run.model.dtype == config::Dtype::kBfloat16;
  return answerer;
}

/// Says what a CPU does with weights of other dtypes.
void say_converted(const std::string& where, const std::set<StoredDtype>& types,
                   at::Device device) {
  if (types.empty() || !device.is_cpu()) return;
  std::string names;
  for (const StoredDtype type : types) names += str(names.empty() ? "" : ", ", stored_name(type));
  log_note(str("generate: weights of ", where, " are ", names, "; the CPU computes them in F32"));
}

std::unique_ptr<model::Model> load_model(const Answerer& answerer,
                                         const config::ModelConfig& config, at::Device device) {
  const at::ScalarType dtype = answerer.is_bf16 && !device.is_cpu() ? at::kBFloat16 : at::kFloat;
  std::unique_ptr<model::Model> model =
      model::make_model(config, model::one_rank_layout(answerer.section));
  std::vector<train::NamedTensor> tensors;
  for (const auto& unit : model->units()) {
    unit->materialize(device, dtype, /*trainable=*/false);
    for (const auto& parameter : unit->parameters())
      tensors.push_back({.name = parameter->name, .value = parameter->value});
  }
  if (answerer.checkpoint.empty()) {
    model::load_weights(*model, answerer.directory);
    say_converted(answerer.directory, other_floats(answerer.directory), device);
  } else {
    say_converted(answerer.checkpoint, train::load_model(answerer.checkpoint, tensors).converted,
                  device);
  }
  return model;
}

/// Reads a file that an option names. `kind` says what it is to be: "image".
std::string read_media(const std::string& path, const std::string& kind, const std::string& fix) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  TRIB_REQUIRE(fs::is_regular_file(path), .what = str("app: no such ", kind), .where = path,
               .found = fs::exists(path) ? "no regular file" : "nothing", .fix = fix);
  std::string bytes =
      read_given_file(path, kMostBytes, {.what = str("app: ", kind, " cannot be read")});
  TRIB_REQUIRE(bytes.size() <= kMostBytes,
               .what = str("app: ", kind, " file is larger than the limit"), .where = path,
               .expected = str("at most ", kMostBytes, " bytes"));
  return bytes;
}

std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};  // NOLINT
}

data::Picture read_picture(const std::string& path) {
  const std::string bytes =
      read_media(path, "image", "give the path of a JPEG or PNG file to --image");
  Result<data::Picture> picture = data::decode_picture(as_bytes(bytes));
  TRIB_REQUIRE(picture.has_value(), .what = "app: image cannot be decoded", .where = path,
               .found = str(picture.refusal().code, ": ", picture.refusal().reason),
               .expected = "a JPEG or PNG file");
  return std::move(picture).value();
}

/// The settings of the model's images; null for a model that reads text alone.
std::optional<data::PreprocessorConfig> read_preprocessor(const GenerateOptions& options,
                                                          const Answerer& answerer,
                                                          const config::ModelConfig& config) {
  TRIB_REQUIRE(options.images.empty() || config.vision.has_value(),
               .what = "app: this model reads text alone", .where = answerer.directory,
               .found = str(options.images.size(), " images"),
               .fix = "leave --image out, or use a model with a vision tower");
  if (options.images.empty()) return {};
  return data::read_preprocessor_config(answerer.directory, *config.vision, answerer.limits);
}

std::vector<data::PatchedItem> patch_images(const GenerateOptions& options,
                                            const data::PreprocessorConfig& preprocessor) {
  std::vector<data::PatchedItem> items;
  const auto company = options.images.size() > 1 ? data::Company::kOthers : data::Company::kAlone;
  for (const std::string& path : options.images) {
    Result<data::PatchedItem> item =
        data::patch_image(read_picture(path), preprocessor, train::resize_picture, company);
    TRIB_REQUIRE(item.has_value(), .what = "app: image does not fit the model", .where = path,
                 .found = str(item.refusal().code, ": ", item.refusal().reason));
    items.push_back(std::move(item).value());
  }
  return items;
}

void frame_sounds(const GenerateOptions& options, const Answerer& answerer,
                  const config::ModelConfig& config, std::vector<data::PatchedItem>& items) {
  TRIB_REQUIRE(options.sounds.empty() || config.audio.has_value(),
               .what = "app: this model hears nothing", .where = answerer.directory,
               .found = str(options.sounds.size(), " sounds"),
               .fix = "leave --audio out, or use a model with an encoder of sound");
  for (const std::string& path : options.sounds) {
    const std::string bytes =
        read_media(path, "sound", "give the path of a WAV, FLAC, Ogg or MP3 file to --audio");
    const Result<data::Sound> sound = data::decode_sound(as_bytes(bytes));
    TRIB_REQUIRE(sound.has_value(), .what = "app: sound cannot be decoded", .where = path,
                 .found = str(sound.refusal().code, ": ", sound.refusal().reason),
                 .expected = "a WAV, FLAC, Ogg or MP3 file");
    Result<data::PatchedItem> item =
        data::frame_sound(sound.value(), data::read_sound_config(answerer.directory, *config.audio),
                          train::frame_samples);
    TRIB_REQUIRE(item.has_value(), .what = "app: sound does not fit the model", .where = path,
                 .found = str(item.refusal().code, ": ", item.refusal().reason));
    items.push_back(std::move(item).value());
  }
}

/// Encodes the images, the sounds and then the text as one user turn, followed by the start of the
/// assistant's. `merged`: the tokens of each item.
data::EncodedChat encode_prompt(const data::ChatTemplate& chat, const std::string& prompt,
                                const std::vector<data::PatchedItem>& items,
                                const std::vector<std::int64_t>& merged) {
  data::Turn turn;
  for (const data::PatchedItem& item : items)
    turn.parts.emplace_back(data::MediaReference{.modality = item.modality});
  turn.parts.emplace_back(prompt);
  const data::EncodedChat encoded =
      chat.encode(std::vector<data::Turn>{turn}, data::ChatEnd::kGenerationPrompt);
  return chat.expand_media(encoded, merged);
}

model::PackedBatch make_pack(const data::EncodedChat& chat,
                             const std::vector<data::PatchedItem>& items,
                             const config::ModelConfig& config, config::MropeMode mrope) {
  model::PackedBatch batch;
  const std::vector<std::int64_t> tokens(chat.tokens.begin(), chat.tokens.end());
  batch.input_ids = at::tensor(tokens, at::kLong);
  batch.cu_seqlens = {0, static_cast<std::int32_t>(tokens.size())};
  std::map<Modality, std::vector<at::Tensor>> rows;
  for (const data::PatchedItem& item : items) {
    batch.media[item.modality].grids.push_back(item.grid);
    rows[item.modality].push_back(
        at::tensor(item.rows, at::kFloat).view({item.grid.patches(), -1}));
  }
  for (const auto& [modality, own] : rows) batch.media[modality].rows = at::cat(own);
  batch.position_ids = model::position_ids(config,
                                           {.tokens = tokens,
                                            .cu_seqlens = batch.cu_seqlens,
                                            .images = batch.media[Modality::kImage].grids},
                                           mrope);
  return batch;
}

std::vector<std::int64_t> stop_tokens(const data::ChatTemplate& chat,
                                      const data::Tokenizer& tokenizer) {
  std::vector<std::int64_t> stops{chat.end_of_turn()};
  for (const char* end : {"<|endoftext|>", "<|end_of_text|>"})
    if (const auto token = tokenizer.find(end)) stops.push_back(*token);
  return stops;
}

/// Refuses prompts and answers beyond the positions of config.json: libtorch would compute them
/// without an error, but the model was not trained for them.
void require_room(std::int64_t prompt_tokens, std::int64_t new_tokens,
                  const config::ModelConfig& config) {
  const std::int64_t room = config.backbone.max_positions - prompt_tokens;
  TRIB_REQUIRE(
      room > 0, .what = "app: the prompt fills the model's context",
      .where = "--prompt, --system, --image, --audio", .found = str(prompt_tokens, " tokens"),
      .expected = str("fewer than max_position_embeddings ", config.backbone.max_positions),
      .fix = "give a shorter prompt, or fewer or smaller images");
  TRIB_REQUIRE(new_tokens <= room, .what = "app: the answer may outgrow the model's context",
               .where = "--max-new-tokens",
               .found = str(new_tokens, " after a prompt of ", prompt_tokens, " tokens"),
               .expected = str("1 to ", room, ": max_position_embeddings is ",
                               config.backbone.max_positions),
               .fix = str("--max-new-tokens ", room));
}

}  // namespace

ExitCode run_generate(const GenerateOptions& options) {
  TRIB_REQUIRE(!options.prompt.empty(), .what = "app: the prompt is empty", .where = "--prompt");
  TRIB_REQUIRE(options.max_new_tokens > 0, .what = "app: an answer needs room",
               .where = "--max-new-tokens", .found = str(options.max_new_tokens),
               .expected = "1 or more");
  TRIB_REQUIRE(options.seed >= 0, .what = "app: seed is negative", .where = "--seed",
               .found = str(options.seed), .expected = "0 or more");
  const Answerer answerer = find_answerer(options.model);
  const config::ModelConfig config = config::read_model_config(answerer.directory);
  const data::Tokenizer tokenizer =
      data::Tokenizer::load(fs::path(answerer.directory) / "tokenizer.json");
  const data::ChatTemplate chat(
      tokenizer, {.system_prompt = config::system_prompt_of(
                      config.family, options.system.value_or(answerer.system_prompt)),
                   .media = data::media_form_of(config),
                   .numbers_sounds = config::entry_of(config.family).numbers_sounds});
  std::vector<data::PatchedItem> items;
  std::vector<std::int64_t> merged;  // tokens of each
  if (const auto preprocessor = read_preprocessor(options, answerer, config)) {
    items = patch_images(options, *preprocessor);
    for (const data::PatchedItem& item : items)
      merged.push_back(data::merged_tokens(item.grid, *preprocessor));
  }
  frame_sounds(options, answerer, config, items);
  for (std::size_t i = merged.size(); i < items.size(); ++i)
    merged.push_back(data::sound_tokens(items[i].grid));
  model::PackedBatch prompt =
      make_pack(encode_prompt(chat, options.prompt, items, merged), items, config, answerer.section.mrope);
  require_room(prompt.cu_seqlens.back(), options.max_new_tokens, config);

  const at::Device device = mesh::open_device(options.device, /*local_rank=*/0);
  for (auto& [modality, media] : prompt.media)
    if (media.rows.defined()) media.rows = ops::to_device(media.rows, device);
  const std::unique_ptr<model::Model> model = load_model(answerer, config, device);
  data::StreamDecoder words(tokenizer, data::SpecialTokens::kSkip);
  (void)model::generate(*model, prompt,
                        {.max_new_tokens = options.max_new_tokens,
                         .stop_tokens = stop_tokens(chat, tokenizer),
                         .temperature = options.temperature,
                         .top_p = options.top_p,
                         .seed = static_cast<std::uint64_t>(options.seed)},
                        [&](std::size_t, std::int64_t token) {
                          std::cout << words.push(static_cast<data::TokenId>(token)) << std::flush;
                        });
  std::cout << words.finish() << std::endl;
  return ExitCode::kDone;
}

}  // namespace tributary::app
