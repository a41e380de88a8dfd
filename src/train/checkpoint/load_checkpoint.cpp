#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "ops/stored_dtype.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/retention.h"

namespace tributary::train {
namespace {

constexpr std::size_t kMaxListed = 20;

/// A list of names for a message: all when there are few.
class NameList {
 public:
  void add(const std::string& line) {
    if (count_++ < kMaxListed) text_ += str(text_.empty() ? "" : ", ", line);
  }
  [[nodiscard]] std::string describe(std::string_view kind) const {
    if (count_ == 0) return "";
    const std::string more =
        count_ > kMaxListed ? str(" and ", count_ - kMaxListed, " more") : std::string();
    return str(" ", count_, " ", kind, ": ", text_, more, ";");
  }

 private:
  std::size_t count_ = 0;
  std::string text_;
};

std::string describe_kind(StoredDtype dtype, const std::vector<std::int64_t>& shape) {
  return str(stored_name(dtype), " ", Json(shape).dump());
}

/// The parts to fill, by the name that the manifest gives their tensor.
using Wanted = std::map<std::string, std::vector<const NamedTensor*>>;

void add_wanted(Wanted& wanted, const std::string& folder, std::span<const NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    std::vector<const NamedTensor*>& parts = wanted[folder + tensor.name];
    TRIB_CHECK(parts.empty() || (tensor.part && parts.front()->part),
               .what = "checkpoint: a tensor is asked for twice", .where = folder + tensor.name);
    parts.push_back(&tensor);
  }
}

/// Whether a tensor may be stored in another float type than it has here.
enum class Types { kEqual, kAnyFloat };

bool fits(const ManifestTensor& stored, const NamedTensor& wanted, Types types) {
  const at::ScalarType dtype = ops::scalar_type(stored.dtype);
  const bool same_type = dtype == wanted.value.scalar_type();
  const bool both_float = at::isFloatingType(dtype) && wanted.value.is_floating_point();
  return wanted.whole_shape() == stored.shape &&
         (same_type || (types == Types::kAnyFloat && both_float));
}

/// Lists at once what is missing, unexpected or of another shape in the given folders.
void check_names(const Manifest& manifest, const Wanted& wanted,
                 std::span<const std::string_view> folders, Types types,
                 const std::string& directory) {
  NameList missing;
  NameList unexpected;
  NameList other;
  for (const auto& [name, tensor] : manifest.tensors)
    for (const std::string_view folder : folders)
      if (name.starts_with(folder) && !wanted.contains(name)) unexpected.add(name);
  for (const auto& [name, parts] : wanted) {
    const auto found = manifest.tensors.find(name);
    if (found == manifest.tensors.end()) {
      missing.add(name);
      continue;
    }
    if (fits(found->second, *parts.front(), types)) continue;
    const std::string stored = describe_kind(found->second.dtype, found->second.shape);
    const std::string here = describe_kind(ops::stored_dtype(parts.front()->value.scalar_type()),
                                           parts.front()->whole_shape());
    other.add(str(name, " is ", stored, " in the file, ", here, " here"));
  }
  const std::string found = str(missing.describe("missing"), unexpected.describe("unexpected"),
                                other.describe("of another shape or dtype"));
  TRIB_REQUIRE(found.empty(), .what = "checkpoint: tensors do not match the model",
               .where = directory,
               .found = found.empty() ? found : found.substr(1, found.size() - 2),
               .expected = "a checkpoint of the model in model.path",
               .fix = "`tributary checkpoint inspect` lists its tensors",
               .exit = ExitCode::kCheckpointRefused);
}

LoadReport fill(const std::string& directory, const Wanted& wanted,
                std::span<const std::string_view> folders, Types types, Verify verify,
                FileSystem& files) {
  const at::NoGradGuard no_grad;
  CheckpointReader reader(directory, verify, files);
  check_names(reader.manifest(), wanted, folders, types, directory);
  LoadReport report;
  std::vector<ReadRequest> requests;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // from host, contiguous -> value
  for (const auto& [name, parts] : wanted) {
    const StoredDtype stored = reader.manifest().tensors.at(name).dtype;
    const at::ScalarType dtype = ops::scalar_type(stored);
    if (dtype != parts.front()->value.scalar_type()) report.converted.insert(stored);
    for (const NamedTensor* part : parts) {
      if (part->value.numel() == 0) continue;
      at::Tensor host = part->value.detach();
      if (!host.is_cpu() || !host.is_contiguous() || dtype != host.scalar_type()) {
        host = at::empty(host.sizes(), at::TensorOptions().dtype(dtype));
        copies.emplace_back(host, part->value);
      }
      report.needed.count += static_cast<std::int64_t>(host.nbytes());
      requests.push_back(
          {name, part->box(), {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}});
    }
  }
  const std::uint64_t before = reader.bytes_read();
  reader.read(requests);
  for (const auto& [host, value] : copies) value.detach().copy_(host);
  report.read.count = static_cast<std::int64_t>(reader.bytes_read() - before);
  return report;
}

/// Where the checkpoints of a run lie, if `path` is one or a directory of them.
std::string root_of(const std::string& path, FileSystem& files) {
  const std::string inside = path + "/checkpoints";
  return exists(files, inside) ? inside : path;
}

}  // namespace

