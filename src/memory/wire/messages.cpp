#include "memory/wire/messages.h"

#include <algorithm>
#include <optional>

namespace tributary::memory {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

Refusal malformed(FrameType type, const std::string& found) {
  return {"message", str("memory: message ", name_of(type), ": ", found)};
}

// Bodies of one fixed structure; the others have a pair of functions each.

template <WireType T>
void put_body(ByteWriter& to, const T& fixed) {
  to.put(fixed);
}

void put_body(ByteWriter&, const ByeMessage&) {}

void put_body(ByteWriter& to, const EpochMessage& message) {
  to.put(message.process);
  to.put(static_cast<std::uint16_t>(message.rows.size()));
  to.put(message.epoch);
  to.put(message.digest);
  for (const SegmentRow& row : message.rows) put_row(to, row);
}

void put_body(ByteWriter& to, const AssignMessage& message) {
  to.put(message.step);
  to.put(message.version);
  to.put(static_cast<std::uint64_t>(message.objects.size()));
  for (const AssignedObject& object : message.objects) to.put(object);
}

void put_body(ByteWriter& to, const PublishMessage& message) {
  to.put(message.sequence);
  put_handle(to, message.handle);
}

void put_body(ByteWriter& to, const PlanMessage& message) {
  to.put(message.step);
  to.put(static_cast<std::uint64_t>(message.microbatches.size()));
  for (const PlannedMicrobatch& microbatch : message.microbatches) {
    to.put(microbatch.dp_rank);
    to.put(microbatch.order);
    to.put(static_cast<std::uint64_t>(microbatch.keys.size()));
    for (const Key& key : microbatch.keys) to.put(key);
  }
}

void put_body(ByteWriter& to, const LeaseMessage& message) {
  to.put(message.lease_id);
  to.put(static_cast<std::uint64_t>(message.entries.size()));
  for (const LeaseEntry& entry : message.entries) to.put(entry);
}

void put_body(ByteWriter& to, const AckMessage& message) {
  to.put(std::uint32_t{static_cast<std::uint8_t>(message.type)});
  to.put(static_cast<std::uint32_t>(message.status));
  to.put(message.sequence);
  to.put(message.key);
}

void put_body(ByteWriter& to, const FailMessage& message) {
  to.put(message.process);
  to.put(message.fault);
  const std::string_view text =
      std::string_view(message.text).substr(0, FailMessage::kMaxTextBytes);
  to.put_bytes(std::as_bytes(std::span(text)));
}

void put_body(ByteWriter& to, const JoinMessage& message) {
  to.put(static_cast<std::uint64_t>(message.rows.size()));
  for (const SegmentRow& row : message.rows) put_row(to, row);
}

void put_body(ByteWriter& to, const WorkerMessage& message) {
  to.put(message.link);
  to.put(message.token);
  to.put(static_cast<std::uint64_t>(message.address.size()));
  to.put_bytes(message.address);
}

void put_body(ByteWriter& to, const PartMessage& message) {
  to.put(std::uint32_t{static_cast<std::uint8_t>(message.type)});
  to.put(message.part);
  to.put(message.parts);
  to.put(message.digest);
  to.put(static_cast<std::uint64_t>(message.content.size()));
  to.put_bytes(message.content);
}

/// Reads a count and as many items; none when the body cannot hold them.
template <class T>
std::vector<T> get_list(ByteReader& from) {
  std::vector<T> list;
  const auto count = from.get<std::uint64_t>();
  if (!from.holds(count, sizeof(T))) return list;
  list.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) list.push_back(from.get<T>());
  return list;
}

Result<Message> get_epoch(ByteReader& from) {
  EpochMessage message;
  message.process = from.get<std::uint16_t>();
  const auto rows = from.get<std::uint16_t>();
  message.epoch = from.get<std::uint32_t>();
  message.digest = from.get<Digest>();
  for (std::uint16_t i = 0; i < rows; ++i) {
    Result<SegmentRow> row = get_row(from);
    if (!row) return row.refusal();
    if (row.value().process != message.process || row.value().epoch != message.epoch)
      return malformed(FrameType::kEpoch, "a row is of another process or epoch");
    message.rows.push_back(std::move(row).value());
  }
  return Message(std::move(message));
}

