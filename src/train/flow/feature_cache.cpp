#include "train/flow/feature_cache.h"

#define XXH_INLINE_ALL
#include <array>
#include <cstdio>
#include <filesystem>
#include <unistd.h>
#include <utility>
#include <xxhash.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/log.h"
#include "model/weights/stored_tensors.h"

namespace tributary::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kTensor = "features";
constexpr const char* kEnding = ".safetensors";

/// The bytes of the files that are there already.
std::int64_t bytes_in(const std::string& directory) {
  std::int64_t bytes = 0;
  std::error_code gone;  // another process may be renaming
  for (fs::recursive_directory_iterator file(directory, gone), end; !gone && file != end;
       file.increment(gone)) {
    std::error_code moved;
    const std::uintmax_t size = file->file_size(moved);
    if (!moved && file->path().extension() == kEnding) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

}  // namespace

FeatureCache::FeatureCache(std::string directory, std::string weights, Bytes max)
    : directory_(std::move(directory)), weights_(std::move(weights)) {
  std::error_code failure;
  fs::create_directories(directory_, failure);
  TRIB_REQUIRE(!failure, .what = "train: directory of features cannot be made",
               .where = str("pool.cache ", directory_), .found = failure.message(),
               .expected = "a directory that can be written");
  left_ = max.count - bytes_in(directory_);
}

std::string FeatureCache::path_of(const FlowModule& module,
                                  const data::EncodedSample& sample) const {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto add = [&state](const void* bytes, std::size_t count) {
    XXH3_128bits_update(&state, bytes, count);
  };
  add(weights_.data(), weights_.size());
  add(module.name.data(), module.name.size());
  for (const Modality modality : module.takes)
    for (const data::PatchedItem& item : sample.items) {
      if (item.modality != modality) continue;
      const std::array<std::int64_t, 6> grid{item.grid.time,        item.grid.rows,
                                             item.grid.columns,     item.grid.mosaic.tile_columns,
                                             item.grid.mosaic.rows, item.grid.mosaic.columns};
      add(grid.data(), sizeof grid);
      add(item.rows.data(), item.rows.size() * sizeof(float));
    }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  std::array<char, 33> name{};
  std::snprintf(name.data(), name.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  const std::string text(name.data());
  return str(directory_, "/", text.substr(0, 2), "/", text, kEnding);
}

std::optional<at::Tensor> FeatureCache::find(const FlowModule& module,
                                             const data::EncodedSample& sample) const {
  const std::string path = path_of(module, sample);
  std::error_code gone;
  if (!fs::exists(path, gone)) return {};
  try {
    return model::read_tensors(path).at(kTensor);
  } catch (const std::exception& error) {
    log_warning(str("train: features on disk are made anew: ", path, ": ", error.what()));
    return {};
  }
}

void FeatureCache::keep(const FlowModule& module, const data::EncodedSample& sample,
                        const at::Tensor& features) {
  const auto bytes = static_cast<std::int64_t>(features.nbytes());
  if (bytes > left_) return;
  const std::string path = path_of(module, sample);
  const std::string draft = str(path, ".", getpid(), ".tmp");
  try {
    fs::create_directories(fs::path(path).parent_path());
    model::write_tensors(draft, {{kTensor, features}});
    fs::rename(draft, path);
    left_ -= bytes;
  } catch (const std::exception& error) {
    std::error_code gone;
    fs::remove(draft, gone);
    left_ = 0;
    log_warning(str("train: no more features are kept on disk: ", error.what()));
  }
}

}  // namespace tributary::train
