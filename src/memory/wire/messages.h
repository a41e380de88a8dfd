#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/result.h"
#include "memory/address/page_table.h"
#include "memory/status.h"
#include "memory/wire/frame.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

// Every message is cumulative or keyed: losing, repeating or reordering one changes nothing in the
// end.

/// Controller to all: the process has a new epoch. The higher epoch wins; `digest` is that of the
/// whole page table afterwards.
struct EpochMessage {
  std::uint16_t process = 0;
  std::uint32_t epoch = 0;
  std::vector<SegmentRow> rows = {};  // of this process; none when it is gone
  Digest digest{};

  friend bool operator==(const EpochMessage&, const EpochMessage&) = default;
};

/// An object that a producer is to make.
struct AssignedObject {
  Key key = {};
  std::uint32_t pages = 0;  // predicted from the sample's header
  std::uint32_t zero = 0;

  friend bool operator==(const AssignedObject&, const AssignedObject&) = default;
};
static_assert(WireType<AssignedObject> && sizeof(AssignedObject) == 32);

/// Controller to producer: everything that the producer makes for one step. A higher version
/// replaces the whole list.
struct AssignMessage {
  std::uint64_t step = 0, version = 0;
  std::vector<AssignedObject> objects = {};

  friend bool operator==(const AssignMessage&, const AssignMessage&) = default;
};

/// Producer to controller: an object is sealed; resent until acknowledged. Controller to consumer:
/// where an object of its plan is. Of messages from one sender about one key, the one of the
/// highest sequence counts (a producer's is the generation: generations of two owners do not
/// compare).
struct PublishMessage {
  std::uint64_t sequence = 0;
  ObjectHandle handle = {};

  friend bool operator==(const PublishMessage&, const PublishMessage&) = default;
};

/// Producer to controller: the object is gone and must be made again. Controller to consumer: no
/// producer has room for the object, so that it does not come unless it is published after all;
/// `generation` only numbers the messages.
struct RetractMessage {
  Key key = {};
  std::uint64_t generation = 0;

  friend bool operator==(const RetractMessage&, const RetractMessage&) = default;
};

/// To the controller. A consumer asks for a later handle than that of PublishMessage::sequence,
/// which was stale; a producer for the handle of an object of another one, now or once it is there.
struct ResolveMessage {
  Key key = {};
  std::uint64_t sequence = 0;

  friend bool operator==(const ResolveMessage&, const ResolveMessage&) = default;
};

struct PlannedMicrobatch {
  std::uint32_t dp_rank = 0, order = 0;
  std::vector<Key> keys = {};

  friend bool operator==(const PlannedMicrobatch&, const PlannedMicrobatch&) = default;
};

/// What each microbatch of a step is made of. Names no places, so that its bytes do not depend on
/// who encoded what. Controller to consumer: the consumer's own microbatches.
struct PlanMessage {
  std::uint64_t step = 0;
  std::vector<PlannedMicrobatch> microbatches = {};

  friend bool operator==(const PlanMessage&, const PlanMessage&) = default;
};

/// Mapped reader to owner, before it touches memory. A set per (reader, epoch, lease id).
struct LeaseMessage {
  std::uint64_t lease_id = 0;
  std::vector<LeaseEntry> entries = {};

  friend bool operator==(const LeaseMessage&, const LeaseMessage&) = default;
};
struct UnleaseMessage {
  std::uint64_t lease_id = 0;

  friend bool operator==(const UnleaseMessage&, const UnleaseMessage&) = default;
};

/// Controller to owners: everything planned for this step and earlier ones is free.
struct CommitMessage {
  std::uint64_t step = 0;

  friend bool operator==(const CommitMessage&, const CommitMessage&) = default;
};

/// Receiver to sender: a message of `type` arrived. ack_of() says what `sequence` and `key` are.
struct AckMessage {
  FrameType type{};
  Status status{};  // of a LEASE: whether it was given
  std::uint64_t sequence = 0;
  Key key = {};

  friend bool operator==(const AckMessage&, const AckMessage&) = default;
};

/// Any to controller to all: the member of this process number failed. `fault` is an exit code of
/// core/exit_code.h.
struct FailMessage {
  static constexpr std::size_t kMaxTextBytes = 512;
  std::uint32_t process = 0, fault = 0;
  std::string text = {};

  friend bool operator==(const FailMessage&, const FailMessage&) = default;
};

/// Closes cleanly; the leases of the sender are dropped.
struct ByeMessage {
  friend bool operator==(const ByeMessage&, const ByeMessage&) = default;
};

/// Producer to controller, once, as the first message of its connection: it wants to join, and
/// `rows` bind its memory. It learns its epoch from an EPOCH; a connection that is closed instead
/// says no.
struct JoinMessage {
  std::vector<SegmentRow> rows = {};

  friend bool operator==(const JoinMessage&, const JoinMessage&) = default;
};

/// Between a reader and an owner that have proved who they are: where the sender takes messages of
/// another network, and what such a message must carry so that it is taken for one of this link.
struct WorkerMessage {
  std::uint64_t link = 0;               // the sender's number of it
  std::array<std::byte, 32> token{};    // known to the two alone
  std::vector<std::byte> address = {};  // of the sender's worker

  friend bool operator==(const WorkerMessage&, const WorkerMessage&) = default;
};

/// Controller to all: a piece of the body of a PLAN or ASSIGN that is larger than a frame's. Pieces
/// of one digest belong together whenever they were sent; wire/parts.h cuts and joins them.
struct PartMessage {
  FrameType type{};                     // of the whole
  std::uint32_t part = 0, parts = 0;    // which one, of how many
  Digest digest{};                      // of the whole body
  std::vector<std::byte> content = {};  // not empty

  friend bool operator==(const PartMessage&, const PartMessage&) = default;
};
inline constexpr std::uint32_t kMaxParts = 1024;  // of a message
/// Whether messages of this type grow with the step that they are about.
[[nodiscard]] constexpr bool may_have_parts(FrameType type) {
  return type == FrameType::kPlan || type == FrameType::kAssign;
}

using Message =
    std::variant<Hello, Challenge, Confirm, EpochMessage, AssignMessage, PublishMessage,
                 RetractMessage, PlanMessage, GetRequest, GetReply, LeaseMessage, UnleaseMessage,
                 CommitMessage, Credit, Heartbeat, AckMessage, FailMessage, ByeMessage,
                 ResolveMessage, JoinMessage, WorkerMessage, PartMessage>;

[[nodiscard]] FrameType type_of(const Message& message);
[[nodiscard]] std::vector<std::byte> body_of(const Message& message);
/// Parses and checks a body; allocates no more than its bytes justify.
///
/// errors: Refusal with the field, its value and its limit; the connection must then be closed
[[nodiscard]] Result<Message> parse_message(FrameType type, std::span<const std::byte> body);

/// The acknowledgement of a message. `sequence` is its step, version, sequence, generation, lease
/// id, process or progress, of an EPOCH the process << 32 | epoch; `key` is that of PUBLISH and
/// RETRACT.
[[nodiscard]] AckMessage ack_of(const Message& message);

}  // namespace tributary::memory
