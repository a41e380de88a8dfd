#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

/// What can happen to a message, a GET or a link.
enum class FaultKind {
  kDrop,       // it never arrives; a GET then ends at its deadline
  kDuplicate,  // a control message arrives twice
  kReorder,    // a control message arrives after the next one of its link
  kDelay,      // it leaves `delay` later
  kCut,        // the link breaks in the middle of a GET, or in place of a message
  kCorrupt,    // one byte of a GET's bytes is changed, which its checksum shows
  kStall,      // the link is silent for `delay`, and goes on as if nothing had been
  kRefuse,     // connect() is refused
};

/// Where a fault strikes. GETs count as FrameType::kGet, connect() as kHello.
struct FaultRule {
  FaultKind kind{};
  std::optional<FrameType> type = {};  // empty: every message
  double probability = 1;
  TimePoint delay = {};
};

/// An engine that fails as it is told to: the same seed and calls give the same faults. Everything
/// else is done by the engine that it decorates.
class Faulty final : public Transport {
 public:
  Faulty(std::unique_ptr<Transport> inner, std::vector<FaultRule> rules, std::uint64_t seed);

  [[nodiscard]] const TransportTraits& traits() const override { return inner_->traits(); }
  Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) override;
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline) override;
  [[nodiscard]] Status post_control(PeerLink link, FrameType type,
                                    std::span<const std::byte> body) override;
  std::size_t poll(std::span<Completion> out, TimePoint now) override;
  /// Must be polled: delays end without a descriptor that tells.
  [[nodiscard]] int wake_fd() const override { return -1; }
  void close(PeerLink link, CloseMode mode) override;

  /// How often each kind has struck.
  [[nodiscard]] std::uint64_t count(FaultKind kind) const;

 private:
  struct Get {
    PeerLink link{};
    ObjectHandle handle;
    std::span<std::byte> into;
    TimePoint deadline = {};
    bool is_corrupted = false;
  };
  struct Delayed {
    TimePoint until = {};
    PeerLink link{};
    FrameType type{};
    std::vector<std::byte> body;         // of a control message
    std::optional<TransferId> transfer;  // of a GET
  };

  [[nodiscard]] const FaultRule* strike(FrameType type);
  void start(TransferId id);
  void send_delayed();
  void expire();
  void take(Completion event);
  [[nodiscard]] bool is_stalled(PeerLink link) const;

  std::unique_ptr<Transport> inner_;
  std::vector<FaultRule> rules_;
  RandomStream random_;
  std::map<FaultKind, std::uint64_t> counts_;
  std::uint64_t last_transfer_ = 0;
  std::map<TransferId, Get> gets_;              // that have not ended, by the number given out
  std::map<TransferId, TransferId> given_out_;  // number of the engine -> number given out
  std::deque<Delayed> delayed_;
  std::map<PeerLink, Delayed> held_;        // to follow the next message
  std::map<PeerLink, TimePoint> stalled_;   // until then
  std::deque<Completion> events_, silent_;  // silent_: of stalled links
  TimePoint now_ = {};
};

}  // namespace tributary::memory
