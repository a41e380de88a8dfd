#include "memory/wire/frame.h"

#include <algorithm>
#include <cstring>

#include "core/file/crc32c.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(FrameHeader);

constexpr auto kNewest = static_cast<std::uint8_t>(FrameType::kPart);

/// The empty body has no content that its type could need.
bool may_be_empty(FrameType type) { return type == FrameType::kBye || type == FrameType::kAck; }

bool is_type(std::uint8_t type) { return type >= 1 && type <= kNewest; }

Refusal malformed(const std::string& found) { return {"frame", str("memory: frame: ", found)}; }

}  // namespace

std::string_view name_of(FrameType type) {
  constexpr std::string_view kNames[] = {
      "none", "HELLO", "CHALLENGE", "CONFIRM", "EPOCH",   "ASSIGN", "PUBLISH", "RETRACT",
      "PLAN", "GET",   "GET_REPLY", "LEASE",   "UNLEASE", "COMMIT", "CREDIT",  "HEARTBEAT",
      "ACK",  "FAIL",  "BYE",       "RESOLVE", "JOIN",    "WORKER", "PART"};
  const auto value = static_cast<std::uint8_t>(type);
  return kNames[is_type(value) ? value : 0];
}

FrameHeader header_of(FrameType type, std::uint32_t epoch, std::uint64_t request,
                      std::span<const std::byte> body) {
  TRIB_CHECK(body.size() <= kMaxBodyBytes && (!body.empty() || may_be_empty(type)),
             .what = "memory: a frame has a body of the wrong size",
             .found = str(name_of(type), " with ", body.size(), " B"),
             .expected = str("1 to ", kMaxBodyBytes, " B"));
  FrameHeader header{.type = static_cast<std::uint8_t>(type),
                     .epoch = epoch,
                     .body_bytes = static_cast<std::uint32_t>(body.size()),
                     .request = request,
                     .body_crc = crc32c(body)};
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(28));
  return header;
}

std::vector<std::byte> frame_bytes(FrameType type, std::uint32_t epoch, std::uint64_t request,
                                   std::span<const std::byte> body) {
  ByteWriter bytes;
  bytes.put(header_of(type, epoch, request, body));
  bytes.put_bytes(body);
  return bytes.take();
}

Result<FrameHeader> parse_header(std::span<const std::byte, 32> bytes) {
  FrameHeader header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  if (header.magic != kFrameMagic) return malformed("it does not begin with TRIB");
  if (header.version != kFrameVersion)
    return malformed(str("version = ", int{header.version}, ", expected ", int{kFrameVersion}));
  if (header.header_crc != crc32c(bytes.first(28)))
    return malformed("the checksum of its header differs");
  const auto type = static_cast<FrameType>(header.type);
  if (!is_type(header.type))
    return malformed(str("type = ", int{header.type}, ", 1 to ", int{kNewest}));
  if (header.flags != 0) return malformed(str("flags = ", header.flags, ", expected 0"));
  if (header.body_bytes > kMaxBodyBytes)
    return malformed(
        str("type ", name_of(type), ", body = ", header.body_bytes, " B, limit ", kMaxBodyBytes));
  if (header.body_bytes == 0 && !may_be_empty(type))
    return malformed(str("type ", name_of(type), " has no body"));
  return header;
}

std::size_t FrameParser::wanted() const {
  if (head_bytes_ < kHeaderBytes) return kHeaderBytes - head_bytes_;
  return frame_.header.body_bytes - frame_.body.size();
}

Result<FrameParser::Fed> FrameParser::feed(std::span<const std::byte> bytes) {
  if (refused_) return *refused_;
  Fed fed;
  if (head_bytes_ < kHeaderBytes) {
    fed.taken = std::min(bytes.size(), wanted());
    std::ranges::copy(bytes.first(fed.taken), head_.begin() + head_bytes_);
    head_bytes_ += fed.taken;
    if (head_bytes_ < kHeaderBytes) return fed;
    const Result<FrameHeader> header = parse_header(head_);
    if (!header) return *(refused_ = header.refusal());
    frame_.header = header.value();
  }
  const std::span<const std::byte> body =
      bytes.subspan(fed.taken, std::min(bytes.size() - fed.taken, wanted()));
  frame_.body.insert(frame_.body.end(), body.begin(), body.end());
  fed.taken += body.size();
  if (wanted() > 0) return fed;
  if (crc32c(frame_.body) != frame_.header.body_crc)
    return *(refused_ = malformed(
                 str("the checksum of a body of type ", name_of(frame_.type()), " differs")));
  fed.frame = std::move(frame_);
  frame_ = {};
  head_bytes_ = 0;
  return fed;
}

}  // namespace tributary::memory
