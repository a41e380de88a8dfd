#include "memory/transport/faulty.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/file/crc32c.h"

namespace tributary::memory {

Faulty::Faulty(std::unique_ptr<Transport> inner, std::vector<FaultRule> rules, std::uint64_t seed)
    : inner_(std::move(inner)), rules_(std::move(rules)), random_(seed, "faults") {}

/// Draws for every rule, so that a rule more does not change what the others do.
const FaultRule* Faulty::strike(FrameType type) {
  const FaultRule* first = nullptr;
  for (const FaultRule& rule : rules_) {
    const bool strikes = random_.uniform() < rule.probability && (!rule.type || *rule.type == type);
    if (strikes && first == nullptr) first = &rule;
  }
  if (first != nullptr) ++counts_[first->kind];
  return first;
}

std::uint64_t Faulty::count(FaultKind kind) const {
  const auto found = counts_.find(kind);
  return found == counts_.end() ? 0 : found->second;
}

bool Faulty::is_stalled(PeerLink link) const {
  const auto stalled = stalled_.find(link);
  return stalled != stalled_.end() && now_ < stalled->second;
}

Result<PeerLink> Faulty::connect(const SegmentRow& row, TimePoint deadline) {
  const FaultRule* fault = strike(FrameType::kHello);
  if (fault != nullptr && fault->kind == FaultKind::kRefuse)
    return Refusal{"connect", str("memory: connect is refused on purpose: process ", row.process)};
  return inner_->connect(row, deadline);
}

Result<TransferId> Faulty::post_get(PeerLink link, const ObjectHandle& handle,
                                    std::span<std::byte> into, TimePoint deadline) {
  const TransferId id{++last_transfer_};
  const FaultRule* fault = strike(FrameType::kGet);
  const Get get{.link = link,
                .handle = handle,
                .into = into,
                .deadline = deadline,
                .is_corrupted = fault != nullptr && fault->kind == FaultKind::kCorrupt};
  if (fault != nullptr && fault->kind == FaultKind::kStall) stalled_[link] = now_ + fault->delay;
  if (fault != nullptr && fault->kind == FaultKind::kDrop) {
    gets_.emplace(id, get);
    return id;
  }
  const bool is_late = fault != nullptr && fault->kind == FaultKind::kDelay;
  if (is_late || is_stalled(link)) {
    gets_.emplace(id, get);
    delayed_.push_back({.until = is_late ? now_ + fault->delay : stalled_[link],
                        .link = link,
                        .type = FrameType::kGet,
                        .body = {},
                        .transfer = id});
    return id;
  }
  const Result<TransferId> posted = inner_->post_get(link, handle, into, deadline);
  if (!posted) return posted.refusal();
  gets_.emplace(id, get);
  given_out_.emplace(posted.value(), id);
  if (fault != nullptr && fault->kind == FaultKind::kCut) inner_->close(link, CloseMode::kForce);
  return id;
}

/// Posts a GET that was held back.
void Faulty::start(TransferId id) {
  const auto get = gets_.find(id);
  if (get == gets_.end()) return;  // it has expired
  const auto& [link, handle, into, deadline, is_corrupted] = get->second;
  const Result<TransferId> posted = inner_->post_get(link, handle, into, deadline);
  if (posted) {
    given_out_.emplace(posted.value(), id);
    return;
  }
  const bool is_lost = posted.refusal().code == "peer_lost";
  events_.emplace_back(TransferDone{id, is_lost ? Status::kPeerLost : Status::kBackend});
  gets_.erase(get);
}

Status Faulty::post_control(PeerLink link, FrameType type, std::span<const std::byte> body) {
  const FaultRule* fault = strike(type);
  const FaultKind kind =
      fault == nullptr ? FaultKind::kCorrupt : fault->kind;  // touches no message
  Delayed message{.until = now_,
                  .link = link,
                  .type = type,
                  .body = {body.begin(), body.end()},
                  .transfer = {}};
  if (kind == FaultKind::kDrop) return Status::kOk;
  if (kind == FaultKind::kCut) {
    inner_->close(link, CloseMode::kForce);
    return Status::kOk;
  }
  if (kind == FaultKind::kStall) stalled_[link] = now_ + fault->delay;
  if (kind == FaultKind::kDelay || is_stalled(link)) {
    message.until = kind == FaultKind::kDelay ? now_ + fault->delay : stalled_[link];
    delayed_.push_back(std::move(message));
    return Status::kOk;
  }
  if (kind == FaultKind::kReorder && !held_.contains(link)) {
    held_.emplace(link, std::move(message));
    return Status::kOk;
  }
  Status status = inner_->post_control(link, type, body);
  if (kind == FaultKind::kDuplicate && status == Status::kOk)
    status = inner_->post_control(link, type, body);
  if (auto held = held_.extract(link); !held.empty() && status == Status::kOk)
    status = inner_->post_control(link, held.mapped().type, held.mapped().body);
  return status;
}

void Faulty::send_delayed() {
  for (Delayed& each : std::exchange(delayed_, {})) {
    if (now_ < each.until)
      delayed_.push_back(std::move(each));
    else if (each.transfer)
      start(*each.transfer);
    else
      (void)inner_->post_control(each.link, each.type, each.body);
  }
}

/// Ends dropped and delayed GETs; those of the engine are ended by it.
void Faulty::expire() {
  std::vector<TransferId> ended;
  for (const auto& [id, get] : gets_) {
    const bool is_posted = std::ranges::any_of(
        given_out_, [&, own = id](const auto& each) { return each.second == own; });
    if (!is_posted && now_ >= get.deadline) ended.push_back(id);
  }
  for (const TransferId id : ended) {
    gets_.erase(id);
    events_.emplace_back(TransferDone{id, Status::kTimeout});
  }
}

void Faulty::take(Completion event) {
  if (auto* done = std::get_if<TransferDone>(&event)) {
    auto given_out = given_out_.extract(done->transfer);
    auto get = gets_.extract(given_out.mapped());
    done->transfer = given_out.mapped();
    const std::span<std::byte> into = get.mapped().into;
    if (get.mapped().is_corrupted && done->status == Status::kOk) {
      into[random_.below(into.size())] ^= std::byte{1};
      const std::optional<std::uint32_t> checksum = checksum_of(get.mapped().handle.fields);
      if (checksum && crc32c(into) != *checksum) done->status = Status::kCorrupt;
    }
  }
  if (const auto* closed = std::get_if<LinkClosed>(&event)) {
    held_.erase(closed->link);
    stalled_.erase(closed->link);
    std::erase_if(delayed_,
                  [&](const Delayed& each) { return each.link == closed->link && !each.transfer; });
  }
  events_.push_back(std::move(event));
}

std::size_t Faulty::poll(std::span<Completion> out, TimePoint now) {
  now_ = now;
  send_delayed();
  std::array<Completion, 64> events;
  const std::size_t count = inner_->poll(events, now);
  for (Completion& event : std::exchange(silent_, {})) {
    const auto* received = std::get_if<FrameReceived>(&event);
    (is_stalled(received->link) ? silent_ : events_).push_back(std::move(event));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto* received = std::get_if<FrameReceived>(&events[i]);
    if (received != nullptr && is_stalled(received->link))
      silent_.push_back(std::move(events[i]));
    else
      take(std::move(events[i]));
  }
  expire();
  return hand_over(events_, out);
}

void Faulty::close(PeerLink link, CloseMode mode) { inner_->close(link, mode); }

}  // namespace tributary::memory
