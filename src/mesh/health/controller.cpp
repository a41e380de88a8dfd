#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/log.h"
#include "mesh/health/link.h"
#include "mesh/launch/store.h"

namespace tributary::mesh {
namespace {

constexpr std::size_t kMaxStrangers = 64;  // connections that have not said hello; others queue
constexpr double kHelloSeconds = 5;
constexpr std::size_t kMaxHello = 4 << 10;  // bytes

struct Stranger {
  LineSocket socket;
  double since = 0;
  bool is_done = false;  // has become a member, or is refused
};

struct WatchedRank {
  std::optional<LineSocket> socket = {};  // null: has not joined
  std::string host = "unknown host";
  Beat last = {};
  double heard_at = 0;
  bool is_gone = false;  // said good-bye, or its loss is on record
};

std::string random_key() {
  std::random_device device;
  std::ostringstream key;
  for (int i = 0; i < 4; ++i) key << std::hex << device();
  return std::move(key).str();
}

class Controller final : public Link {
 public:
  Controller(const Launch& launch, c10d::Store& store, const HealthOptions& options)
      : options_(options),
        listener_(listen_for_ranks(launch.local_world == launch.world)),
        key_(random_key()),
        members_(static_cast<std::size_t>(launch.world)),
        began_at_(now_seconds()) {
    members_.front().is_gone = true;  // this rank needs no connection to itself
    store.set(kControllerKey, str(listener_.port, " ", key_));
  }

  void add_descriptors(std::vector<pollfd>& waits) const override {
    if (strangers_.size() < kMaxStrangers)
      waits.push_back({.fd = listener_.socket.get(), .events = POLLIN, .revents = 0});
    for (const Stranger& each : strangers_) add(each.socket, waits);
    for (const WatchedRank& each : members_)
      if (each.socket) add(*each.socket, waits);
  }

  void exchange(double now) override {
    welcome(now);
    for (Stranger& each : strangers_) hear(each, now);
    std::erase_if(strangers_,
                  [](const Stranger& each) { return each.is_done || each.socket.is_closed(); });
    for (std::size_t rank = 1; rank < members_.size(); ++rank) hear(static_cast<int>(rank), now);
  }

  /// Adds the progress of all ranks: members hear of each other only from this rank.
  void send_beat(const Beat& beat) override {
    Beat all = beat;
    all.progress += progress_of_others();
    send_all(line::beat(all));
  }

  std::uint64_t progress_of_others() const override {
    return std::accumulate(
        members_.begin(), members_.end(), std::uint64_t{0},
        [](std::uint64_t sum, const WatchedRank& each) { return sum + each.last.progress; });
  }

  void report(const Failure& failure) override { failures_.push_back(failure); }

  std::optional<Failure> root_cause(double now) override {
    if (!decided_) find_lost(now);
    if (decided_ || failures_.empty() || now - failures_.front().at_seconds < kCollectSeconds)
      return decided_;
    decided_ = choose_root_cause(failures_);
    const bool may_be_echo =
        !decided_->is_seen && cause_order(static_cast<int>(decided_->code)) >=
                                  cause_order(static_cast<int>(ExitCode::kHang));
    if (may_be_echo) decided_->text += list_silent(now);
    send_all(line::failure("root", *decided_));
    return decided_;
  }

  void take_leave() override { has_left_ = true; }

  bool may_go() const override {
    return has_left_ && std::all_of(members_.begin(), members_.end(),
                                    [](const WatchedRank& each) { return each.is_gone; });
  }

  bool hang_up() override {
    bool all_closed = true;
    for (WatchedRank& each : members_) {
      if (each.is_gone || !each.socket || each.socket->is_closed()) continue;
      each.socket->finish_sending();
      all_closed = all_closed && each.socket->is_closed();
    }
    return all_closed;
  }

 private:
  static void add(const LineSocket& socket, std::vector<pollfd>& waits) {
    if (socket.is_closed()) return;
    const short events = socket.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({.fd = socket.descriptor(), .events = events, .revents = 0});
  }

  void send_all(const std::string& text) {
    for (WatchedRank& each : members_)
      if (each.socket) each.socket->send(text);
  }

  /// Accepts connections. One that finds no room stays in the system's queue: it may be a rank.
  void welcome(double now) {
    while (strangers_.size() < kMaxStrangers) {
      Descriptor socket = accept_next(listener_);
      if (!socket) return;
      strangers_.push_back({.socket = LineSocket(std::move(socket)), .since = now});
    }
  }

