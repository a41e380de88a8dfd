#include "memory/plan_log/plan_log_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/file/file_system.h"
#include "core/file/given_file.h"

namespace tributary::memory {
namespace {

PlanLogContent read_content(const std::string& path) {
  const std::string text = read_given_file(
      path, kAnySize,
      {.what = "memory: plan log cannot be read", .expected = "plan.log of a run by arrival"});
  Result<PlanLogContent> content = read_plan_log(std::as_bytes(std::span(text)));
  if (!content)
    TRIB_RAISE(Fault::kInput, .what = content.refusal().reason, .where = path,
               .expected = "a log as a run has written it", .fix = "take another copy of it");
  return std::move(content).value();
}

std::string text_of(std::span<const PlanRecord> records) {
  std::string text;
  std::uint32_t crc = 0;
  for (const PlanRecord& record : records) {
    const std::vector<std::byte> bytes = record_bytes(record, crc);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    crc = crc_of(bytes);
  }
  return text;
}

[[noreturn]] void raise_unwritten(const std::string& path) {
  TRIB_RAISE(Fault::kResource, .what = "memory: plan log cannot be written", .where = path,
             .found = std::strerror(errno), .expected = "a file that can be written");
}

}  // namespace

PlanLogFile::PlanLogFile(std::string path) : path_(std::move(path)) {
  PlanLogContent content;
  if (exists(real_file_system(), path_)) content = read_content(path_);
  last_crc_ = content.last_crc;
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  const bool is_open = file_ >= 0 && ftruncate(file_, static_cast<off_t>(content.whole_bytes)) == 0;
  if (!is_open) raise_unwritten(path_);
  sync_directory(real_file_system(), std::filesystem::path(path_).parent_path().string());
}

PlanLogFile::~PlanLogFile() { close(file_); }

void PlanLogFile::append(const PlanRecord& record) {
  const std::vector<std::byte> bytes = record_bytes(record, last_crc_);
  errno = ENOSPC;  // what a short write means
  if (write(file_, bytes.data(), bytes.size()) != std::ssize(bytes) || fdatasync(file_) != 0)
    raise_unwritten(path_);
  last_crc_ = crc_of(bytes);
}

std::vector<PlanRecord> read_plan_log_file(const std::string& path) {
  return read_content(path).records;
}

void cut_plan_log(const std::string& path, std::uint64_t last_step) {
  if (!exists(real_file_system(), path)) return;
  std::vector<PlanRecord> records = read_plan_log_file(path);
  std::erase_if(records, [&](const PlanRecord& record) { return record.step > last_step; });
  if (records.empty())
    (void)real_file_system().unlink(path);
  else
    replace_file(real_file_system(), path, text_of(records));
}

}  // namespace tributary::memory
