#include "train/metrics/event_file.h"

#include <bit>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <unistd.h>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/file/protobuf.h"
#include "mesh/launch/store.h"

namespace tributary::train {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Summary: 1 value.
// SessionLog: 1 status.
// Value: 1 tag, 2 simple_value, 8 tensor, 9 metadata.
std::string event(std::int64_t step, const std::string& value) {
  return proto_double(1, wall_seconds()) + proto_integer(2, step) +
         proto_bytes(5, proto_bytes(1, value));
}

/// The masked checksum of TFRecord: a checksum over data that holds checksums is weak.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8U;
}

std::string new_path(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  return str(directory, "/events.out.tfevents.", static_cast<std::int64_t>(wall_seconds()), ".",
             mesh::host_name(), ".", ::getpid());
}

}  // namespace

EventFile::EventFile(const std::string& directory)
    : path_(new_path(directory)), file_(std::fopen(path_.c_str(), "ab"), &std::fclose) {
  if (file_ == nullptr)
    TRIB_RAISE(Fault::kResource, .what = "metrics: the event file cannot be made", .where = path_,
               .found = std::generic_category().message(errno));
  add_record(proto_double(1, wall_seconds()) + proto_bytes(3, "brain.Event:2"));
}

void EventFile::restart_at(std::int64_t step) {
  constexpr std::int64_t kStart = 1;
  add_record(proto_double(1, wall_seconds()) + proto_integer(2, step) +
             proto_bytes(7, proto_integer(1, kStart)));
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value) {
  add_record(event(step, proto_bytes(1, tag) + proto_float(2, static_cast<float>(value))));
}

void EventFile::text(std::string_view tag, std::int64_t step, std::string_view value) {
  constexpr std::int64_t kStringType = 7;
  const std::string shape =
      proto_bytes(2, proto_bytes(2, proto_integer(1, 1)));  // one dimension of size 1
  const std::string tensor = proto_integer(1, kStringType) + shape + proto_bytes(8, value);
  const std::string plugin = proto_bytes(1, proto_bytes(1, "text"));
  add_record(event(step, proto_bytes(1, tag) + proto_bytes(9, plugin) + proto_bytes(8, tensor)));
}

void EventFile::add_record(const std::string& event) {
  const std::string length = little_endian(event.size(), 8);
  const std::string record =
      length + little_endian(masked_crc(length), 4) + event + little_endian(masked_crc(event), 4);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0)
    TRIB_RAISE(Fault::kResource, .what = "metrics: the event file cannot be written",
               .where = path_, .found = std::generic_category().message(errno));
}

}  // namespace tributary::train
