#include "model/weights/peft_adapter.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/file/file_system.h"
#include "core/file/safetensors.h"
#include "core/json.h"
#include "model/family/all_families.h"
#include "model/weights/stored_tensors.h"

namespace tributary::model {
namespace {

constexpr std::string_view kWrapper = "base_model.model.";
constexpr std::array<std::string_view, 3> kEnds{".lora_A.weight", ".lora_B.weight",
                                                ".lora_magnitude_vector"};
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

/// Keys of adapter_config.json that would change the adapter, and are not trained here: they must
/// be absent, null, false or empty.
constexpr std::array<const char*, 15> kOtherForms{
    "fan_in_fan_out",          "modules_to_save", "rank_pattern",
    "alpha_pattern",           "lora_bias",       "trainable_token_indices",
    "target_parameters",       "use_qalora",      "layer_replication",
    "alora_invocation_tokens", "use_bdlora",      "velora_config",
    "monteclora_config",       "arrow_config",    "megatron_config"};

bool is_nothing(const Json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

/// The linear map that a parameter of an adapter belongs to; empty for another tensor.
std::string map_of(const std::string& parameter) {
  for (const std::string_view end : kEnds)
    if (parameter.ends_with(end)) return parameter.substr(0, parameter.size() - end.size());
  return "";
}

/// The name here of a tensor of PEFT.
std::string own_name(const Family& family, const std::string& tensor) {
  std::string name = tensor;
  if (name.starts_with(kWrapper)) name.erase(0, kWrapper.size());
  if (name.ends_with(".lora_magnitude_vector.weight"))
    name.resize(name.size() - std::string_view(".weight").size());
  return released_name(family, name);
}

Json read_config(const std::string& directory) {
  FileSystem& files = real_file_system();
  const std::string path = directory + "/" + kPeftConfigFile;
  TRIB_REQUIRE(exists(files, path), .what = "model: no adapter of PEFT",
               .where = "adapter.path = " + directory, .found = str("no ", kPeftConfigFile),
               .expected = str(kPeftConfigFile, " and ", kPeftWeightsFile));
  TRIB_REQUIRE(exists(files, directory + "/" + kPeftWeightsFile),
               .what = "model: adapter of PEFT has no safetensors",
               .where = "adapter.path = " + directory, .expected = kPeftWeightsFile,
               .fix = "save it with safe_serialization=True");
  Json config = parse_json(read_text_file(files, path, kMaxConfigBytes), path);
  TRIB_REQUIRE(config.is_object(), .what = "model: adapter_config.json is no object",
               .where = path);
  return config;
}

void require_known_form(const Json& config, const std::string& where, AdapterUse use) {
  const auto refuse = [&](const std::string& key, const std::string& expected) {
    TRIB_RAISE(Fault::kInput, .what = "model: adapter has a form that is not trained here",
               .where = str(where, " ", key), .found = config.value(key, Json()).dump(),
               .expected = expected);
  };
  if (config.value("peft_type", Json()) != "LORA") refuse("peft_type", "\"LORA\"");
  if (config.value("bias", Json("none")) != "none") refuse("bias", "\"none\"");
  for (const char* key : kOtherForms)
    if (!is_nothing(config.value(key, Json()))) refuse(key, "null, false or empty");
  // Other first values belong to changed weights of the model.
  const Json first = config.value("init_lora_weights", Json(true));
  if (!first.is_boolean() && first != "gaussian" && first != "orthogonal" && first != "eva")
    refuse("init_lora_weights", "true, false, gaussian, orthogonal or eva");
  if (use == AdapterUse::kTrained && config.value("lora_dropout", Json(0)) != 0)
    refuse("lora_dropout", "0: dropout is not trained with; set it to 0 in the file to go on so");
}

template <class T>
T number_of(const Json& config, const char* key, T standard, const std::string& where) {
  const Json value = config.value(key, Json(standard));
  TRIB_REQUIRE(value.is_number() && value.get<double>() > 0,
               .what = "model: adapter_config.json has a value that cannot be used",
               .where = str(where, " ", key), .found = value.dump(),
               .expected = "a number above 0");
  return value.get<T>();
}

/// The linear maps of a file of PEFT, in order of their names.
std::vector<std::string> read_maps(const Family& family, const std::string& path) {
  std::set<std::string> maps;
  const MappedSafetensors file(path);
  for (const StoredTensor& tensor : file.header().tensors) {
    const std::string map = map_of(own_name(family, tensor.name));
    TRIB_REQUIRE(!map.empty(), .what = "model: adapter holds a tensor that no linear map has",
                 .where = path, .found = escaped(tensor.name),
                 .expected =
                     "names that end in lora_A.weight, lora_B.weight or "
                     "lora_magnitude_vector");
    maps.insert(map);
  }
  return {maps.begin(), maps.end()};
}

/// What the run says must be left open, or be what the file says.
void require_agreement(const config::AdapterSection& given, const config::AdapterSection& found) {
  const config::AdapterSection open;
  const auto require = [&](bool agrees, const char* key, const std::string& value,
                           const std::string& expected) {
    TRIB_REQUIRE(agrees, .what = "model: adapter.path says something else", .where = key,
                 .found = value, .expected = str(expected, ", or no such key"));
  };
  require(given.kind == open.kind || given.kind == found.kind, "adapter.kind", "another kind",
          found.kind == config::AdapterKind::kDora ? "dora" : "lora");
  require(given.rank == open.rank || given.rank == found.rank, "adapter.rank", str(given.rank),
          str(found.rank));
  require(given.alpha == open.alpha || given.alpha == found.alpha, "adapter.alpha",
          str(given.alpha), str(found.alpha));
  require(given.rslora == open.rslora || given.rslora == found.rslora, "adapter.rslora",
          given.rslora ? "true" : "false", found.rslora ? "true" : "false");
  require(given.targets == open.targets || given.targets == found.targets, "adapter.targets",
          str(given.targets.size(), " targets"), str("the ", found.targets.size(), " of the file"));
}

}  // namespace

config::AdapterSection read_peft_section(const config::AdapterSection& adapter,
                                         config::ModelFamily family, AdapterUse use) {
  if (adapter.path.empty()) return adapter;
  const std::string where = adapter.path + "/" + kPeftConfigFile;
  const Json config = read_config(adapter.path);
  require_known_form(config, where, use);
  const bool is_dora = config.value("use_dora", Json(false)) == true;
  const config::AdapterSection found{
      .kind = is_dora ? config::AdapterKind::kDora : config::AdapterKind::kLora,
      .rank = number_of<std::int64_t>(config, "r", 8, where),
      .alpha = number_of<double>(config, "lora_alpha", 8, where),
      .rslora = config.value("use_rslora", Json(false)) == true,
      .targets = read_maps(find_family(family), adapter.path + "/" + kPeftWeightsFile),
      .path = adapter.path};
  require_agreement(adapter, found);
  return found;
}

void load_peft_adapter(Model& model, const std::string& directory) {
  const at::NoGradGuard no_grad;
  const Family& family = find_family(model.config().family);
  const MappedSafetensors file(directory + "/" + kPeftWeightsFile);
  std::map<std::string, const StoredTensor*> located;
  for (const StoredTensor& tensor : file.header().tensors)
    located[own_name(family, tensor.name)] = &tensor;
  std::string faults;
  for (const auto& unit : model.units()) {
    if (!unit->is_adapter()) continue;
    for (const auto& parameter : unit->parameters()) {
      const auto found = located.find(parameter->name);
      if (found == located.end() || found->second->shape != parameter->shape) {
        faults += str(faults.empty() ? "" : ", ", parameter->name,
                      found == located.end() ? " is missing" : " has another shape");
        continue;
      }
      const at::Tensor stored = view_stored(file, *found->second);
      for (const auto& [box, first] : unit->boxes_of(*parameter)) {
        at::Tensor part = stored;
        for (std::size_t i = 0; i < box.lengths.size(); ++i)
          part = part.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
        unit->shard_value().narrow(0, first, part.numel()).view(box.lengths).copy_(part);
      }
      located.erase(found);
    }
    unit->discard();
  }
  for (const auto& [name, tensor] : located)
    faults += str(faults.empty() ? "" : ", ", escaped(tensor->name), " is unexpected");
  TRIB_REQUIRE(faults.empty(), .what = "model: adapter does not fit the model",
               .where = file.path(), .found = faults,
               .fix = "use the model that the adapter was trained on",
               .exit = ExitCode::kCheckpointRefused);
}

std::string peft_name(config::ModelFamily family, const std::string& parameter) {
  return std::string(kWrapper) + transformers_name(find_family(family), parameter);
}

std::string write_peft_config(const config::AdapterSection& adapter, config::ModelFamily family,
                              const std::vector<std::string>& parameters, const std::string& base) {
  std::set<std::string> maps;
  for (const std::string& name : parameters)
    maps.insert(transformers_name(find_family(family), map_of(name)));
  const auto whole = static_cast<std::int64_t>(adapter.alpha);
  const bool is_whole = static_cast<double>(whole) == adapter.alpha;
  return Json{{"peft_type", "LORA"},
              {"task_type", "CAUSAL_LM"},
              {"base_model_name_or_path", base},
              {"inference_mode", true},
              {"r", adapter.rank},
              {"lora_alpha", is_whole ? Json(whole) : Json(adapter.alpha)},
              {"lora_dropout", 0.0},
              {"use_rslora", adapter.rslora},
              {"use_dora", adapter.kind == config::AdapterKind::kDora},
              {"bias", "none"},
              {"fan_in_fan_out", false},
              {"target_modules", maps}}
             .dump(2) +
         "\n";
}

}  // namespace tributary::model
