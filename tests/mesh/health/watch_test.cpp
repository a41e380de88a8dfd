#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "core/error.h"
#include "core/stopwatch.h"
#include "mesh/health/link.h"
#include "mesh/health/section_clock.h"

namespace tributary::mesh {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ChooseRootCause, AnOwnFaultExplainsResourcesHangsAndLostPeers) {
  const std::vector<Failure> all{
      {.rank = 0, .code = ExitCode::kPeerLost, .text = "echo", .at_seconds = 1},
      {.rank = 1, .code = ExitCode::kHang, .text = "hang", .at_seconds = 2},
      {.rank = 2, .code = ExitCode::kPeerLost, .text = "seen", .is_seen = true, .at_seconds = 3},
      {.rank = 3, .code = ExitCode::kResource, .text = "disk", .at_seconds = 4},
      {.rank = 4, .code = ExitCode::kBug, .text = "bug", .at_seconds = 5},
      {.rank = 5, .code = ExitCode::kInput, .text = "input", .at_seconds = 6}};
  EXPECT_EQ(choose_root_cause(all).text, "bug");
  EXPECT_EQ(choose_root_cause(std::span(all).first(4)).text, "disk");
  EXPECT_EQ(choose_root_cause(std::span(all).first(3)).text, "hang");
  const std::vector<Failure> lost{all[0], all[2]};
  EXPECT_EQ(choose_root_cause(lost).text, "seen");
  const std::vector<Failure> tie{all[5], all[4]};
  EXPECT_EQ(choose_root_cause(tie).text, "bug") << "the first in time";
  EXPECT_THROW((void)choose_root_cause({}), Error);
}

TEST(SectionClock, CountsTheTimeWithoutProgressAgainstTheDeadlineOfTheSection) {
  SectionClock clock({.setup_deadline_seconds = 30, .checkpoint_deadline_seconds = 5});
  clock.enter(Section::kCheckpoint, 3, 0);
  EXPECT_FALSE(clock.find_stall(100)) << "the first look only takes note";
  EXPECT_FALSE(clock.find_stall(105));
  const auto stall = clock.find_stall(105.5);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->at.step, 3);
  EXPECT_EQ(stall->at.section, Section::kCheckpoint);
  EXPECT_EQ(stall->seconds, 5.5);
  EXPECT_EQ(stall->deadline_seconds, 5);
  clock.progress();
  EXPECT_FALSE(clock.find_stall(105.5));
  EXPECT_FALSE(clock.find_stall(110));
  clock.forgive(4);  // the process was stopped for 4 s
  EXPECT_FALSE(clock.find_stall(114));
  EXPECT_TRUE(clock.find_stall(115));
}

TEST(SectionClock, CountsTheProgressOfOthersWhereRanksWaitForFiles) {
  SectionClock clock({.step_deadline_seconds = 5, .checkpoint_deadline_seconds = 5});
  clock.enter(Section::kCheckpoint, 3, 0);
  EXPECT_FALSE(clock.find_stall(100, 7));
  EXPECT_FALSE(clock.find_stall(104, 8)) << "another rank goes on";
  EXPECT_FALSE(clock.find_stall(108, 8));
  EXPECT_TRUE(clock.find_stall(110, 8));
  clock.enter(Section::kForward, 4, 110);
  clock.enter(Section::kForward, 5, 111);  // no longer the first step
  EXPECT_FALSE(clock.find_stall(112, 9));
  EXPECT_TRUE(clock.find_stall(118, 10)) << "in a step each rank has work of its own";
}

TEST(SectionClock, TakesALoadForNoStep) {
  SectionClock clock({.setup_deadline_seconds = 600, .checkpoint_deadline_seconds = 5});
  clock.enter(Section::kLoad, 0, 0);
  EXPECT_FALSE(clock.find_stall(100));
  const auto stall = clock.find_stall(106);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->deadline_seconds, 5);
  clock.enter(Section::kSetup, 0, 200);
  clock.enter(Section::kForward, 1, 300);
  (void)clock.find_stall(301);
  EXPECT_FALSE(clock.find_stall(800)) << "the first step has the time of the set-up";
}

double step_deadline(SectionClock& clock, double now) {
  (void)clock.find_stall(now);  // takes note of the progress
  const auto stall = clock.find_stall(now + 1e6);
  return stall ? stall->deadline_seconds : -1;
}

