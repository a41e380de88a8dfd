#include "train/flow/flow_identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/file/file_system.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "core/sha256.h"

namespace tributary::train {
namespace {

constexpr const char* kIdentityFile = "/run.json";
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 24;

std::string digest_file(const std::string& path) {
  FileSystem& files = real_file_system();
  return exists(files, path) ? sha256(read_text_file(files, path, kMostFileBytes)) : "none";
}

}  // namespace

std::string digest_weights(const model::Model& model, const std::string& module) {
  std::vector<std::string> lines;
  for (const auto& unit : model.units()) {
    if (unit->module() != module) continue;
    for (const auto& parameter : unit->parameters()) {
      const at::Tensor values =
          unit->shard_value().narrow(0, parameter->offset, parameter->elements()).cpu();
      const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
      lines.push_back(str(parameter->name, " ", crc32c({bytes, values.nbytes()}), "\n"));
    }
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return sha256(text);
}

FlowIdentity flow_identity(const config::RunConfig& config, const data::Loader& loader,
                           const std::map<std::string, std::string>& weights) {
  FlowIdentity identity{
      {"run.seed", str(config.run.seed)},
      {"run.device", config.run.device.substr(0, config.run.device.find(':'))},
      {"model.dtype", config.model.dtype == config::Dtype::kFloat32 ? "float32" : "bfloat16"},
      {"model.preprocessor", digest_file(config.model.path + "/preprocessor_config.json")},
      {kComputeThreads, str(at::get_num_threads())}};
  std::string data;
  for (const data::SourceDigest& source : loader.state().sources)
    data += str(data.empty() ? "" : "; ", describe(source));
  identity["data"] = data;
  for (const auto& [module, digest] : weights) identity["weights of " + module] = digest;
  return identity;
}

void write_flow_identity(const std::string& directory, const FlowIdentity& identity) {
  replace_file(real_file_system(), directory + kIdentityFile, Json(identity).dump(2) + "\n");
}

FlowIdentity read_flow_identity(const std::string& directory) {
  const Json json = read_given_json(directory + kIdentityFile,
                                    {.what = "train: the run that encoders work for is not known",
                                     .fix = "start the run, and give the encoder its run.dir"});
  FlowIdentity identity;
  for (const auto& [name, value] : json.items()) identity[name] = value.get<std::string>();
  return identity;
}

void require_same_identity(const FlowIdentity& of_run, const FlowIdentity& own) {
  for (const auto& [name, value] : of_run) {
    const auto found = own.find(name);
    const std::string other = found == own.end() ? "nothing" : found->second;
    TRIB_REQUIRE(other == value, .what = "train: encoder does not belong to the run", .where = name,
                 .found = escaped(other), .expected = escaped(value),
                 .fix = "start the encoder with the configuration and the files of the run");
  }
}

std::string pool_directory(const config::RunConfig& config) {
  return config.pool.directory.empty() ? config::run_directory(config) + "/pool"
                                       : config.pool.directory;
}

}  // namespace tributary::train
