// Producers in processes of their own, which are stopped and killed.

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/progress/pool_directory.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

/// A process that encodes for the pool of a directory until the job ends, and then exits with
/// 40 + its end. Forked while this process has no other thread.
class EncoderProcess {
 public:
  explicit EncoderProcess(const std::string& directory) {
    const pid_t parent = getpid();
    id_ = fork();
    if (id_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    int code = 2;
    try {
      PoolProducer producer(producer_options(directory));
      encode_until_end(producer);
      code = 40 + static_cast<int>(producer.end());
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }
  ~EncoderProcess() {
    if (id_ > 0) kill_now();
  }
  EncoderProcess(const EncoderProcess&) = delete;
  EncoderProcess& operator=(const EncoderProcess&) = delete;

  void signal(int number) const { ::kill(id_, number); }
  void kill_now() {
    signal(SIGKILL);
    (void)wait();
  }
  /// How it ended, as a wait status.
  [[nodiscard]] int wait() {
    int status = 0;
    waitpid(std::exchange(id_, 0), &status, 0);
    return status;
  }

 private:
  pid_t id_ = 0;
};

class PoolProcesses : public testing::Test {
 protected:
  void start(Nanoseconds fence) {
    controller =
        std::make_unique<PoolController>(PoolControllerOptions{.directory = directory.path(),
                                                               .page_bytes = kPoolPage,
                                                               .reserve_pages = kLargest,
                                                               .timers = short_timers(fence)});
    reader = std::make_unique<PoolReader>(
        PoolReaderOptions{.directory = directory.path(), .patience = kLong});
    ASSERT_TRUE(until([&] { return reader->counts().producers == 2; }));
  }
  void run_step(std::uint64_t step) {
    for (; planned < step + 3; ++planned) controller->plan(planned_step(planned, 1));
    for (const Key& key : keys_of(step, 1, 0)) {
      const auto object = reader->take(key, kLong);
      ASSERT_TRUE(object) << "step " << step;
      EXPECT_TRUE(std::ranges::equal(object->bytes.span(), bytes_of(key)));
    }
    reader->finish_step(step);
  }

  /// Lets `far` in, which reaches the controller only over the network.
  void invite_the_far_one() {
    std::filesystem::create_directory(elsewhere.path());
    std::filesystem::permissions(elsewhere.path(), std::filesystem::perms::owner_all);
    std::filesystem::copy(directory.path() + "/key", elsewhere.path() + "/key");
    PoolJob job = find_pool(directory.path()).value().job;
    job.unix_socket.clear();
    publish_controller(elsewhere.path(), job);
    ASSERT_TRUE(until([&] { return reader->counts().producers == 3; }));
  }

  JobDirectory directory, elsewhere;
  EncoderProcess first{directory.path()}, second{directory.path()}, far{elsewhere.path()};
  std::unique_ptr<PoolController> controller;
  std::unique_ptr<PoolReader> reader;
  std::uint64_t planned = 0;
};

TEST_F(PoolProcesses, GoOnWithoutAProducerThatWasKilled) {
  start(milliseconds(5'000));
  for (std::uint64_t step = 0; step < 5; ++step) run_step(step);
  const Stopwatch waited;
  first.kill_now();
  for (std::uint64_t step = 5; step < 10; ++step) run_step(step);
  EXPECT_LT(waited.seconds(), 4);  // its links broke: no deadline had to pass
  EXPECT_EQ(controller->counts().fenced, 1);
  controller->finish();
  const int status = second.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 40 + static_cast<int>(PoolProducer::End::kFinished));
}

TEST_F(PoolProcesses, MissAKilledProducerAtOnceThoughItsLinkWasReset) {
  start(milliseconds(60'000));
  invite_the_far_one();  // nobody reads from it, and finds it out by that
  far.signal(SIGSTOP);
  for (; planned < 3; ++planned) controller->plan(planned_step(planned, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // what it was assigned waits there
  far.kill_now();  // a system resets connections with bytes that nobody has read
  EXPECT_TRUE(until([&] { return controller->counts().fenced == 1; }));
  EXPECT_EQ(controller->counts().producers, 2);
  run_step(0);
}

TEST_F(PoolProcesses, FenceAProducerThatStandsStill) {
  start(milliseconds(700));
  for (std::uint64_t step = 0; step < 3; ++step) run_step(step);
  first.signal(SIGSTOP);
  for (std::uint64_t step = 3; step < 8; ++step) run_step(step);
  EXPECT_EQ(controller->counts().fenced, 1);
  EXPECT_EQ(controller->counts().producers, 1);
  first.signal(SIGCONT);
  const int status = first.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 40 + static_cast<int>(PoolProducer::End::kFenced));
  run_step(8);
}

}  // namespace
}  // namespace tributary::memory
