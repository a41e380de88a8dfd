#include "memory/transport/posted_gets.h"

#include <utility>
#include <variant>

#include "core/file/crc32c.h"
#include "core/text.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

void PostedGets::add(TransferId transfer, const PostedGet& get) { gets_.emplace(transfer, get); }

void PostedGets::finish(Gets::iterator get, Status status) {
  if (get->second) done_->push_back({get->first, status});
  gets_.erase(get);
}

std::optional<Refusal> PostedGets::take_reply(const Frame& frame, FrameSocket& from) {
  const Result<Message> message = parse_message(FrameType::kGetReply, frame.body);
  if (!message) return message.refusal();
  const GetReply reply = std::get<GetReply>(message.value());
  const auto get = gets_.find(TransferId{reply.request});
  if (get == gets_.end())
    return Refusal{"reply",
                   str("memory: peer answers a GET that nobody asked: request = ", reply.request)};
  const auto status = static_cast<Status>(reply.status);
  if (status != Status::kOk && status <= Status::kCorrupt && reply.payload_bytes == 0) {
    finish(get, status);
    return std::nullopt;
  }
  if (status != Status::kOk || reply.payload_bytes == 0 ||
      (get->second && reply.payload_bytes != get->second->into.size()))
    return Refusal{"reply", str("memory: peer answers a GET with another length: payload_bytes = ",
                                reply.payload_bytes, ", status = ", reply.status)};
  receiving_ = get->first;
  announced_crc_ = reply.crc32c;
  if (get->second)
    from.expect_payload(get->second->into, get->second->crc32c.has_value());
  else
    from.skip_payload(reply.payload_bytes);
  return std::nullopt;
}

std::optional<Refusal> PostedGets::take_payload_end(const FrameSocket& from) {
  const auto get = gets_.find(*std::exchange(receiving_, std::nullopt));
  const std::optional<PostedGet>& posted = get->second;
  const std::uint32_t crc = from.payload_checksum();
  if (!posted || !posted->crc32c || (crc == *posted->crc32c && crc == announced_crc_)) {
    finish(get, Status::kOk);
    return std::nullopt;
  }
  const Refusal refusal{
      "crc", str("memory: bytes of a GET have another checksum: crc32c = ", crc_text(crc),
                 ", sender ", crc_text(announced_crc_), ", handle ", crc_text(*posted->crc32c))};
  finish(get, Status::kCorrupt);
  return refusal;
}

void PostedGets::expire(TimePoint now, FrameSocket& from) {
  for (auto get = gets_.begin(); get != gets_.end(); ++get) {
    if (!get->second || now < get->second->deadline) continue;
    if (get->first == receiving_) from.abandon_payload();
    get->second.reset();
    done_->push_back({get->first, Status::kTimeout});
  }
}

void PostedGets::end_all(Status status) {
  while (!gets_.empty()) finish(gets_.begin(), status);
  receiving_.reset();
}

}  // namespace tributary::memory
