#include "memory/plan_log/plan_record.h"

#include <algorithm>
#include <utility>

#include "core/file/crc32c.h"
#include "memory/bytes.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kMicrobatchBytes = 12;  // at least
constexpr std::size_t kSampleBytes = 12;
constexpr std::uint32_t kMaxRecordBytes = std::uint32_t{64} << 20;

Refusal damage(std::uint64_t at, const std::string& found) {
  return {"plan_log", str("memory: plan log: record at byte ", at, ": ", found)};
}

/// Reads a body; the second value is its previous_crc.
std::pair<PlanRecord, std::uint32_t> get_body(ByteReader& from) {
  PlanRecord record;
  record.step = from.get<std::uint64_t>();
  record.dataset_epoch = from.get<std::uint32_t>();
  const auto previous_crc = from.get<std::uint32_t>();
  const auto microbatches = from.get<std::uint32_t>();
  if (!from.holds(microbatches, kMicrobatchBytes)) return {record, previous_crc};
  for (std::uint32_t i = 0; i < microbatches; ++i) {
    PlanRecordMicrobatch& microbatch = record.microbatches.emplace_back();
    microbatch.dp_rank = from.get<std::uint32_t>();
    microbatch.order = from.get<std::uint32_t>();
    const auto samples = from.get<std::uint32_t>();
    if (!from.holds(samples, kSampleBytes)) break;
    for (std::uint32_t sample = 0; sample < samples; ++sample) {
      const auto id = from.get<std::uint64_t>();
      microbatch.samples.push_back({.id = id, .tokens = from.get<std::uint32_t>()});
    }
  }
  return {record, previous_crc};
}

}  // namespace

std::vector<std::byte> record_bytes(const PlanRecord& record, std::uint32_t previous_crc) {
  ByteWriter body;
  body.put(record.step);
  body.put(record.dataset_epoch);
  body.put(previous_crc);
  body.put(static_cast<std::uint32_t>(record.microbatches.size()));
  for (const PlanRecordMicrobatch& microbatch : record.microbatches) {
    body.put(microbatch.dp_rank);
    body.put(microbatch.order);
    body.put(static_cast<std::uint32_t>(microbatch.samples.size()));
    for (const PlannedSample& sample : microbatch.samples) {
      body.put(sample.id);
      body.put(sample.tokens);
    }
  }
  const std::vector<std::byte> bytes = body.take();
  ByteWriter whole;
  whole.put(static_cast<std::uint32_t>(bytes.size()));
  whole.put(crc32c(bytes));
  whole.put_bytes(bytes);
  return whole.take();
}

std::uint32_t crc_of(std::span<const std::byte> record) {
  ByteReader head(record);
  (void)head.get<std::uint32_t>();
  return head.get<std::uint32_t>();
}

Result<PlanLogContent> read_plan_log(std::span<const std::byte> log) {
  PlanLogContent content;
  while (content.whole_bytes < log.size()) {
    const std::uint64_t at = content.whole_bytes;
    const std::span<const std::byte> left = log.subspan(at);
    // Blocks of a torn record may have reached the disk in any order, or as zeros.
    const bool is_unwritten =
        std::ranges::all_of(left, [](std::byte b) { return b == std::byte{}; });
    if (left.size() < kHeadBytes || is_unwritten) return content;
    ByteReader head(left);
    const auto bytes = head.get<std::uint32_t>();
    const auto crc = head.get<std::uint32_t>();
    if (bytes > kMaxRecordBytes)
      return damage(at, str("bytes = ", bytes, ", limit ", kMaxRecordBytes));
    if (left.size() - kHeadBytes < bytes) return content;
    const std::span<const std::byte> body = left.subspan(kHeadBytes, bytes);
    const bool is_last = left.size() == kHeadBytes + bytes;
    if (crc32c(body) != crc) {
      if (is_last) return content;
      return damage(at, "its checksum differs");
    }
    ByteReader from(body);
    auto [record, previous_crc] = get_body(from);
    if (!from.finished()) return damage(at, "its body does not have the form of a record");
    if (previous_crc != content.last_crc)
      return damage(at, "it does not follow the record before it");
    content.records.push_back(std::move(record));
    content.last_crc = crc;
    content.whole_bytes += kHeadBytes + bytes;
  }
  return content;
}

}  // namespace tributary::memory