Result<Message> get_assign(ByteReader& from) {
  AssignMessage message;
  message.step = from.get<std::uint64_t>();
  message.version = from.get<std::uint64_t>();
  message.objects = get_list<AssignedObject>(from);
  for (const AssignedObject& object : message.objects)
    if (object.pages == 0 || object.zero != 0 || object.key.zero != 0)
      return malformed(FrameType::kAssign,
                       "an object has no pages, or a field named zero is not 0");
  return Message(std::move(message));
}

Result<Message> get_publish(ByteReader& from) {
  const auto sequence = from.get<std::uint64_t>();
  Result<ObjectHandle> handle = get_handle(from);
  if (!handle) return handle.refusal();
  return Message(PublishMessage{.sequence = sequence, .handle = std::move(handle).value()});
}

Message get_plan(ByteReader& from) {
  PlanMessage message;
  message.step = from.get<std::uint64_t>();
  const auto microbatches = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < microbatches && from.holds(microbatches - i, 16); ++i) {
    PlannedMicrobatch& microbatch = message.microbatches.emplace_back();
    microbatch.dp_rank = from.get<std::uint32_t>();
    microbatch.order = from.get<std::uint32_t>();
    microbatch.keys = get_list<Key>(from);
  }
  return message;
}

Message get_lease(ByteReader& from) {
  LeaseMessage message;
  message.lease_id = from.get<std::uint64_t>();
  message.entries = get_list<LeaseEntry>(from);
  return message;
}

Message get_worker(ByteReader& from) {
  WorkerMessage message;
  message.link = from.get<std::uint64_t>();
  message.token = from.get<decltype(message.token)>();
  message.address = get_list<std::byte>(from);
  return message;
}

Result<Message> get_part(ByteReader& from) {
  PartMessage message;
  const auto type = from.get<std::uint32_t>();
  message.part = from.get<std::uint32_t>();
  message.parts = from.get<std::uint32_t>();
  message.digest = from.get<Digest>();
  const auto bytes = from.get<std::uint64_t>();
  message.type = static_cast<FrameType>(type);
  if (type > UINT8_MAX || !may_have_parts(message.type))
    return malformed(FrameType::kPart, str("a message of type ", type, " has no parts"));
  if (message.parts < 2 || message.parts > kMaxParts || message.part >= message.parts || bytes == 0)
    return malformed(FrameType::kPart, str("part ", message.part, " of ", message.parts, ", with ",
                                           bytes, " B; 2 to ", kMaxParts, " parts"));
  const std::span<const std::byte> content = from.get_bytes(bytes);
  message.content.assign(content.begin(), content.end());
  return Message(std::move(message));
}

Result<Message> get_ack(ByteReader& from) {
  AckMessage message;
  const auto type = from.get<std::uint32_t>();
  const auto status = from.get<std::uint32_t>();
  message.sequence = from.get<std::uint64_t>();
  message.key = from.get<Key>();
  if (type == 0 || type > std::variant_size_v<Message> || status > 8 || message.key.zero != 0)
    return malformed(FrameType::kAck, str("type = ", type, ", status = ", status));
  message.type = static_cast<FrameType>(type);
  message.status = static_cast<Status>(status);
  return Message(message);
}

Result<Message> get_fail(ByteReader& from, std::size_t body_bytes) {
  FailMessage message;
  message.process = from.get<std::uint32_t>();
  message.fault = from.get<std::uint32_t>();
  const std::size_t bytes = body_bytes - std::min<std::size_t>(body_bytes, 8);
  if (bytes > FailMessage::kMaxTextBytes)
    return malformed(FrameType::kFail,
                     str("text = ", bytes, " B, limit ", FailMessage::kMaxTextBytes));
  const std::span<const std::byte> text = from.get_bytes(bytes);
  message.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return Message(std::move(message));
}

Result<Message> get_join(ByteReader& from) {
  JoinMessage message;
  const auto rows = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < rows; ++i) {
    Result<SegmentRow> row = get_row(from);
    if (!row) return row.refusal();
    message.rows.push_back(std::move(row).value());
  }
  return Message(std::move(message));
}

