#include "train/checkpoint/export_checkpoint.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "config/family/model_config.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/file/new_directory.h"
#include "core/file/weight_directory.h"
#include "core/json.h"
#include "model/model.h"
#include "model/weights/peft_adapter.h"
#include "ops/stored_dtype.h"
#include "train/checkpoint/checkpoint_reader.h"

namespace tributary::train {
namespace {

constexpr std::string_view kFolder = "model/";
constexpr std::string_view kAverages = "optim/ema.";

/// One kind of fault: how many tensors have it, and the first of them.
std::string name_first(std::string_view kind, const std::vector<std::string>& tensors) {
  if (tensors.empty()) return "";
  return str("; ", kind, " (", tensors.size(), "): ", tensors.front());
}

/// The tensors of the checkpoint must be those that the model of this config.json has.
void require_fit(const Manifest& manifest, const std::string& model_directory,
                 const config::ModelSection& section) {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> other;
  std::set<std::string> known;
  const auto model = model::make_model(config::read_model_config(model_directory),
                                       model::one_rank_layout(section));
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

void append_bytes(const at::Tensor& tensor,
                  const std::function<void(std::span<const std::byte>)>& append) {
  append({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
}

/// The tensors of a checkpoint's model, read one by one.
class StoredModel {
 public:
  StoredModel(CheckpointReader& reader, bool averaged) : reader_(reader), averaged_(averaged) {}

  [[nodiscard]] bool holds(const std::string& name) const {
    return reader_.manifest().tensors.contains(std::string(kFolder) + name);
  }
  [[nodiscard]] at::Tensor read(const std::string& name) const {
    const std::string own = std::string(kFolder) + name;
    const std::string average = str(kAverages, name);
    if (!averaged_ || !reader_.manifest().tensors.contains(average)) return read_stored(own);
    return read_stored(average).to(ops::scalar_type(reader_.manifest().tensors.at(own).dtype));
  }
  /// A weight with its adapter added, if it has one.
  [[nodiscard]] at::Tensor read_merged(const std::string& name,
                                       const config::AdapterSection& adapter) const {
    constexpr std::string_view kWeight = ".weight";
    const at::Tensor weight = read(name);
    if (!name.ends_with(kWeight)) return weight;
    const std::string map = name.substr(0, name.size() - kWeight.size());
    if (!holds(map + ".lora_A.weight")) return weight;
    const auto wide = [&](const std::string& end) { return read(map + end).to(at::kFloat); };
    at::Tensor merged =
        weight.to(at::kFloat) +
        config::adapter_scale(adapter) * wide(".lora_B.weight").mm(wide(".lora_A.weight"));
    if (adapter.kind == config::AdapterKind::kDora)
      merged *=
          (wide(".lora_magnitude_vector") / at::linalg_vector_norm(merged, 2, {1})).unsqueeze(1);
    return merged.to(weight.scalar_type());
  }
  /// Names, types and shapes of those that `is_wanted`.
  [[nodiscard]] std::vector<TensorSpec> list(
      const std::function<bool(const std::string& name)>& is_wanted) const {
    std::vector<TensorSpec> specs;
    for (const auto& [stored, tensor] : reader_.manifest().tensors)
      if (stored.starts_with(kFolder) && is_wanted(stored.substr(kFolder.size())))
        specs.push_back({stored.substr(kFolder.size()), tensor.dtype, tensor.shape});
    return specs;
  }

 private:
  [[nodiscard]] at::Tensor read_stored(const std::string& stored) const {
    const ManifestTensor& tensor = reader_.manifest().tensors.at(stored);
    const at::Tensor value =
        at::empty(tensor.shape, at::TensorOptions().dtype(ops::scalar_type(tensor.dtype)));
    const std::array request{
        ReadRequest{stored,
                    whole_box(tensor.shape),
                    {static_cast<std::byte*>(value.mutable_data_ptr()), value.nbytes()}}};
    reader_.read(request);
    return value;
  }

  CheckpointReader& reader_;
  bool averaged_;
};

bool is_of_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

void write_adapter(const StoredModel& model, const config::AdapterSection& adapter,
                   const std::string& source, const std::string& output, FileSystem& files) {
  const config::ModelFamily family = config::read_model_config(source).family;
  std::vector<TensorSpec> specs = model.list(is_of_adapter);
  std::map<std::string, std::string> names;  // of PEFT -> here
  std::vector<std::string> parameters;
  for (TensorSpec& spec : specs) {
    parameters.push_back(spec.name);
    const std::string own = std::exchange(spec.name, model::peft_name(family, spec.name));
    names[spec.name] = own;
  }
  write_new_directory(files, output, [&](const std::string& part) {
    SafetensorsWriter writer(files, part + "/" + model::kPeftWeightsFile, specs,
                             {{"format", "pt"}});
    for (const StoredTensor& tensor : writer.tensors())
      append_bytes(model.read(names.at(tensor.name)),
                   [&](std::span<const std::byte> bytes) { writer.append(bytes); });
    (void)writer.finish();
    write_text_file(files, part + "/" + model::kPeftConfigFile,
                    model::write_peft_config(adapter, family, parameters, source));
  });
}

}  // namespace

Exported export_checkpoint(const std::string& checkpoint, const std::string& output,
                           const ExportOptions& options, FileSystem& files) {
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint, files);
  const std::string source =
      options.model_directory.empty() ? facts.model_directory : options.model_directory;
  TRIB_REQUIRE(exists(files, source + "/config.json"),
               .what = "checkpoint: the model directory of the run has no config.json",
               .where = source, .fix = "name the model directory with --model DIR");
  CheckpointReader reader(checkpoint, Verify::kTouched, files);
  const StoredModel model(reader, options.averaged);
  const bool has_adapters = !model.list(is_of_adapter).empty();
  TRIB_REQUIRE(has_adapters || !options.merged, .what = "checkpoint: there is no adapter to merge",
               .where = checkpoint, .found = "a run that trains its weights",
               .fix = "leave --merged out");
  const bool has_averages = std::ranges::any_of(reader.manifest().tensors, [](const auto& each) {
    return each.first.starts_with(kAverages);
  });
  TRIB_REQUIRE(has_averages || !options.averaged,
               .what = "checkpoint: there are no averaged weights", .where = checkpoint,
               .found = "a run without optimizer.ema_decay", .fix = "leave --averaged out");
  config::ModelSection section;
  if (has_adapters) section = config::parse_run_config(facts.config, checkpoint).model;
  require_fit(reader.manifest(), source, section);
  if (has_adapters && !options.merged) {
    write_adapter(model, section.adapter, source, output, files);
    return Exported::kAdapter;
  }
  HuggingFaceExport content{
      .directory = output,
      .source_directory = source,
      .tensors = model.list([](const std::string& name) { return !is_of_adapter(name); }),
      .give = {},
      .prefix = config::read_model_config(source).tensor_prefix};
  content.give = [&](const TensorSpec& tensor, const auto& append) {
    append_bytes(model.read_merged(tensor.name, section.adapter), append);
  };
  write_hugging_face_directory(files, content);
  return Exported::kModel;
}

}  // namespace tributary::train
