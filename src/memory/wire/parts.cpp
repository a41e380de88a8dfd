#include "memory/wire/parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <openssl/evp.h>
#include <span>

#include "core/error.h"

namespace tributary::memory {
namespace {

Digest digest_of(std::span<const std::byte> body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  TRIB_CHECK(
      EVP_Digest(body.data(), body.size(), bytes.data(), nullptr, EVP_sha256(), nullptr) == 1,
      .what = "memory: OpenSSL gives no digest");
  Digest digest;
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

Refusal contradiction(const PartMessage& part) {
  return {"part", str("memory: part ", part.part, " of a ", name_of(part.type),
                      " contradicts those before it")};
}

}  // namespace

std::vector<FrameContent> frames_of(const Message& message, std::size_t max_bytes) {
  const FrameType type = type_of(message);
  std::vector<std::byte> body = body_of(message);
  if (body.size() <= max_bytes || !may_have_parts(type))
    return {{.type = type, .body = std::move(body)}};
  TRIB_CHECK(max_bytes > kPartHead, .what = "memory: a frame has no room for a part");
  const std::size_t room = max_bytes - kPartHead;
  const std::size_t parts = (body.size() + room - 1) / room;
  TRIB_CHECK(parts <= kMaxParts, .what = "memory: a message is larger than its frames",
             .found = str(name_of(type), " with ", body.size(), " B"));
  PartMessage part{
      .type = type, .parts = static_cast<std::uint32_t>(parts), .digest = digest_of(body)};
  std::vector<FrameContent> frames;
  for (; part.part < part.parts; ++part.part) {
    const auto content =
        std::span(body).subspan(part.part * room, std::min(room, body.size() - part.part * room));
    part.content.assign(content.begin(), content.end());
    frames.push_back({.type = FrameType::kPart, .body = body_of(part)});
  }
  return frames;
}

Result<std::optional<Message>> PartCollector::take(FrameType type,
                                                   std::span<const std::byte> body) {
  Result<Message> message = parse_message(type, body);
  if (!message) return message.refusal();
  if (auto* part = std::get_if<PartMessage>(&message.value())) return take_part(std::move(*part));
  return std::optional(std::move(message).value());
}

Result<std::optional<Message>> PartCollector::take_part(PartMessage part) {
  const Whole whole{part.type, part.digest};
  Unfinished& at = unfinished_[whole];
  if (at.parts == 0) at.parts = part.parts;
  at.touched = ++taken_;
  const auto known = at.pieces.find(part.part);
  if (at.parts != part.parts || (known != at.pieces.end() && known->second != part.content)) {
    forget(whole);
    return contradiction(part);
  }
  if (known == at.pieces.end()) {
    held_bytes_ += part.content.size();
    at.pieces.emplace(part.part, std::move(part.content));
  }
  if (at.pieces.size() == at.parts) return join(whole);
  make_room();
  return std::optional<Message>();
}

Result<std::optional<Message>> PartCollector::join(const Whole& whole) {
  std::vector<std::byte> body;
  for (const auto& [part, content] : unfinished_.at(whole).pieces)
    body.insert(body.end(), content.begin(), content.end());
  forget(whole);
  if (digest_of(body) != whole.second)
    return Refusal{"part", str("memory: the parts of a ", name_of(whole.first), " of ", body.size(),
                               " B do not have its digest")};
  Result<Message> message = parse_message(whole.first, body);
  if (!message) return message.refusal();
  return std::optional(std::move(message).value());
}

void PartCollector::forget(const Whole& whole) {
  const auto node = unfinished_.extract(whole);
  for (const auto& [part, content] : node.mapped().pieces) held_bytes_ -= content.size();
}

void PartCollector::make_room() {
  while (held_bytes_ > kMaxMessageBytes || unfinished_.size() > kMaxMessages) {
    const auto oldest = std::ranges::min_element(
        unfinished_, {}, [](const auto& each) { return each.second.touched; });
    forget(Whole(oldest->first));
  }
}

}  // namespace tributary::memory
