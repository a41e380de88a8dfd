#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/result.h"
#include "data/record/media_files.h"

namespace tributary::data {

/// How paths are kept inside the folder: by the kernel (openat2, Linux 5.6), or by comparing
/// resolved paths on older kernels.
enum class Confinement { kKernel, kResolvedPath };

/// The folder that the relative paths of a data set start from. An absolute path is accepted if it
/// begins with that of the folder. Only regular files inside the folder are opened: no `..`, no
/// link that leaves it, no URL.
///
/// Safe to use from any thread.
class MediaFolder final : public MediaFiles {
 public:
  /// errors: Fault::kInput when there is no such folder
  explicit MediaFolder(std::string root, Confinement confinement = Confinement::kKernel);

  /// errors: Refusal `bad_path`, `path_escapes`, `missing_file`, `not_a_file`, `too_large`,
  ///         `read_failed`; Fault::kResource when the process is out of descriptors
  [[nodiscard]] Result<std::vector<std::uint8_t>> read(const std::string& path) const override;
  [[nodiscard]] Result<std::vector<std::uint8_t>> read_beginning(const std::string& path,
                                                                 std::size_t max) const override;
  /// True of relative paths, and of absolute ones that begin with that of the folder.
  [[nodiscard]] bool holds(const std::string& path) const override;
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  [[nodiscard]] Result<Descriptor> open_file(const std::string& path) const;
  /// The path below root(); refuses paths that are wrong without looking at the disk.
  [[nodiscard]] Result<std::string> below_root(const std::string& path) const;

  std::string root_;
  std::vector<std::string> absolute_roots_;  // as written and with links resolved, `/` at the end
  Confinement confinement_;
  Descriptor folder_;
};

/// A folder, and further ones in which absolute paths may lie.
class MediaRoots final : public MediaFiles {
 public:
  /// errors: Fault::kInput when one of the folders is missing
  MediaRoots(const std::string& folder, const std::vector<std::string>& roots);

  [[nodiscard]] bool holds(const std::string& path) const override;
  [[nodiscard]] Result<std::vector<std::uint8_t>> read(const std::string& path) const override;
  [[nodiscard]] Result<std::vector<std::uint8_t>> read_beginning(const std::string& path,
                                                                 std::size_t max) const override;

 private:
  [[nodiscard]] const MediaFolder& folder_of(const std::string& path) const;

  std::vector<MediaFolder> folders_;  // the first one is where relative paths start
};

}  // namespace tributary::data
