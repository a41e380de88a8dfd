#include "app/launch/run_ranks.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "app/launch/command_words.h"
#include "app/launch/find_cause.h"
#include "app/launch/rank_process.h"
#include "app/terminal/show_error.h"
#include "core/error.h"
#include "core/launch_variables.h"
#include "core/log.h"
#include "core/stopwatch.h"

namespace tributary::app {
namespace {

constexpr double kRootCauseSeconds = 0.2;  // that the others have to end by themselves
constexpr double kTerminateSeconds = 5;    // from SIGTERM to SIGKILL after a failure
constexpr double kGraceSeconds = 30;       // from the end of a rank after a signal to SIGKILL
constexpr double kHoldSeconds = 2;         // how long an error of rank 0 is held back
constexpr std::size_t kMaxShownLines = 40;

[[noreturn]] void raise_system(const std::string& call) {
  TRIB_RAISE(Fault::kResource, .what = "app: launcher cannot work", .where = call,
             .found = std::strerror(errno));
}

/// The signals of the launcher, as a descriptor to wait for. Those that came are gone with it.
class Signals {
 public:
  Signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&all, signal);
    sigprocmask(SIG_BLOCK, &all, &before_);
    // When the reader of its output has gone, the launcher goes on, as the ranks do.
    (void)std::signal(SIGPIPE, SIG_IGN);
    descriptor_ = Descriptor(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_) raise_system("signalfd");
  }
  ~Signals() {
    while (take() != 0) continue;
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// The next signal that came; 0 where none did.
  [[nodiscard]] int take() const {
    signalfd_siginfo info = {};
    return read(descriptor_.get(), &info, sizeof info) == sizeof info
               ? static_cast<int>(info.ssi_signo)
               : 0;
  }

 private:
  sigset_t before_ = {};
  Descriptor descriptor_;
};

/// A listening socket that rank 0 inherits, so that no other process can take its port before.
struct StoreSocket {
  Descriptor socket;
  int port = 0;
};

StoreSocket listen_for_store() {
  StoreSocket store{.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!store.socket || bind(store.socket.get(), generic, size) != 0 ||
      listen(store.socket.get(), SOMAXCONN) != 0 ||
      getsockname(store.socket.get(), generic, &size) != 0)
    raise_system("socket of the store");
  store.port = ntohs(address.sin_port);
  return store;
}

/// Whether rank 0 of an attempt prints what it says.
enum class Output { kPrinted, kKept };

/// One attempt of the job: runs all ranks until all have ended.
class Attempt {
 public:
  Attempt(const LaunchOptions& options, std::int64_t number, const Signals& signals,
          EncoderProcesses& encoders, Output output)
      : signals_(signals), encoders_(encoders) {
    const StoreSocket store = listen_for_store();
    for (int rank = 0; rank < options.ranks; ++rank) {
      RankCommand command = describe(options, rank, number, store);
      command.prints = rank == 0 && output == Output::kPrinted;
      ranks_.emplace_back(command);
      ends_.push_back({.rank = rank});
    }
  }

  void run() {
    while (!all_ended()) {
      wait();
      if (const int signal = signals_.take()) forward(signal);
      for (std::size_t i = 0; i < ranks_.size(); ++i) look_at(i);
      encoders_.look();
      stop_the_rest();
      pass_what_waited();
    }
    if (!has_failed()) ranks_.front().pass_held_lines();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ends_[i].lines = ranks_[i].last_lines();
      ends_[i].held = ranks_[i].held_lines();
    }
  }

  [[nodiscard]] bool has_failed() const {
    return std::any_of(ends_.begin(), ends_.end(),
                       [](const RankEnd& end) { return end.exit_code != 0; });
  }
  [[nodiscard]] bool was_signalled() const { return forwarded_at_ >= 0; }
  [[nodiscard]] const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  [[nodiscard]] RankCommand describe(const LaunchOptions& options, int rank, std::int64_t number,
                                     const StoreSocket& store) const {
    RankCommand command = own_command(rank, options.words);
    if (!options.are_ranks) return command;
    command.variables = {{kRankVariable, str(rank)},
                         {kWorldVariable, str(options.ranks)},
                         {kAttemptVariable, str(number)},
                         {kStorePortVariable, str(store.port)},
                         {kCommandVariable, options.command}};
    if (rank == 0) {
      command.descriptors.push_back(store.socket.get());
      command.variables.emplace_back(kStoreDescriptorVariable, str(store.socket.get()));
    }
    add_encoders(options.encoders, command);
    share_cores(command, options.ranks);
    return command;
  }

  /// Says how many encoders are beside a rank, and lets rank 0 ask for others.
  void add_encoders(const EncoderCounts& counts, RankCommand& command) const {
    for (const std::string& key : counts.keys(encoders_.wanted())) command.words.push_back(key);
    if (!counts.may_change() || command.rank != 0) return;
    command.descriptors.push_back(encoders_.request_descriptor());
    command.variables.emplace_back(kEncodersDescriptorVariable,
                                   str(encoders_.request_descriptor()));
  }

