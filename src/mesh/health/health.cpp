#include "mesh/health/health.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "mesh/health/link.h"
#include "mesh/health/section_clock.h"
#include "mesh/health/thread_stacks.h"
#include "mesh/launch/store.h"

namespace tributary::mesh {
namespace {

constexpr double kWatchSeconds = 0.1;  // between two looks when nothing happens
constexpr double kHangUpSeconds = 1;  // for the others to read the cause before the controller ends
constexpr double kPatienceSeconds = 5;  // a failed main thread waits this long beyond
                                        // lost_after_seconds for the watch to end the process

/// Writes the file from which torchrun shows why a process failed.
void write_error_file(const std::string& text) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr) return;
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
  const nlohmann::json content{
      {"message",
       {{"message", text}, {"extraInfo", {{"timestamp", str(seconds)}, {"py_callstack", text}}}}}};
  std::ofstream(path) << content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::unique_ptr<Link> make_link(const Launch& launch, c10d::Store& store,
                                const HealthOptions& options) {
  if (launch.world == 1) return make_lonely();
  return launch.rank == 0 ? make_controller(launch, store, options)
                          : make_member(launch, store, options);
}

}  // namespace

const char* name_of(Section section) {
  constexpr std::array<const char*, 8> kNames{"setup",    "load",      "data",       "forward",
                                              "backward", "optimizer", "checkpoint", "validation"};
  return kNames.at(static_cast<std::size_t>(section));
}

/// The watching thread, and what the main thread leaves for it.
class Health::Watch {
 public:
  Watch(const Launch& launch, c10d::Store& store, HealthOptions options)
      : options_(std::move(options)),
        rank_(launch.rank),
        clock_(options_),
        link_(make_link(launch, store, options_)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) TRIB_RAISE(Fault::kResource, .what = "mesh: no descriptor for the watchdog");
    prepare_thread_stacks();
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Watch() {
    thread_.request_stop();
    wake_up();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  SectionClock& clock() { return clock_; }

  [[noreturn]] void report(const std::string& text, ExitCode code) {
    std::cout.flush();
    std::fflush(nullptr);
    {
      const std::lock_guard lock(mutex_);
      own_failure_ = Failure{.rank = rank_, .code = code, .text = text};
    }
    wake_up();
    // The watching thread ends the process long before this sleep is over.
    std::this_thread::sleep_for(
        std::chrono::duration<double>(options_.lost_after_seconds + kPatienceSeconds));
    print_and_exit({.rank = rank_, .code = code, .text = text});
  }

  void finish() {
    std::unique_lock lock(mutex_);
    is_finishing_ = true;
    wake_up();
    // The watch bounds this wait: a rank that never takes leave is lost, or hangs.
    done_.wait(lock, [this] { return is_done_; });
  }

 private:
  void wake_up() const {
    const std::uint64_t one = 1;
    // A counter that is full has woken the thread already.
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  }

  void run(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "health");
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // the main thread takes them

    double next_beat = 0;
    double before = now_seconds();
    while (!stop.stop_requested()) {
      wait(std::min(kWatchSeconds, options_.heartbeat_seconds));
      const double now = now_seconds();
      // While this thread was stopped the others did not run either.
      if (now - before > 1) clock_.forgive(now - before);
      before = now;
      link_->exchange(now);
      if (now >= next_beat) {
        link_->send_beat(clock_.beat());
        next_beat = now + options_.heartbeat_seconds;
      }
      if (!take_orders(now)) look_for_stall(now);
      if (const auto cause = link_->root_cause(now)) leave(*cause);
      if (is_leaving_ && link_->may_go()) break;
    }
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    done_.notify_all();
  }

  void wait(double seconds) {
    waits_.clear();
    waits_.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
    link_->add_descriptors(waits_);
    poll(waits_.data(), waits_.size(), std::max(1, static_cast<int>(seconds * 1e3)));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof count);
  }

  /// Does what the main thread asked for. Returns true when it does no work any more.
  bool take_orders(double now) {
    const std::lock_guard lock(mutex_);
    if (own_failure_ && !has_reported_) {
      own_failure_->at_seconds = now;
      link_->report(*own_failure_);
      has_reported_ = true;
    }
    if (is_finishing_ && !is_leaving_) {
      is_leaving_ = true;
      link_->take_leave();
    }
    return has_reported_ || is_leaving_;
  }

  void look_for_stall(double now) {
    if (has_stalled_) return;
    const auto stall = clock_.find_stall(now, link_->progress_of_others());
    if (!stall) return;
    has_stalled_ = true;
    const std::string place = stacks_path();
    const std::string text =
        str("resource error: mesh: no progress: rank ", rank_, " on ", host_name(), ", section ",
            name_of(stall->at.section), " of step ", stall->at.step, ", none for ",
            in_seconds(stall->seconds), ", deadline ", in_seconds(stall->deadline_seconds),
            place.empty() ? std::string() : "; stacks in " + place);
    write_stacks(text);
    link_->report({.rank = rank_, .code = ExitCode::kHang, .text = text, .at_seconds = now});
  }

  std::string stacks_path() const {
    return options_.run_directory.empty()
               ? ""
               : str(options_.run_directory, "/watchdog-rank-", rank_, ".txt");
  }

  void write_stacks(const std::string& headline) {
    const Beat beat = clock_.beat();
    write_thread_stacks(stacks_path(), str(headline, "\nrank ", rank_, " on ", host_name(),
                                           ", section ", name_of(beat.section), " of step ",
                                           beat.step, ", progress ", beat.progress));
  }

  [[noreturn]] void leave(const Failure& cause) {
    // The stacks of a rank that waits tell as much as those of the rank that hangs.
    if (cause.code == ExitCode::kHang && !has_stalled_) write_stacks(cause.text);
    const double began = now_seconds();
    while (!link_->hang_up() && now_seconds() - began < kHangUpSeconds) {
      wait(0.01);
      link_->exchange(now_seconds());
    }
    print_and_exit(cause);
  }

  [[noreturn]] void print_and_exit(const Failure& cause) const {
    const std::string text = str("[rank ", rank_, " step ", clock_.beat().step, "] ", cause.text);
    write_error_file(text);
    if (log_takes_a_line(kHangUpSeconds)) log_note(text);
    // Destructors would wait for collectives that never end.
    _exit(static_cast<int>(cause.code));
  }

  const HealthOptions options_;
  const int rank_;
  SectionClock clock_;
  std::unique_ptr<Link> link_;  // only for the watching thread
  Descriptor wake_;             // eventfd: the main thread has left something

  std::mutex mutex_;  // guards the next five
  std::condition_variable done_;
  std::optional<Failure> own_failure_;
  bool has_reported_ = false;
  bool is_finishing_ = false;
  bool is_done_ = false;

  // Only the watching thread uses these.
  std::vector<pollfd> waits_;
  bool is_leaving_ = false;
  bool has_stalled_ = false;

  std::jthread thread_;  // last: it uses all of the above
};

Health::Health(const Launch& launch, c10d::Store& store, HealthOptions options)
    : watch_(std::make_unique<Watch>(launch, store, std::move(options))) {}
Health::~Health() = default;

void Health::enter(Section section, std::int64_t step) {
  watch_->clock().enter(section, step, now_seconds());
}
void Health::progress() { watch_->clock().progress(); }
void Health::report_failure(const std::string& text, ExitCode code) { watch_->report(text, code); }
void Health::finish() { watch_->finish(); }

}  // namespace tributary::mesh