/// Reads a structure whose fields named `zero` all have to be 0.
template <WireType T>
Result<Message> get_fixed(ByteReader& from, FrameType type) {
  const auto fixed = from.get<T>();
  bool is_clean = true;
  if constexpr (requires { fixed.zero; }) is_clean = fixed.zero == 0;
  if constexpr (requires { fixed.key.zero; }) is_clean = fixed.key.zero == 0;
  if constexpr (requires { fixed.server.zero; }) is_clean = fixed.server.zero == 0;
  if (!is_clean) return malformed(type, "a field named zero is not 0");
  return Message(fixed);
}

Result<Message> get_body(ByteReader& from, FrameType type, std::size_t body_bytes) {
  switch (type) {
    case FrameType::kHello:
      return get_fixed<Hello>(from, type);
    case FrameType::kChallenge:
      return get_fixed<Challenge>(from, type);
    case FrameType::kConfirm:
      return get_fixed<Confirm>(from, type);
    case FrameType::kEpoch:
      return get_epoch(from);
    case FrameType::kAssign:
      return get_assign(from);
    case FrameType::kPublish:
      return get_publish(from);
    case FrameType::kRetract:
      return get_fixed<RetractMessage>(from, type);
    case FrameType::kPlan:
      return get_plan(from);
    case FrameType::kGet:
      return get_fixed<GetRequest>(from, type);
    case FrameType::kGetReply:
      return get_fixed<GetReply>(from, type);
    case FrameType::kLease:
      return get_lease(from);
    case FrameType::kUnlease:
      return get_fixed<UnleaseMessage>(from, type);
    case FrameType::kCommit:
      return get_fixed<CommitMessage>(from, type);
    case FrameType::kCredit:
      return get_fixed<Credit>(from, type);
    case FrameType::kHeartbeat:
      return get_fixed<Heartbeat>(from, type);
    case FrameType::kAck:
      return get_ack(from);
    case FrameType::kFail:
      return get_fail(from, body_bytes);
    case FrameType::kBye:
      return Message(ByeMessage{});
    case FrameType::kResolve:
      return get_fixed<ResolveMessage>(from, type);
    case FrameType::kJoin:
      return get_join(from);
    case FrameType::kWorker:
      return get_worker(from);
    case FrameType::kPart:
      return get_part(from);
  }
  return malformed(type, "its type is none");
}

}  // namespace

FrameType type_of(const Message& message) {
  // The alternatives lie in the order of their types, from 1 on.
  return static_cast<FrameType>(message.index() + 1);
}

std::vector<std::byte> body_of(const Message& message) {
  ByteWriter body;
  std::visit([&](const auto& one) { put_body(body, one); }, message);
  return body.take();
}

Result<Message> parse_message(FrameType type, std::span<const std::byte> body) {
  ByteReader from(body);
  Result<Message> message = get_body(from, type, body.size());
  if (!message) return message;
  if (from.failed()) return malformed(type, str("a body of ", body.size(), " B ends too early"));
  if (!from.finished()) return malformed(type, str("a body of ", body.size(), " B is too long"));
  return message;
}

AckMessage ack_of(const Message& message) {
  AckMessage ack{.type = type_of(message), .status = Status::kOk, .sequence = 0, .key = {}};
  std::visit(Overloaded{
                 [&](const EpochMessage& one) {
                   ack.sequence = std::uint64_t{one.process} << 32 | one.epoch;
                 },
                 [&](const AssignMessage& one) { ack.sequence = one.version; },
                 [&](const PublishMessage& one) {
                   ack.sequence = one.sequence;
                   ack.key = one.handle.fields.key;
                 },
                 [&](const RetractMessage& one) {
                   ack.sequence = one.generation;
                   ack.key = one.key;
                 },
                 [&](const PlanMessage& one) { ack.sequence = one.step; },
                 [&](const LeaseMessage& one) { ack.sequence = one.lease_id; },
                 [&](const UnleaseMessage& one) { ack.sequence = one.lease_id; },
                 [&](const CommitMessage& one) { ack.sequence = one.step; },
                 [&](const Credit& one) { ack.sequence = one.sequence; },
                 [&](const Heartbeat& one) { ack.sequence = one.progress; },
                 [&](const FailMessage& one) { ack.sequence = one.process; },
                 [](const auto&) {},
             },
             message);
  return ack;
}

}  // namespace tributary::memory
