#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/exit_code.h"
#include "memory/object/object_table.h"
#include "memory/transport/transport.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

// What the cores of the protocol are told, and what they ask for. They do no input or output, and
// know no clock: the progress thread and the simulator drive the same code. Members are named by
// their process number in the pool.

/// A message came in; `from.epoch` is that of its frame.
struct MessageReceived {
  PeerIdentity from = {};
  Message message = {};
};
/// Time passed: deadlines, heartbeats, resending.
struct Tick {};
/// The process at the other end of a link has ended, or broke a rule.
struct MemberLost {
  std::uint16_t process = 0;
  std::uint32_t incarnation = 0;
};
/// The network broke a link: its member opens it again, or is silent for too long.
struct LinkBroken {
  std::uint16_t process = 0;
  std::uint32_t incarnation = 0;
};
/// The link to a process is a new one, and what was on its way is lost. A member has one link: to
/// the controller.
struct LinkRenewed {
  std::uint16_t process = 0;
};
/// To an owner: the encoder has written the object of an Encode, or could not, or does not any more
/// because of a CancelEncode.
struct Encoded {
  SlotId slot{};
  ObjectDescription description = {};
};
struct EncodeFailed {
  SlotId slot{};
  std::string reason = {};
};
struct EncodeCancelled {
  SlotId slot{};
};
/// To an owner: the bytes of a SendObject are on their way, or never will be.
struct GrantEnded {
  std::uint64_t grant = 0;
};
/// To a reader: a StartGet ended.
struct GetDone {
  std::uint64_t request = 0;
  Status status{};
};
/// To a reader: the optimizer step is done; its objects are not needed any more, whether they came
/// or not.
struct StepFinished {
  std::uint64_t step = 0;
};
/// To an owner: what it makes for a step depends on an object of another owner. Ends with a
/// StartGet that succeeds, or with the step; again it does nothing.
struct ObjectAsked {
  Key key = {};
  std::uint64_t step = 0;
};
/// To an owner: it takes no more work, and has left when all that it was assigned is used.
struct LeaveAsked {};
/// An object of a step, and who may make it.
struct PlannedObject {
  Key key = {};
  std::uint32_t pages = 0;                   // predicted from the sample's header
  std::uint32_t bundle = 0;                  // those of one number go to one producer that has room
                                             // for them; 0: they go anywhere
  std::optional<std::uint16_t> lender = {};  // the only one that can make it; it makes nothing else
};
/// To the controller: what a step is made of, in the order of steps.
struct StepPlanned {
  PlanMessage plan = {};
  std::vector<PlannedObject> objects = {};
};
/// To the controller: the record of a LogPlan is on disk.
struct PlanLogged {
  std::uint64_t step = 0;
};
/// To the controller: a process asks to join, by a JOIN or otherwise; `rows` bind its memory.
struct MemberJoined {
  PeerIdentity identity = {};
  std::vector<SegmentRow> rows = {};
};

using Event = std::variant<MessageReceived, Tick, MemberLost, LinkBroken, LinkRenewed, Encoded,
                           EncodeFailed, EncodeCancelled, GrantEnded, GetDone, StepFinished,
                           ObjectAsked, LeaveAsked, StepPlanned, PlanLogged, MemberJoined>;

struct Send {
  std::uint16_t to = 0;
  Message message = {};
};
/// An owner asks its encoder to write an object into pages; ends once: with Encoded, EncodeFailed
/// or EncodeCancelled.
struct Encode {
  SlotId slot{};
  Key key = {};
  std::vector<PageRun> runs = {};
};
/// An older step needs the pages of an Encode: its encoder ends it as soon as it writes nothing
/// into them any more. Does nothing where the Encode has ended.
struct CancelEncode {
  SlotId slot{};
};
/// An owner answers a GET; `length` bytes from `offset` on of the object, none when refused. The
/// runs stay in place until GrantEnded.
struct SendObject {
  std::uint16_t to = 0;
  std::uint32_t epoch = 0;  // of the reader, with which its lease ends
  GetReply reply;
  std::vector<PageRun> runs = {};
  std::uint64_t offset = 0, length = 0, grant = 0;
};
/// A reader, or an owner that has asked, wants an object; ends with GetDone, at once where it has
/// no bytes.
struct StartGet {
  std::uint64_t request = 0;
  ObjectHandle handle = {};
};
/// A reader has all objects of a microbatch; comes in the order of steps and microbatches.
struct DeliverMicrobatch {
  std::uint64_t step = 0;
  std::uint32_t order = 0;
};
/// The controller wants a plan on disk before anybody sees it; ends with PlanLogged.
struct LogPlan {
  PlanMessage plan = {};
};
/// The step is committed: its samples are used once and for all.
struct CommitStep {
  std::uint64_t step = 0;
};
/// The peer broke a rule: its connection is closed, and the refusal counted and logged.
struct ClosePeer {
  std::uint16_t process = 0;
  std::string reason = {};
};
/// This process ends.
struct StopProcess {
  ExitCode code{};
  std::string reason = {};
};

using Action = std::variant<Send, Encode, CancelEncode, SendObject, StartGet, DeliverMicrobatch,
                            LogPlan, CommitStep, ClosePeer, StopProcess>;

}  // namespace tributary::memory
