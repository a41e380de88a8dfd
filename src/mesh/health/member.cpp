#include <sstream>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/text.h"
#include "mesh/health/link.h"
#include "mesh/launch/store.h"

namespace tributary::mesh {
namespace {

class Member final : public Link {
 public:
  Member(LineSocket socket, int rank, const std::string& key, const HealthOptions& options)
      : options_(options), rank_(rank), socket_(std::move(socket)), heard_at_(now_seconds()) {
    socket_.send(line::hello(key, rank_));
  }

  void add_descriptors(std::vector<pollfd>& waits) const override {
    if (socket_.is_closed()) return;
    const short events = socket_.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({.fd = socket_.descriptor(), .events = events, .revents = 0});
  }

  void exchange(double now) override {
    for (const std::string& text : socket_.exchange()) {
      heard_at_ = now;
      if (const auto beat = line::parse_beat(text)) {
        controller_ = *beat;
      } else if (const auto hello = line::parse_hello(text)) {
        host_ = hello->host;
      } else if (auto failure = line::parse_failure("root", text)) {
        decided_ = std::move(failure);
      }
    }
  }

  void send_beat(const Beat& beat) override { socket_.send(line::beat(beat)); }

  /// Counts this rank too, as of two heartbeats ago; that part stops when this rank does.
  std::uint64_t progress_of_others() const override { return controller_.progress; }

  void report(const Failure& failure) override { socket_.send(line::failure("fail", failure)); }

  std::optional<Failure> root_cause(double now) override {
    if (decided_ || has_left_) return decided_;
    std::string why;
    if (socket_.is_closed()) {
      why = "its connection ended: " + socket_.closed_because();
    } else if (now - heard_at_ > options_.lost_after_seconds) {
      why = str("none for ", options_.lost_after_seconds, " s (parallel.lost_after_seconds)");
    }
    if (!why.empty())
      decided_ = Failure{.rank = 0,
                         .code = ExitCode::kPeerLost,
                         .text = describe_lost(0, host_, now - heard_at_, controller_,
                                               why + "; it is the controller"),
                         .is_seen = true,
                         .at_seconds = now};
    return decided_;
  }

  void take_leave() override {
    has_left_ = true;
    socket_.send(line::kBye);
  }

  bool may_go() const override { return has_left_ && !socket_.has_unsent(); }

  bool hang_up() override {
    socket_.finish_sending();
    return true;
  }

 private:
  const HealthOptions options_;
  const int rank_;
  LineSocket socket_;
  double heard_at_;
  std::string host_ = "unknown host";
  Beat controller_;
  std::optional<Failure> decided_;
  bool has_left_ = false;
};

/// Nobody to tell: a failure is its own cause.
class Lonely final : public Link {
 public:
  void add_descriptors(std::vector<pollfd>&) const override {}
  void exchange(double) override {}
  void send_beat(const Beat&) override {}
  std::uint64_t progress_of_others() const override { return 0; }
  void report(const Failure& failure) override {
    if (!decided_) decided_ = failure;
  }
  std::optional<Failure> root_cause(double) override { return decided_; }
  void take_leave() override {}
  bool may_go() const override { return true; }
  bool hang_up() override { return true; }

 private:
  std::optional<Failure> decided_;
};

}  // namespace

std::unique_ptr<Link> make_member(const Launch& launch, c10d::Store& store,
                                  const HealthOptions& options) {
  int port = 0;
  std::string key;
  std::istringstream place(
      await_key(store, kControllerKey, /*writer=*/0, options.lost_after_seconds));
  place >> port >> key;
  const std::string host = launch.local_world == launch.world ? "127.0.0.1" : launch.master_address;
  LineSocket socket(connect_to(host, port, options.bootstrap_seconds));
  return std::make_unique<Member>(std::move(socket), launch.rank, key, options);
}

std::unique_ptr<Link> make_lonely() { return std::make_unique<Lonely>(); }

}  // namespace tributary::mesh
