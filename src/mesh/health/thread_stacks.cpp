#include "mesh/health/thread_stacks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <execinfo.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/log.h"
#include "core/text.h"

namespace tributary::mesh {
namespace {

constexpr int kMaxFrames = 64;

// What the signal handler fills; one thread is asked at a time.
std::array<void*, kMaxFrames> frames;
std::atomic<int> frame_count = 0;
std::atomic<pid_t> asked = 0;
std::atomic<bool> answered = false;

pid_t own_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void answer(int) {
  const int before = errno;
  // A thread that answers too late must not write over the next one's frames.
  if (asked.load() == own_thread() && !answered.load()) {
    frame_count = backtrace(frames.data(), kMaxFrames);
    answered = true;
  }
  errno = before;
}

int stack_signal() { return SIGRTMIN + 5; }

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? "-" : line;
}

void write_stack(int file, pid_t thread) {
  const std::string folder = str("/proc/self/task/", thread, "/");
  write_all(file, str("\nthread ", thread, " ", first_line(folder + "comm"),
                      ", kernel: ", first_line(folder + "wchan"), "\n"));
  answered = false;
  asked = thread;
  if (thread == own_thread()) {
    answer(0);
  } else if (syscall(SYS_tgkill, getpid(), thread, stack_signal()) != 0) {
    write_all(file, "  has ended\n");
    return;
  }
  constexpr auto kPatience = std::chrono::milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  while (!answered && std::chrono::steady_clock::now() - start < kPatience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  asked = 0;
  if (answered) {
    backtrace_symbols_fd(frames.data(), frame_count, file);
  } else {
    write_all(file, "  does not answer\n");
  }
}

std::vector<pid_t> list_threads() {
  std::vector<pid_t> threads;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored))
    threads.push_back(static_cast<pid_t>(std::atoi(entry.path().filename().c_str())));
  std::sort(threads.begin(), threads.end());  // the main thread has the lowest number
  return threads;
}

}  // namespace

void prepare_thread_stacks() {
  std::array<void*, 1> frame{};
  (void)backtrace(frame.data(), 1);
  struct sigaction action = {};
  action.sa_handler = answer;
  action.sa_flags = SA_RESTART;
  sigaction(stack_signal(), &action, nullptr);
}

void write_thread_stacks(const std::string& path, const std::string& headline) {
  int file = STDERR_FILENO;
  if (!path.empty()) {
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file < 0) {
      log_warning("mesh: file of the stacks cannot be written: " + path);
      file = STDERR_FILENO;
    }
  }
  write_all(file, headline + "\n");
  for (const pid_t thread : list_threads()) write_stack(file, thread);
  if (file != STDERR_FILENO) close(file);
}

}  // namespace tributary::mesh
