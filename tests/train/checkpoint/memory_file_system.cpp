#include "tests/train/checkpoint/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tributary::train {
namespace {

using Kind = DiskOperation::Kind;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

bool MemoryFileSystem::is_directory(const std::string& path) const {
  const auto found = names_.find(path);
  return path.empty() || path == "/" || (found != names_.end() && found->second == kDirectoryNode);
}

bool MemoryFileSystem::has_parent(const std::string& path) const {
  return is_directory(parent_of(path));
}

bool MemoryFileSystem::is_empty(const std::string& path) const {
  return std::none_of(names_.begin(), names_.end(),
                      [&](const auto& entry) { return entry.first.starts_with(path + "/"); });
}

std::int64_t MemoryFileSystem::open(const std::string& path, OpenFor purpose) {
  int inode = kDirectoryNode;
  if (purpose == OpenFor::kDirectory) {
    if (!is_directory(path)) return -ENOENT;
  } else if (purpose == OpenFor::kRead) {
    const auto found = names_.find(path);
    if (found == names_.end()) return -ENOENT;
    inode = found->second;
  } else {
    if (!has_parent(path)) return -ENOENT;
    if (is_directory(path)) return -EISDIR;
    inode = next_inode_++;
    names_[path] = inode;
    inodes_[inode] = "";
    record_.push_back({Kind::kCreate, path, "", inode, ""});
  }
  open_[next_file_] = {inode, path};
  return next_file_++;
}

std::int64_t MemoryFileSystem::write(std::int64_t file, std::span<const std::byte> bytes) {
  const OpenFile& open = open_.at(file);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as text
  const std::string data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  inodes_[open.inode] += data;
  record_.push_back({Kind::kWrite, open.path, "", open.inode, data});
  return static_cast<std::int64_t>(bytes.size());
}

std::int64_t MemoryFileSystem::pread(std::int64_t file, std::span<std::byte> bytes,
                                     std::uint64_t offset) {
  const std::string& data = inodes_.at(open_.at(file).inode);
  if (offset >= data.size()) return 0;
  const std::size_t part = std::min<std::size_t>(bytes.size(), data.size() - offset);
  std::memcpy(bytes.data(), data.data() + offset, part);
  return static_cast<std::int64_t>(part);
}

std::int64_t MemoryFileSystem::size(std::int64_t file) {
  const int inode = open_.at(file).inode;
  return inode == kDirectoryNode ? -EINVAL : static_cast<std::int64_t>(inodes_.at(inode).size());
}

std::int64_t MemoryFileSystem::fsync(std::int64_t file) {
  const OpenFile& open = open_.at(file);
  const bool directory = open.inode == kDirectoryNode;
  record_.push_back(
      {directory ? Kind::kSyncDirectory : Kind::kSync, open.path, "", open.inode, ""});
  return 0;
}

void MemoryFileSystem::close(std::int64_t file) { open_.erase(file); }

std::int64_t MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  if (!names_.contains(from) || !has_parent(to)) return -ENOENT;
  if (is_directory(to) && !is_empty(to)) return -ENOTEMPTY;
  std::map<std::string, int> moved;
  for (auto at = names_.begin(); at != names_.end();) {
    if (at->first == from || at->first.starts_with(from + "/")) {
      moved[to + at->first.substr(from.size())] = at->second;
      at = names_.erase(at);
    } else {
      ++at;
    }
  }
  for (const auto& [path, inode] : moved) names_[path] = inode;
  record_.push_back({Kind::kRename, from, to, 0, ""});
  return 0;
}

std::int64_t MemoryFileSystem::unlink(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return -ENOENT;
  if (found->second == kDirectoryNode) return -EISDIR;
  names_.erase(found);
  record_.push_back({Kind::kUnlink, path, "", 0, ""});
  return 0;
}

std::int64_t MemoryFileSystem::make_directory(const std::string& path) {
  if (names_.contains(path)) return -EEXIST;
  if (!has_parent(path)) return -ENOENT;
  names_[path] = kDirectoryNode;
  record_.push_back({Kind::kMkdir, path, "", 0, ""});
  return 0;
}

std::int64_t MemoryFileSystem::remove_directory(const std::string& path) {
  if (!names_.contains(path)) return -ENOENT;
  if (!is_empty(path)) return -ENOTEMPTY;
  names_.erase(path);
  record_.push_back({Kind::kRmdir, path, "", 0, ""});
  return 0;
}

std::int64_t MemoryFileSystem::list(const std::string& path, std::vector<std::string>& names) {
  if (!is_directory(path)) return -ENOENT;
  for (const auto& [name, inode] : names_)
    if (!name.empty() && parent_of(name) == path) names.push_back(name.substr(path.size() + 1));
  return 0;
}

std::int64_t MemoryFileSystem::stat(const std::string& path, FileFacts& facts) {
  if (is_directory(path)) {
    facts = {FileKind::kDirectory, 0};
    return 0;
  }
  const auto found = names_.find(path);
  if (found == names_.end()) return -ENOENT;
  facts = {FileKind::kFile, inodes_.at(found->second).size()};
  return 0;
}

std::int64_t MemoryFileSystem::free_bytes(const std::string&, std::uint64_t& bytes) {
  bytes = std::uint64_t{1} << 40;
  return 0;
}

MemoryFileSystem MemoryFileSystem::copy() const {
  MemoryFileSystem other = *this;
  other.record_.clear();
  other.open_.clear();
  return other;
}

void MemoryFileSystem::repeat(const DiskOperation& operation) {
  switch (operation.kind) {
    case Kind::kCreate:
      if (!has_parent(operation.path) || is_directory(operation.path)) return;
      names_[operation.path] = operation.inode;
      inodes_.try_emplace(operation.inode);
      return;
    case Kind::kWrite:
      inodes_[operation.inode] += operation.data;
      return;
    case Kind::kRename:
      (void)rename(operation.path, operation.to);
      return;
    case Kind::kUnlink:
      (void)unlink(operation.path);
      return;
    case Kind::kMkdir:
      (void)make_directory(operation.path);
      return;
    case Kind::kRmdir:
      (void)remove_directory(operation.path);
      return;
    case Kind::kSync:
    case Kind::kSyncDirectory:
      return;
  }
}

std::map<std::string, std::string> MemoryFileSystem::content() const {
  std::map<std::string, std::string> files;
  for (const auto& [path, inode] : names_)
    if (inode != kDirectoryNode) files[path] = inodes_.at(inode);
  return files;
}

}  // namespace tributary::train