  /// Makes a connection that of a rank by its first line, or closes it.
  void hear(Stranger& stranger, double now) {
    const std::vector<std::string> lines = stranger.socket.exchange(kMaxHello);
    if (lines.empty()) {
      if (now - stranger.since > kHelloSeconds) refuse(stranger, "said nothing");
      return;
    }
    const std::optional<line::Hello> hello = line::parse_hello(lines.front());
    if (!hello || hello->key != key_) return refuse(stranger, "is not of this job");
    if (hello->rank < 1 || static_cast<std::size_t>(hello->rank) >= members_.size() ||
        members_[static_cast<std::size_t>(hello->rank)].socket)
      return refuse(stranger, str("says it is rank ", hello->rank));
    WatchedRank& member = members_[static_cast<std::size_t>(hello->rank)];
    member.socket.emplace(std::move(stranger.socket));
    member.host = hello->host;
    member.heard_at = now;
    member.socket->send(line::hello(key_, 0));
    stranger.is_done = true;
    for (std::size_t i = 1; i < lines.size(); ++i) take(hello->rank, lines[i], now);
  }

  void refuse(Stranger& stranger, const std::string& found) {
    stranger.is_done = true;
    constexpr int kMaxNotes = 5;
    if (++refused_ <= kMaxNotes && log_takes_a_line(0))
      log_warning(str("mesh: connection to the heartbeats closed; found: a peer that ", found));
  }

  void hear(int rank, double now) {
    WatchedRank& member = members_[static_cast<std::size_t>(rank)];
    if (!member.socket) return;
    for (const std::string& text : member.socket->exchange()) take(rank, text, now);
  }

  void take(int rank, const std::string& text, double now) {
    WatchedRank& member = members_[static_cast<std::size_t>(rank)];
    member.heard_at = now;
    if (const auto beat = line::parse_beat(text)) {
      member.last = *beat;
    } else if (auto failure = line::parse_failure("fail", text)) {
      failure->rank = rank;
      failure->at_seconds = now;
      failures_.push_back(*failure);
    } else if (text == line::kBye) {
      member.is_gone = true;
    }
  }

  void find_lost(double now) {
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      WatchedRank& member = members_[rank];
      if (member.is_gone) continue;
      std::string why;
      if (!member.socket) {
        // All ranks met at the store a moment before this one began to listen.
        if (now - began_at_ > options_.lost_after_seconds)
          why = str("met the others and did not join the watch within ",
                    options_.lost_after_seconds, " s (parallel.lost_after_seconds)");
      } else if (member.socket->is_closed()) {
        why = "its connection ended: " + member.socket->closed_because();
      } else if (now - member.heard_at > options_.lost_after_seconds) {
        why = str("none for ", options_.lost_after_seconds, " s (parallel.lost_after_seconds)");
      }
      if (why.empty()) continue;
      member.is_gone = true;
      failures_.push_back({.rank = static_cast<int>(rank),
                           .code = ExitCode::kPeerLost,
                           .text = describe(rank, why, now),
                           .is_seen = true,
                           .at_seconds = now});
    }
  }

  std::string describe(std::size_t rank, const std::string& why, double now) const {
    const WatchedRank& member = members_[rank];
    const double silent = now - (member.socket ? member.heard_at : began_at_);
    return describe_lost(static_cast<int>(rank), member.host, silent, member.last, why);
  }

  /// Lists the ranks that missed two heartbeats: the others likely wait for them.
  std::string list_silent(double now) const {
    std::string list;
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      const WatchedRank& member = members_[rank];
      const double silent = now - member.heard_at;
      if (!member.is_gone && member.socket && silent > 2 * options_.heartbeat_seconds)
        list += str(list.empty() ? "; silent: " : ", ", "rank ", rank, " on ", member.host, " for ",
                    in_seconds(silent), " in section ", name_of(member.last.section));
    }
    return list;
  }

  const HealthOptions options_;
  const Listener listener_;
  const std::string key_;
  std::vector<Stranger> strangers_;
  std::vector<WatchedRank> members_;  // by rank
  std::vector<Failure> failures_;
  std::optional<Failure> decided_;
  double began_at_;
  bool has_left_ = false;
  int refused_ = 0;
};

}  // namespace

std::unique_ptr<Link> make_controller(const Launch& launch, c10d::Store& store,
                                      const HealthOptions& options) {
  return std::make_unique<Controller>(launch, store, options);
}

}  // namespace tributary::mesh