std::optional<std::string> newest_checkpoint(const std::string& root, FileSystem& files) {
  const std::vector<std::int64_t> steps = committed_steps(files, root);
  if (steps.empty()) return std::nullopt;
  return str(root, "/", step_name(steps.front()));
}

IntactCheckpoint newest_intact_checkpoint(const std::string& root, FileSystem& files) {
  IntactCheckpoint found;
  std::exception_ptr first;
  for (const std::int64_t step : committed_steps(files, root)) {
    found.path = str(root, "/", step_name(step));
    try {
      const CheckpointReader reader(found.path, Verify::kFull, files);
      return found;
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::kCheckpointRefused) throw;
      if (!first) first = std::current_exception();
      log_warning(str("checkpoint: damaged, looking for the one before it: ", error.what()));
      found.damaged.push_back(found.path);
    }
  }
  if (first) std::rethrow_exception(first);
  return found;
}

std::string find_checkpoint(const std::string& path, FileSystem& files) {
  const std::string plain = plain_directory(path);
  const std::string where = plain == "." ? std::filesystem::current_path().string() : plain;
  TRIB_REQUIRE(exists(files, plain), .what = "checkpoint: no such directory", .where = where,
               .expected = "a run, its checkpoints/, or one checkpoint below it");
  TRIB_REQUIRE(stat_path(files, plain).kind != FileKind::kFile,
               .what = "checkpoint: a file in place of a directory", .where = where,
               .expected = "a run, its checkpoints/, or one checkpoint below it");
  if (step_of(std::filesystem::path(plain).filename()) ||
      exists(files, plain + "/" + kManifestName))
    return plain;
  const std::optional<std::string> newest = newest_checkpoint(root_of(plain, files), files);
  TRIB_REQUIRE(newest.has_value(), .what = "checkpoint: none in the directory", .where = where,
               .expected = "step-<n> directories, here or below checkpoints/");
  return *newest;
}

CheckpointFacts read_checkpoint_facts(const std::string& directory, FileSystem& files) {
  CheckpointReader reader(directory, Verify::kTouched, files);
  const std::string where = directory + "/extra/global.json";
  const Json json = parse_json(reader.read_extra("global.json"), where,
                               {.max_bytes = std::size_t{1} << 30, .max_depth = 64});
  CheckpointFacts facts;
  try {
    facts = {.step = json.at("step").get<std::int64_t>(),
             .config = json.at("config").get<std::string>(),
             .model_directory = json.at("model_directory").get<std::string>(),
             .identity = json.at("identity").get<RunIdentity>(),
             .state = json.at("state").dump(),
             .generators = {}};
  } catch (const Json::exception& broken) {
    TRIB_RAISE(Fault::kInput, .what = "checkpoint: global state lacks a field", .where = where,
               .found = broken.what(), .exit = ExitCode::kCheckpointRefused);
  }
  std::vector<ReadRequest> requests;
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (!name.starts_with("extra/")) continue;
    std::string& bytes = facts.generators[name.substr(6)];
    bytes.resize(static_cast<std::size_t>(*volume(tensor.shape)) * element_bytes(tensor.dtype));
    requests.push_back({name, whole_box(tensor.shape), std::as_writable_bytes(std::span(bytes))});
  }
  reader.read(requests);
  return facts;
}

LoadReport load_checkpoint(const std::string& directory, std::span<const NamedTensor> model,
                           std::span<const NamedTensor> optimizer, Verify verify,
                           FileSystem& files) {
  Wanted wanted;
  add_wanted(wanted, "model/", model);
  add_wanted(wanted, "optim/", optimizer);
  const std::array<std::string_view, 2> folders{"model/", "optim/"};
  return fill(directory, wanted, folders, Types::kEqual, verify, files);
}

LoadReport load_model(const std::string& directory, std::span<const NamedTensor> model,
                      Verify verify, FileSystem& files) {
  Wanted wanted;
  add_wanted(wanted, "model/", model);
  const std::array<std::string_view, 1> folders{"model/"};
  return fill(directory, wanted, folders, Types::kAnyFloat, verify, files);
}

}  // namespace tributary::train
