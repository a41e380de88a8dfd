#include "core/file/weight_directory.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace tributary {
namespace {

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{256} << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";

/// Tensor name -> shard file, as the index gives it.
std::map<std::string, std::string> read_index(const std::string& path) {
  const std::string text = read_text_file(real_file_system(), path, kMaxIndexBytes);
  const Json index = parse_json(text, path, {.max_bytes = kMaxIndexBytes});
  TRIB_REQUIRE(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
               .what = "weights: index has no weight_map", .where = path);
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    TRIB_REQUIRE(shard.is_string(), .what = "weights: index names no file",
                 .where = str(path, ", weight_map.", escaped(name)), .found = shard.dump());
    const auto file = shard.get<std::string>();
    TRIB_REQUIRE(!file.empty() && file != ".." && file.find('/') == std::string::npos &&
                     file.find('\0') == std::string::npos,
                 .what = "weights: index names a file outside the directory", .where = path,
                 .found = escaped(file), .expected = "the name of a file beside the index");
    shard_of[name] = file;
  }
  return shard_of;
}

}  // namespace

WeightDirectory::WeightDirectory(const std::string& path) {
  FileSystem& files = real_file_system();
  TRIB_REQUIRE(exists(files, path), .what = "weights: no such directory or file", .where = path);
  const bool is_file = !std::filesystem::is_directory(path);
  const std::string single = is_file ? path : path + "/model.safetensors";
  const bool has_single = is_file || exists(files, single);
  TRIB_REQUIRE(has_single || exists(files, path + "/" + kIndexName),
               .what = "weights: no safetensors in the directory", .where = path,
               .expected = str("model.safetensors or ", kIndexName),
               .fix = "give a Hugging Face model directory; .bin and .pt files are not read");
  try {
    if (has_single)
      add(MappedSafetensors(single));
    else
      add_shards(path);
  } catch (const Error& error) {  // the path is right, but the file there is not
    if (error.fault() != Fault::kInput) throw;
    throw error.with_exit(ExitCode::kCheckpointRefused);
  }
}

void WeightDirectory::add_shards(const std::string& path) {
  FileSystem& files = real_file_system();
  const std::string index_path = path + "/" + kIndexName;
  const std::map<std::string, std::string> shard_of = read_index(index_path);
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  files_.reserve(shards.size());
  for (const std::string& shard : shards) {
    TRIB_REQUIRE(exists(files, path + "/" + shard), .what = "weights: shard is missing",
                 .where = path + "/" + shard, .expected = str("a file that ", kIndexName, " names"),
                 .fix = "copy or download it once more");
    add(MappedSafetensors(path + "/" + shard));
  }
  for (const auto& [name, shard] : shard_of) {
    const auto found = tensors_.find(name);
    TRIB_REQUIRE(found != tensors_.end() && found->second.file->path() == path + "/" + shard,
                 .what = "weights: tensor is not in the shard that the index names",
                 .where = path + "/" + shard, .found = escaped(name));
  }
}

void WeightDirectory::add(MappedSafetensors file) {
  // The caller reserved the vector, because places point into it.
  TRIB_CHECK(files_.empty() || files_.size() < files_.capacity(),
             .what = "weights: shards were not reserved");
  files_.push_back(std::move(file));
  const MappedSafetensors& kept = files_.back();
  for (const StoredTensor& tensor : kept.header().tensors) {
    const bool fresh = tensors_.emplace(tensor.name, Place{&kept, &tensor}).second;
    TRIB_REQUIRE(fresh, .what = "weights: tensor is in two shards", .where = kept.path(),
                 .found = escaped(tensor.name));
  }
}

}  // namespace tributary