TEST(SectionClock, AStepHasEightMediansButAtLeastAMinute) {
  SectionClock clock({.setup_deadline_seconds = 600});
  double now = 0;
  clock.enter(Section::kForward, 1, now);
  EXPECT_EQ(step_deadline(clock, now), 600) << "the first step has the time of the set-up";
  for (std::int64_t step = 2; step < 12; ++step) clock.enter(Section::kForward, step, now += 1);
  EXPECT_EQ(step_deadline(clock, now), 60);
  for (std::int64_t step = 12; step < 32; ++step) clock.enter(Section::kForward, step, now += 20);
  clock.enter(Section::kBackward, 31, now += 300);  // the same step: no duration of its own
  EXPECT_EQ(step_deadline(clock, now), 160);
}

TEST(SectionClock, TakesTheDeadlineOfTheConfiguration) {
  SectionClock clock({.step_deadline_seconds = 7});
  clock.enter(Section::kForward, 1, 0);
  clock.enter(Section::kForward, 2, 100);
  EXPECT_EQ(step_deadline(clock, 100), 7);
}

TEST(Line, ReadsBackWhatItWrites) {
  const auto beat =
      line::parse_beat(line::beat({.step = -3, .progress = 7, .section = Section::kBackward}));
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->step, -3);
  EXPECT_EQ(beat->progress, 7u);
  EXPECT_EQ(beat->section, Section::kBackward);
  const auto failure = line::parse_failure(
      "fail", line::failure("fail", {.rank = 3, .code = ExitCode::kHang, .text = "a\n b"}));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 3);
  EXPECT_EQ(failure->code, ExitCode::kHang);
  EXPECT_EQ(failure->text, "a  b");
}

TEST(Line, RefusesWhatIsNotOfTheKind) {
  for (const char* text :
       {"", "beat", "beat 1", "beat 1 2", "beat 1 2 8", "beat 1 2 -1", "beat x 2 1", "heat 1 2 3"})
    EXPECT_FALSE(line::parse_beat(text)) << text;
  for (const char* text : {"", "hello", "hello key", "hello key x host", "hello key 1"})
    EXPECT_FALSE(line::parse_hello(text)) << text;
  for (const char* text : {"", "fail", "fail 1 0 text", "fail 1 256 text", "root 1 10 text"})
    EXPECT_FALSE(line::parse_failure("fail", text)) << text;
}

/// A controller of a world of three and raw connections to it.
class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest()
      : store_(c10::make_intrusive<c10d::HashStore>()),
        controller_(make_controller({.rank = 0, .world = 3, .local_world = 3}, *store_,
                                    {.heartbeat_seconds = 0.1, .lost_after_seconds = 0.5})) {
    std::istringstream place(store_->get_to_str(kControllerKey));
    place >> port_ >> key_;
  }

  LineSocket connect() const { return LineSocket(connect_to("127.0.0.1", port_, 5)); }

  /// Lets both sides work until `done`, for at most 5 s.
  template <class Done>
  bool until(const Done& done) {
    for (int i = 0; i < 500 && !done(); ++i) {
      controller_->exchange(now_seconds());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return done();
  }

  bool is_closed_by_controller(LineSocket& socket) {
    return until([&] {
      (void)socket.exchange();
      return socket.is_closed();
    });
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<Link> controller_;
  int port_ = 0;
  std::string key_;
};

TEST_F(ControllerTest, ClosesConnectionsThatAreNotOfTheJob) {
  for (const std::string& first :
       {std::string("GET / HTTP/1.1"), line::hello("wrong", 1), "hello " + key_ + " 0 host",
        "hello " + key_ + " 3 host", "hello " + key_ + " -1 host", std::string(1 << 14, 'x')}) {
    SCOPED_TRACE(first.substr(0, 40));
    LineSocket stranger = connect();
    stranger.send(first);
    EXPECT_TRUE(is_closed_by_controller(stranger));
  }
  EXPECT_FALSE(controller_->root_cause(now_seconds())) << "strangers fail no rank";
}

TEST_F(ControllerTest, IsNotKeptByAPeerThatSendsWithoutEnd) {
  LineSocket flood = connect();
  std::atomic<bool> is_over = false;
  std::thread sender([&] {
    const std::string line(100, '\n');
    while (!is_over) (void)::send(flood.descriptor(), line.data(), line.size(), MSG_NOSIGNAL);
  });
  bool is_welcome = false;
  LineSocket rank = connect();
  rank.send(line::hello(key_, 1));
  const double began = now_seconds();
  EXPECT_TRUE(until([&] { return is_welcome = is_welcome || !rank.exchange().empty(); }));
  EXPECT_LT(now_seconds() - began, 5);
  is_over = true;
  sender.join();
}

TEST_F(ControllerTest, KeepsRanksWaitingWhileTooManySayNothing) {
  std::vector<LineSocket> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect());
  LineSocket rank = connect();
  rank.send(line::hello(key_, 1));
  std::string answer;
  const auto is_answered = [&] {
    for (const std::string& text : rank.exchange()) answer += text;
    return !answer.empty() || rank.is_closed();
  };
  controller_->exchange(now_seconds());
  EXPECT_FALSE(is_answered()) << "it waits behind them";
  controller_->exchange(now_seconds() + 6);  // they were silent for more than 5 s
  EXPECT_TRUE(until(is_answered));
  EXPECT_THAT(answer, HasSubstr("hello " + key_ + " 0 "));
}

