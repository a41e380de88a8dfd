#include "app/launch/rank_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "app/launch/find_cause.h"
#include "core/error.h"
#include "core/log.h"
#include "core/machine/cores.h"

namespace tributary::app {
namespace {

constexpr std::size_t kMaxLines = 200;
constexpr std::size_t kMaxLineBytes = 16 << 10;

[[noreturn]] void raise_system(const std::string& call, int rank) {
  TRIB_RAISE(Fault::kResource, .what = "app: rank cannot be started", .where = str("rank ", rank),
             .found = str(call, ": ", std::strerror(errno)));
}

/// Environment and words for execve, made before fork because the child must not allocate.
struct ExecArguments {
  std::vector<std::string> texts;
  std::vector<char*> words;
  std::vector<char*> environment;

  explicit ExecArguments(const RankCommand& command) {
    texts.reserve(command.words.size() + command.variables.size());
    for (const std::string& word : command.words) words.push_back(keep(word));
    words.push_back(nullptr);
    for (char** each = environ; *each != nullptr; ++each)
      if (!is_replaced(*each, command)) environment.push_back(*each);
    for (const auto& [name, value] : command.variables)
      environment.push_back(keep(str(name, "=", value)));
    environment.push_back(nullptr);
  }

 private:
  char* keep(std::string text) { return texts.emplace_back(std::move(text)).data(); }
  static bool is_replaced(const std::string& entry, const RankCommand& command) {
    for (const auto& [name, value] : command.variables)
      if (entry.starts_with(name + "=")) return true;
    return false;
  }
};

[[noreturn]] void become_rank(const RankCommand& command, const ExecArguments& arguments,
                              pid_t launcher, int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // the launcher died before the line above
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)std::signal(SIGPIPE, SIG_DFL);  // the launcher ignores it; a rank decides for itself
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (!command.prints) dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const int descriptor : command.descriptors) fcntl(descriptor, F_SETFD, 0);
  execve(arguments.words.front(), arguments.words.data(), arguments.environment.data());
  _exit(127);
}

}  // namespace

RankCommand own_command(int rank, const std::vector<std::string>& words) {
  RankCommand command{.rank = rank};
  command.words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.words.insert(command.words.end(), words.begin(), words.end());
  return command;
}

void share_cores(RankCommand& command, std::int64_t processes) {
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    command.variables.emplace_back("OMP_NUM_THREADS", str(compute_threads(0, processes)));
}

RankProcess::RankProcess(const RankCommand& command)
    : rank_(command.rank), prints_(command.prints) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) raise_system("pipe2", rank_);
  output_ = Descriptor(ends[0]);
  const Descriptor writing(ends[1]);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  const ExecArguments arguments(command);
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ < 0) raise_system("fork", rank_);
  if (pid_ == 0) become_rank(command, arguments, launcher, writing.get());
  process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_) {
    const int failure = errno;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    errno = failure;
    raise_system("pidfd_open", rank_);
  }
}

RankProcess::~RankProcess() {
  if (!process_ || exit_code_) return;
  send_signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void RankProcess::send_signal(int signal) const {
  // Uses the descriptor, because another process may have the number of one that has ended.
  if (process_ && !exit_code_) syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0);
}

void RankProcess::ask_to_end() const {
  send_signal(SIGTERM);
  send_signal(SIGCONT);  // a stopped process gets its SIGTERM only when it continues
}

void RankProcess::add_waits(std::vector<pollfd>& waits) const {
  if (!exit_code_) waits.push_back({.fd = process_.get(), .events = POLLIN, .revents = 0});
  if (output_) waits.push_back({.fd = output_.get(), .events = POLLIN, .revents = 0});
}

bool RankProcess::look() {
  const bool had_ended = exit_code_.has_value();
  if (!had_ended) find_end();
  read_output();
  // A grandchild may keep the pipe of a process that has ended open, so we do not wait for its end.
  if (exit_code_) close_output();
  return exit_code_ && !had_ended;
}

void RankProcess::find_end() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void RankProcess::close_output() {
  output_.reset();
  if (!unfinished_line_.empty()) take_line(std::exchange(unfinished_line_, {}));
}

void RankProcess::take_line(std::string line) {
  const bool is_held = !held_.empty() || is_error_line(line);
  if (prints_ && is_held) {
    held_.push_back(line);
  } else if (prints_) {
    // This cannot fail: a launcher whose own output is gone must go on for the ranks.
    log_note(line);
  }
  lines_.push_back(std::move(line));
  if (lines_.size() > kMaxLines) lines_.pop_front();
}

void RankProcess::pass_held_lines() {
  for (const std::string& line : std::exchange(held_, {})) log_note(line);
}

void RankProcess::read_output() {
  std::array<char, 4096> block;
  while (output_) {
    const ssize_t count = read(output_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      close_output();
      return;
    }
    const std::string_view text(block.data(), static_cast<std::size_t>(count));
    for (const char c : text) {
      if (c != '\n') unfinished_line_ += c;
      if (c != '\n' && unfinished_line_.size() < kMaxLineBytes) continue;
      take_line(std::exchange(unfinished_line_, {}));
    }
  }
}

}  // namespace tributary::app
