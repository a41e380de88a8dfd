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
#include "mesh/launch/store.h"

namespace tributary::train {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Protocol buffers: a field is its number and wire type, then its value.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(unsigned field, WireType type) {
  return varint((std::uint64_t{field} << 3) | static_cast<unsigned>(type));
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
  return text;
}

std::string number(unsigned field, std::int64_t value) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string real64(unsigned field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string real32(unsigned field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}
std::string message(unsigned field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Summary: 1 value.
// SessionLog: 1 status.
// Value: 1 tag, 2 simple_value, 8 tensor, 9 metadata.
std::string event(std::int64_t step, const std::string& value) {
  return real64(1, wall_seconds()) + number(2, step) + message(5, message(1, value));
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
  add_record(real64(1, wall_seconds()) + message(3, "brain.Event:2"));
}

void EventFile::restart_at(std::int64_t step) {
  constexpr std::int64_t kStart = 1;
  add_record(real64(1, wall_seconds()) + number(2, step) + message(7, number(1, kStart)));
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value) {
  add_record(event(step, message(1, tag) + real32(2, static_cast<float>(value))));
}

void EventFile::text(std::string_view tag, std::int64_t step, std::string_view value) {
  constexpr std::int64_t kStringType = 7;
  const std::string shape = message(2, message(2, number(1, 1)));  // one dimension of size 1
  const std::string tensor = number(1, kStringType) + shape + message(8, value);
  const std::string plugin = message(1, message(1, "text"));
  add_record(event(step, message(1, tag) + message(9, plugin) + message(8, tensor)));
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
