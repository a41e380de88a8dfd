#include "app/engine/answerer.h"

#include <filesystem>
#include <set>

#include "config/family/model_config.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "core/file/weight_directory.h"
#include "core/join.h"
#include "core/log.h"
#include "data/preprocess/preprocessor_config.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/unit_parts.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

/// The dtypes other than f32 in a directory of weights.
std::set<StoredDtype> other_floats(const std::string& directory) {
  std::set<StoredDtype> types;
  const WeightDirectory weights(directory);
  for (const auto& [name, place] : weights.tensors())
    if (place.tensor->dtype != StoredDtype::kFloat32) types.insert(place.tensor->dtype);
  return types;
}

Answerer answerer_of_directory(const std::string& path) {
  Answerer answerer;
  answerer.directory = path;
  answerer.is_bf16 = other_floats(path).contains(StoredDtype::kBfloat16);
  const config::ModelConfig config = config::read_model_config(path);
  if (config.vision) {
    const data::PixelLimits limits =
        data::read_preprocessor_config(path, *config.vision, std::nullopt).image;
    answerer.run.data.min_pixels = limits.min;
    answerer.run.data.max_pixels = limits.max;
  }
  return answerer;
}

/// Says what a CPU does with weights of other dtypes.
void say_converted(const std::string& where, const std::set<StoredDtype>& types) {
  if (types.empty()) return;
  log_note(str("weights of ", where, " are ", join(types, ", ", stored_name),
               "; the CPU computes them in F32"));
}

}  // namespace

Answerer find_answerer(const std::string& path) {
  FileSystem& files = real_file_system();
  TRIB_REQUIRE(exists(files, path), .what = "app: no such model or run", .where = path,
               .expected = "a Hugging Face directory, a run directory or a checkpoint");
  if (exists(files, fs::path(path) / "config.json")) return answerer_of_directory(path);
  const bool is_run = exists(files, fs::path(path) / "config.yaml") ||
                      exists(files, fs::path(path) / "checkpoints") ||
                      exists(files, fs::path(path) / train::kManifestName);
  TRIB_REQUIRE(is_run, .what = "app: neither a model nor a run", .where = path,
               .found = str("no config.json, config.yaml or ", train::kManifestName),
               .expected = "a Hugging Face directory, a run directory or a checkpoint");
  Answerer answerer;
  answerer.checkpoint = train::find_checkpoint(path);
  const train::CheckpointFacts facts = train::read_checkpoint_facts(answerer.checkpoint);
  answerer.run = config::parse_run_config(facts.config, answerer.checkpoint + " (configuration)");
  answerer.directory = facts.model_directory;
  answerer.is_bf16 = answerer.run.model.dtype == config::Dtype::kBfloat16;
  return answerer;
}

config::Dtype dtype_on(const Answerer& answerer, const std::string& device) {
  return answerer.is_bf16 && device != "cpu" ? config::Dtype::kBfloat16 : config::Dtype::kFloat32;
}

void load_weights(const Answerer& answerer, model::Model& model) {
  const bool is_on_cpu = model.units().front()->shard_value().device().is_cpu();
  std::set<StoredDtype> types;
  if (answerer.checkpoint.empty()) {
    model::load_weights(model, answerer.directory);
    types = other_floats(answerer.directory);
  } else {
    types = train::load_model(answerer.checkpoint, train::list_parameters(model)).converted;
  }
  if (is_on_cpu)
    say_converted(answerer.checkpoint.empty() ? answerer.directory : answerer.checkpoint, types);
}

}  // namespace tributary::app
