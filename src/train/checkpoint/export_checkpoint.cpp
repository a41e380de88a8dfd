#include "train/checkpoint/export_checkpoint.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "config/family/model_config.h"
#include "core/error.h"
#include "core/file/weight_directory.h"
#include "core/json.h"
#include "model/model.h"
#include "train/checkpoint/checkpoint_reader.h"

namespace tributary::train {
namespace {

constexpr std::string_view kFolder = "model/";

/// One kind of fault: how many tensors have it, and the first of them.
std::string name_first(std::string_view kind, const std::vector<std::string>& tensors) {
  if (tensors.empty()) return "";
  return str("; ", kind, " (", tensors.size(), "): ", tensors.front());
}

/// The tensors of the checkpoint must be those that the model of this config.json has.
void require_fit(const Manifest& manifest, const std::string& model_directory) {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> other;
  std::set<std::string> known;
  const auto model = model::make_model(config::read_model_config(model_directory));
  for (const auto& unit : model->units()) {
    for (const auto& parameter : unit->parameters()) {
      const std::string name = std::string(kFolder) + parameter->name;
      known.insert(name);
      const auto stored = manifest.tensors.find(name);
      if (stored == manifest.tensors.end())
        missing.push_back(parameter->name);
      else if (stored->second.shape != parameter->shape)
        other.push_back(str(parameter->name, " ", Json(stored->second.shape).dump(), " instead of ",
                            Json(parameter->shape).dump()));
    }
  }
  for (const auto& [name, tensor] : manifest.tensors)
    if (name.starts_with(kFolder) && !known.contains(name))
      unexpected.push_back(name.substr(kFolder.size()));
  const std::string found = name_first("missing", missing) + name_first("unexpected", unexpected) +
                            name_first("of another shape", other);
  TRIB_REQUIRE(found.empty(), .what = "checkpoint: weights do not fit config.json",
               .where = model_directory, .found = found.empty() ? found : found.substr(2),
               .fix =
                   "name with --model the directory that the run was trained with, or leave it "
                   "out");
}

}  // namespace

void export_checkpoint(const std::string& checkpoint, const std::string& model_directory,
                       const std::string& output, FileSystem& files) {
  const std::string source = model_directory.empty()
                                 ? read_checkpoint_facts(checkpoint, files).model_directory
                                 : model_directory;
  TRIB_REQUIRE(exists(files, source + "/config.json"),
               .what = "checkpoint: the model directory of the run has no config.json",
               .where = source, .fix = "name the model directory with --model DIR");
  CheckpointReader reader(checkpoint, Verify::kTouched, files);
  require_fit(reader.manifest(), source);
  HuggingFaceExport content{
      .directory = output, .source_directory = source, .tensors = {}, .give = {}};
  for (const auto& [name, tensor] : reader.manifest().tensors)
    if (name.starts_with(kFolder))
      content.tensors.push_back({name.substr(kFolder.size()), tensor.dtype, tensor.shape});
  content.give = [&](const TensorSpec& tensor, const auto& append) {
    std::vector<std::byte> bytes(tensor.bytes());
    const std::array request{
        ReadRequest{std::string(kFolder) + tensor.name, whole_box(tensor.shape), bytes}};
    reader.read(request);
    append(bytes);
  };
  write_hugging_face_directory(files, content);
}

}  // namespace tributary::train
