#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/engine/engine_verbs.h"
#include "core/error.h"
#include "core/file/weight_directory.h"
#include "core/json.h"
#include "core/stopwatch.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/export_checkpoint.h"
#include "train/checkpoint/retention.h"

namespace tributary::app {
namespace {

/// One tensor of a listing.
struct Row {
  std::string name;
  StoredDtype dtype = StoredDtype::kFloat32;
  std::vector<std::int64_t> shape;
};

std::uint64_t bytes_of(const Row& row) {
  return TensorSpec{row.name, row.dtype, row.shape}.bytes();
}

Json to_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows)
    list.push_back({{"name", row.name},
                    {"dtype", std::string(stored_name(row.dtype))},
                    {"shape", row.shape},
                    {"bytes", bytes_of(row)}});
  return list;
}

void print_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    std::cout << "  " << row.name << "  " << stored_name(row.dtype) << " " << Json(row.shape).dump()
              << "  " << bytes_of(row) << " bytes\n";
}

/// Lists weights that are not a checkpoint: a Hugging Face directory or one safetensors file.
void inspect_weights(const CheckpointOptions& options) {
  const WeightDirectory weights(options.checkpoint);
  std::vector<Row> rows;
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  for (const auto& [name, place] : weights.tensors()) {
    rows.push_back({name, place.tensor->dtype, place.tensor->shape});
    bytes += place.tensor->bytes();
    elements += *volume(place.tensor->shape);
  }
  if (options.json) {
    std::cout << Json{{"kind", "weights"},
                      {"files", weights.files().size()},
                      {"parameters", elements},
                      {"bytes", bytes},
                      {"tensors", to_json(rows)}}
                     .dump(1)
              << "\n";
    return;
  }
  std::cout << "weights     " << options.checkpoint << "\nfiles       " << weights.files().size()
            << "\nparameters  " << elements << "\nbytes       " << bytes << "\ntensors     "
            << rows.size() << "\n";
  print_rows(rows);
}

bool holds_weights(const std::string& path) {
  return !std::filesystem::is_directory(path) ||
         std::filesystem::exists(path + "/model.safetensors") ||
         std::filesystem::exists(path + "/model.safetensors.index.json");
}

/// The facts of a checkpoint as --json prints them, without the tensors.
Json describe(const train::CheckpointReader& reader, const train::CheckpointFacts& facts,
              const std::vector<std::int64_t>& steps) {
  const train::Manifest& manifest = reader.manifest();
  std::map<std::string, std::int64_t> elements;
  for (const auto& [name, tensor] : manifest.tensors)
    elements[name.substr(0, name.find('/'))] += *volume(tensor.shape);
  std::uint64_t bytes = 0;
  for (const train::ManifestFile& file : manifest.files) bytes += file.bytes;
  return {{"kind", "checkpoint"},
          {"path", reader.directory()},
          {"step", manifest.step},
          {"steps", steps},
          {"job", manifest.job},
          {"incarnation", manifest.incarnation},
          {"world", manifest.world},
          {"score", manifest.score},
          {"config_sha256", manifest.config_sha256},
          {"model_sha256", manifest.model_sha256},
          {"model_directory", facts.model_directory},
          {"parameters", elements["model"]},
          {"optimizer_elements", elements["optim"]},
          {"bytes", bytes},
          {"identity", facts.identity},
          {"state", parse_json(facts.state, "state", {.max_depth = 64})}};
}

}  // namespace

ExitCode inspect_checkpoint(const CheckpointOptions& options) {
  if (holds_weights(options.checkpoint)) {
    inspect_weights(options);
    return ExitCode::kDone;
  }
  const std::string path = train::find_checkpoint(options.checkpoint);
  const train::CheckpointFacts facts = train::read_checkpoint_facts(path);
  const train::CheckpointReader reader(path);
  const std::string root = std::filesystem::path(reader.directory()).parent_path();
  Json summary = describe(reader, facts, train::committed_steps(real_file_system(), root));
  std::vector<Row> rows;
  for (const auto& [name, tensor] : reader.manifest().tensors)
    rows.push_back({name, tensor.dtype, tensor.shape});
  if (options.json) {
    summary["tensors"] = to_json(rows);
    std::cout << summary.dump(1) << "\n";
    return ExitCode::kDone;
  }
  for (const auto& [key, value] : summary.items())
    std::cout << key << std::string(key.size() < 20 ? 20 - key.size() : 1, ' ')
              << (value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
  std::cout << "tensors             " << rows.size() << "\n";
  print_rows(rows);
  return ExitCode::kDone;
}

ExitCode verify_checkpoint(const CheckpointOptions& options) {
  const std::string path = train::find_checkpoint(options.checkpoint);
  const Stopwatch watch;
  train::CheckpointReader reader(path, train::Verify::kTouched);
  reader.verify_all();
  const std::size_t files = reader.manifest().files.size();
  if (options.json) {
    std::cout << Json{{"path", path},
                      {"files", files},
                      {"bytes", reader.bytes_read()},
                      {"seconds", watch.seconds()},
                      {"whole", true}}
                     .dump(1)
              << "\n";
    return ExitCode::kDone;
  }
  const double gigabytes = static_cast<double>(reader.bytes_read()) * 1e-9;
  std::printf("%s: every block of %zu files is right, %.3f GB in %.2f s\n", path.c_str(), files,
              gigabytes, watch.seconds());
  return ExitCode::kDone;
}

ExitCode export_checkpoint(const CheckpointOptions& options) {
  TRIB_REQUIRE(!options.output.empty(), .what = "app: export needs a directory",
               .where = "--output", .fix = "give -o DIR");
  const std::string path = train::find_checkpoint(options.checkpoint);
  const train::Exported exported = train::export_checkpoint(
      path, options.output,
      {.model_directory = options.model, .merged = options.merged, .averaged = options.averaged});
  std::cout << options.output << ": the "
            << (exported == train::Exported::kAdapter ? "adapter of " : "model of ") << path
            << (exported == train::Exported::kAdapter ? ", for PEFT and adapter.path\n"
                                                      : ", for transformers and Tributary\n");
  return ExitCode::kDone;
}

}  // namespace tributary::app