  [[nodiscard]] bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const RankProcess& each) { return each.exit_code().has_value(); });
  }

  void wait() {
    std::vector<pollfd> waits{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const RankProcess& each : ranks_) each.add_waits(waits);
    encoders_.add_waits(waits);
    const bool is_ending = failed_at_ >= 0 || was_signalled();
    poll(waits.data(), waits.size(), is_ending ? 20 : 1000);
  }

  void forward(int signal) {
    if (!was_signalled()) forwarded_at_ = clock_.seconds();
    for (const RankProcess& each : ranks_) each.send_signal(signal);
  }

  void look_at(std::size_t i) {
    RankProcess& rank = ranks_[i];
    if (!rank.look()) return;
    RankEnd& end = ends_[i];
    end.exit_code = *rank.exit_code();
    end.at_seconds = clock_.seconds();
    end.was_stopped = terminated_at_ >= 0;
    if (end.exit_code != 0 && failed_at_ < 0) failed_at_ = end.at_seconds;
  }

  /// Sends the next signal that is due, once a rank has failed or the launcher got a signal.
  void stop_the_rest() {
    const double now = clock_.seconds();
    const auto kill_all = [this] {
      for (const RankProcess& each : ranks_) each.send_signal(SIGKILL);
    };
    if (was_signalled()) {
      // A second signal would make ranks drop the checkpoint that they save. They limit its time
      // themselves (stability.stop_grace_seconds); once one has ended, the others are done too.
      if (failed_at_ >= 0 && now - std::max(failed_at_, forwarded_at_) > kGraceSeconds) kill_all();
    } else if (terminated_at_ >= 0) {
      if (now - terminated_at_ > kTerminateSeconds) kill_all();
    } else if (failed_at_ >= 0 && now - failed_at_ > kRootCauseSeconds) {
      terminated_at_ = now;
      for (const RankProcess& each : ranks_) each.ask_to_end();
    }
  }

  /// Prints an error of rank 0 that was held back, once it turns out that the rank goes on.
  void pass_what_waited() {
    RankProcess& first = ranks_.front();
    if (first.held_lines().empty() || first.exit_code()) {
      held_at_ = -1;
    } else if (held_at_ < 0) {
      held_at_ = clock_.seconds();
    } else if (clock_.seconds() - held_at_ > kHoldSeconds) {
      first.pass_held_lines();
    }
  }

  const Signals& signals_;
  EncoderProcesses& encoders_;
  const Stopwatch clock_;
  std::vector<RankProcess> ranks_;
  std::vector<RankEnd> ends_;  // by rank
  double failed_at_ = -1;      // below 0: not yet; so are the next three
  double terminated_at_ = -1;
  double forwarded_at_ = -1;
  double held_at_ = -1;
};

/// Prints the last lines of the ranks, without the error that is the cause.
void show_output(const std::vector<RankEnd>& ends, const std::string& error) {
  for (const RankEnd& end : ends) {
    if (end.rank > 0 && end.exit_code == 0) continue;
    const std::deque<std::string> lines =
        without_error(end.rank == 0 ? end.held : end.lines, error);
    const std::size_t first = lines.size() - std::min(lines.size(), kMaxShownLines);
    for (std::size_t i = first; i < lines.size(); ++i)
      log_note(end.rank == 0 ? lines[i] : str("[rank ", end.rank, "] ", lines[i]));
  }
}

/// Waits, and returns whether a signal came meanwhile.
bool pause_for(double seconds, const Signals& signals, EncoderProcesses& encoders) {
  const Stopwatch watch;
  pollfd wait{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
  while (watch.seconds() < seconds) {
    if (poll(&wait, 1, /*timeout=*/100) > 0) return true;
    encoders.look();
  }
  return false;
}

/// Makes a restarted training go on from its newest checkpoint.
void resume_from_newest(std::vector<std::string>& words) {
  if (words.empty() || words.front() != "train") return;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("--resume=")) {
      words[i] = "--resume=auto";
      return;
    }
    if (words[i] == "--resume" && i + 1 < words.size()) {
      words[i + 1] = "auto";
      return;
    }
  }
  words.insert(words.end(), {"--resume", "auto"});
}

}  // namespace

int run_ranks(const LaunchOptions& options) {
  LaunchOptions now = options;
  const Signals signals;
  EncoderProcesses encoders(options.encoders, options.encoder_words, options.ranks);
  RestartPolicy policy(options.limits);
  for (std::int64_t number = 0;; ++number) {
    Attempt attempt(now, number, signals, encoders, Output::kPrinted);
    attempt.run();
    if (!attempt.has_failed()) return 0;
    const AttemptEnd end = find_cause(attempt.ends());
    show_output(attempt.ends(), end.error);
    show_error("tributary launch: " + end.cause, end.exit_code);
    if (attempt.was_signalled()) return end.exit_code;
    const NextAction next = policy.after_failure(end);
    if (!next.restarts) {
      if (!next.reason.empty()) show_error("resource error: app: " + next.reason, next.exit_code);
      return next.exit_code;
    }
    log_note(str("tributary launch: restart ", policy.restarts(), " of ", options.limits.restarts,
                 " in ", next.pause_seconds, " s"));
    if (pause_for(next.pause_seconds, signals, encoders)) return end.exit_code;
    resume_from_newest(now.words);
  }
}

JobEnd run_once(const LaunchOptions& options) {
  const Signals signals;
  EncoderProcesses encoders(options.encoders, options.encoder_words, options.ranks);
  Attempt attempt(options, /*number=*/0, signals, encoders, Output::kKept);
  attempt.run();
  JobEnd end{.was_signalled = attempt.was_signalled()};
  if (!attempt.has_failed()) return end;
  const AttemptEnd cause = find_cause(attempt.ends());
  end.exit_code = cause.exit_code;
  end.cause = cause.cause;
  return end;
}

}  // namespace tributary::app