TEST_F(ControllerTest, KeepsTheFirstConnectionOfARank) {
  LineSocket first = connect();
  first.send(line::hello(key_, 1));
  std::string answer;
  ASSERT_TRUE(until([&] {
    for (const std::string& text : first.exchange()) answer += text;
    return !answer.empty();
  }));
  EXPECT_THAT(answer, HasSubstr("hello " + key_ + " 0 "));
  LineSocket second = connect();
  second.send(line::hello(key_, 1));
  EXPECT_TRUE(is_closed_by_controller(second));
  EXPECT_FALSE(first.is_closed());
}

TEST_F(ControllerTest, TellsAllRanksOfTheOneThatWentSilent) {
  std::vector<LineSocket> ranks;
  for (const int rank : {1, 2}) {
    ranks.push_back(connect());
    ranks.back().send(line::hello(key_, rank));
    ranks.back().send(line::beat({.step = 7, .progress = 1, .section = Section::kBackward}));
  }
  std::optional<Failure> cause;
  ASSERT_TRUE(until([&] {
    ranks[0].send(line::beat({.step = 8, .progress = 2, .section = Section::kForward}));
    cause = controller_->root_cause(now_seconds());
    return cause.has_value();
  }));
  EXPECT_EQ(cause->code, ExitCode::kPeerLost);
  EXPECT_THAT(cause->text,
              AllOf(HasSubstr("resource error: mesh: rank lost: rank 2 on "),
                    HasSubstr("s ago in section backward of step 7"), HasSubstr("none for 0.5 s")));
  std::string told;
  EXPECT_TRUE(until([&] {
    for (const std::string& text : ranks[0].exchange())
      if (text.starts_with("root")) told = text;
    return !told.empty();
  }));
  EXPECT_THAT(told, HasSubstr("rank lost: rank 2 on "));
}

TEST_F(ControllerTest, AddsWhoIsSilentToWhatMayBeAnEcho) {
  int welcomed = 0;
  std::vector<LineSocket> ranks;
  for (const int rank : {1, 2}) {
    ranks.push_back(connect());
    ranks.back().send(line::hello(key_, rank));
  }
  ASSERT_TRUE(until([&] {  // both are welcomed
    for (LineSocket& each : ranks)
      for ([[maybe_unused]] const std::string& text : each.exchange()) ++welcomed;
    return welcomed == 2;
  }));
  const double now = now_seconds();
  controller_->report({.rank = 0,
                       .code = ExitCode::kHang,
                       .text = "resource error: mesh: collective timed out",
                       .at_seconds = now});
  EXPECT_FALSE(controller_->root_cause(now + 0.1)) << "a better explanation may come";
  const auto cause = controller_->root_cause(now + 0.3);
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->code, ExitCode::kHang);
  EXPECT_THAT(cause->text, AllOf(HasSubstr("collective timed out; silent: rank 1 on "),
                                 HasSubstr("rank 2 on "), HasSubstr("in section setup")));
}

}  // namespace
}  // namespace tributary::mesh
