#include "memory/protocol/controller_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/memory/protocol/small_job.h"

namespace tributary::memory {
namespace {

class ControllerCoreTest : public testing::Test {
 protected:
  std::vector<Action> give(const Event& event) { return controller.step(event, now); }
  /// One object of a page for each reader.
  static StepPlanned make_plan(std::uint64_t step) {
    StepPlanned planned{.plan = {.step = step}};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const Key key{.sample = 10 * step + rank};
      planned.plan.microbatches.push_back({.dp_rank = rank, .order = 0, .keys = {key}});
      planned.objects.push_back({.key = key, .pages = 1});
    }
    return planned;
  }
  std::vector<Action> plan(std::uint64_t step) {
    give(make_plan(step));
    return give(PlanLogged{step});
  }
  void beat(std::uint16_t process, std::uint64_t step = 0) {
    give(from(process, Heartbeat{.step = step, .process = process, .epoch = 1}));
  }

  TimePoint now = at_ms(10);
  ControllerCore controller{
      {.process = kController,
       .timers = {},
       .members = {peer(kProducer), peer(kOther), peer(kConsumer), peer(kConsumer2)},
       .consumers = {kConsumer, kConsumer2},
       .reserve_pages = 1},
      first_table(),
      now};
};

TEST_F(ControllerCoreTest, ShowsAPlanToNobodyBeforeItIsLogged) {
  const std::vector<Action> planned = give(make_plan(0));
  ASSERT_EQ(planned.size(), 1);
  EXPECT_EQ(std::get<LogPlan>(planned[0]).plan.step, 0);
  const std::vector<Action> logged = give(PlanLogged{0});
  const auto plans = sent<PlanMessage>(logged);
  ASSERT_EQ(plans.size(), 2);  // each consumer gets its own part
  EXPECT_EQ(plans[1].first, kConsumer2);
  EXPECT_EQ(plans[1].second.microbatches, std::vector{make_plan(0).plan.microbatches[1]});
  EXPECT_EQ(sent<AssignMessage>(logged).size(), 2);  // the load is shared
  ASSERT_EQ(sent<Credit>(logged).size(), 2);
  EXPECT_EQ(sent<Credit>(logged)[0].second.granted_pages, 1);
  EXPECT_TRUE(give(PlanLogged{0}).empty());
}

TEST_F(ControllerCoreTest, SendsAgainAtOnceOverANewLink) {
  plan(0);
  const std::vector<Action> again = give(LinkRenewed{kConsumer});
  ASSERT_EQ(sent<PlanMessage>(again).size(), 1);
  EXPECT_EQ(sent<PlanMessage>(again)[0].first, kConsumer);
}

TEST_F(ControllerCoreTest, HandsAHandleToItsReaderAlone) {
  plan(0);
  const auto publish = sent<PublishMessage>(
      give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle_of(0, kProducer)})));
  ASSERT_EQ(publish.size(), 1);
  EXPECT_EQ(publish[0].first, kConsumer);
  const std::vector<Action> again =
      give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle_of(0, kProducer)}));
  EXPECT_TRUE(sent<PublishMessage>(again).empty());
  EXPECT_EQ(sent<AckMessage>(again).size(), 1);
}

TEST_F(ControllerCoreTest, RefusesAnObjectInForeignMemory) {
  plan(0);
  for (const ObjectHandle& handle : {handle_of(0, kOther), handle_of(0, kProducer, 1, kPages),
                                     handle_of(0, kProducer, 1, 0, /*epoch=*/9)}) {
    const std::vector<Action> actions =
        give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle}));
    EXPECT_EQ(all_of<ClosePeer>(actions).size(), 1);
    EXPECT_TRUE(sent<PublishMessage>(actions).empty());
  }
  EXPECT_EQ(controller.refused(), 3);
}

TEST_F(ControllerCoreTest, DoesNotBringBackARetractedObject) {
  plan(0);
  give(from(kProducer, RetractMessage{.key = {.sample = 0}, .generation = 3}));
  EXPECT_TRUE(sent<PublishMessage>(
                  give(from(kProducer,
                            PublishMessage{.sequence = 3, .handle = handle_of(0, kProducer, 3)})))
                  .empty());
  EXPECT_EQ(sent<PublishMessage>(
                give(from(kProducer,
                          PublishMessage{.sequence = 4, .handle = handle_of(0, kProducer, 4)})))
                .size(),
            1);
}

TEST_F(ControllerCoreTest, CommitsWhenAllConsumersHaveFinished) {  // I16
  plan(0);
  plan(1);
  beat(kConsumer, 2);
  EXPECT_EQ(controller.low(), 0);
  const auto actions =
      give(from(kConsumer2, Heartbeat{.step = 1, .process = kConsumer2, .epoch = 1}));
  ASSERT_EQ(all_of<CommitStep>(actions).size(), 1);
  EXPECT_EQ(sent<CommitMessage>(actions).size(), 2);
  EXPECT_EQ(controller.low(), 1);
  beat(kConsumer2, 0);  // a late one
  EXPECT_EQ(controller.low(), 1);
  beat(kConsumer2, 2);
  EXPECT_EQ(controller.low(), 2);
}

TEST_F(ControllerCoreTest, FencesASilentProducerAndGivesItsWorkToAnother) {
  plan(0);
  now = at_ms(3'010);
  for (const std::uint16_t process : {kOther, kConsumer, kConsumer2}) beat(process);
  EXPECT_TRUE(sent<EpochMessage>(give(Tick{})).empty());
  now = at_ms(3'011);
  const std::vector<Action> actions = give(Tick{});
  EXPECT_EQ(sent<EpochMessage>(actions).size(), 4);  // the fenced one, too
  const auto assign = sent<AssignMessage>(actions);
  ASSERT_EQ(assign.size(), 1);
  EXPECT_EQ(assign[0].first, kOther);
  EXPECT_EQ(assign[0].second.objects.size(), 2);
  EXPECT_EQ(sent<Credit>(actions).at(0).second.granted_pages, 2);

  // I18: what it sends under its old epoch counts for nothing, and it is told.
  const std::vector<Action> refused =
      give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle_of(0, kProducer)}));
  EXPECT_EQ(controller.refused(), 1);
  ASSERT_EQ(refused.size(), 1);
  EXPECT_EQ(sent<EpochMessage>(refused).at(0).second.epoch, 2);
  EXPECT_TRUE(give(from(kProducer, ack_of(Message(EpochMessage{})))).empty());
}

TEST_F(ControllerCoreTest, LetsANewIncarnationInWhenTheOldOneIsGone) {
  give(MemberLost{kProducer, 1});
  PeerIdentity newcomer = peer(kProducer, 0);
  newcomer.incarnation = 2;
  SegmentRow row = row_of(kProducer);
  row.incarnation = 2;
  const MemberJoined join{.identity = newcomer, .rows = {row}};
  EXPECT_EQ(all_of<ClosePeer>(give(join)).size(), 1);  // not all know of the fence
  const EpochMessage fenced{.process = kProducer, .epoch = 2};
  for (const std::uint16_t process : {kOther, kConsumer, kConsumer2})
    give(from(process, ack_of(fenced)));
  give(Tick{});
  EXPECT_EQ(
      all_of<ClosePeer>(give(MemberJoined{.identity = peer(kProducer, 0), .rows = {row}})).size(),
      1);  // the old incarnation
  const std::vector<Action> joined = give(join);
  EXPECT_TRUE(all_of<ClosePeer>(joined).empty());
  const auto epochs = sent<EpochMessage>(joined);
  EXPECT_EQ(std::ranges::count_if(epochs,
                                  [](const auto& one) { return one.second.process == kProducer; }),
            4);
  EXPECT_EQ(controller.membership().find(kProducer)->identity.epoch, 3);
}

TEST_F(ControllerCoreTest, EndsTheJobWithItsRootCause) {
  give(from(kConsumer, FailMessage{.process = kConsumer2,
                                   .fault = static_cast<std::uint32_t>(ExitCode::kPeerLost),
                                   .text = "an echo"}));
  give(from(kConsumer2, FailMessage{.process = kConsumer2,
                                    .fault = static_cast<std::uint32_t>(ExitCode::kInput),
                                    .text = "the cause"}));
  now = at_ms(209);
  EXPECT_TRUE(all_of<StopProcess>(give(Tick{})).empty());
  now = at_ms(210);
  const std::vector<Action> actions = give(Tick{});
  ASSERT_EQ(all_of<StopProcess>(actions).size(), 1);
  EXPECT_EQ(all_of<StopProcess>(actions)[0].reason, "the cause");
  EXPECT_EQ(sent<FailMessage>(actions).size(), 4);
  EXPECT_TRUE(give(Tick{}).empty());
}

TEST_F(ControllerCoreTest, LosesNoMemberWithTheLinkOfAnotherIncarnation) {
  EXPECT_TRUE(give(MemberLost{kProducer, 2}).empty());
  EXPECT_TRUE(controller.membership().find(kProducer)->is_in());
  give(MemberLost{kProducer, 1});
  EXPECT_FALSE(controller.membership().find(kProducer)->is_in());
}

TEST_F(ControllerCoreTest, EndsTheJobWithALostConsumer) {
  give(MemberLost{kConsumer, 1});
  now = at_ms(210);
  const auto stop = all_of<StopProcess>(give(Tick{}));
  ASSERT_EQ(stop.size(), 1);
  EXPECT_EQ(stop[0].code, ExitCode::kPeerLost);
}

TEST_F(ControllerCoreTest, WaitsForNoConsumerThatHasLeft) {
  plan(0);
  plan(1);
  beat(kConsumer, 1);
  EXPECT_EQ(all_of<CommitStep>(give(from(kConsumer2, ByeMessage{}))).size(), 1);
  EXPECT_EQ(controller.low(), 1);
  give(MemberLost{kConsumer2, 1});
  now = at_ms(1'000);
  EXPECT_TRUE(all_of<StopProcess>(give(Tick{})).empty());
  EXPECT_EQ(sent<PlanMessage>(plan(2)).size(), 1);
  EXPECT_EQ(all_of<CommitStep>(give(from(kConsumer, ByeMessage{}))).size(), 2);
  EXPECT_EQ(all_of<CommitStep>(plan(3)).size(), 1);
}

TEST_F(ControllerCoreTest, WaitsForConsumersThatHaveNotComeYet) {
  now = at_ms(4'000);
  for (const std::uint16_t process : {kProducer, kOther, kConsumer}) beat(process);
  now = at_ms(8'000);
  for (const std::uint16_t process : {kProducer, kOther}) beat(process);
  give(Tick{});
  now = at_ms(9'100);
  for (const std::uint16_t process : {kProducer, kOther}) beat(process);
  give(Tick{});  // one consumer is silent, and the other has never been heard
  now = at_ms(9'400);
  const auto stop = all_of<StopProcess>(give(Tick{}));
  ASSERT_EQ(stop.size(), 1);
  EXPECT_THAT(stop[0].reason, testing::HasSubstr(str("consumer ", kConsumer, " is lost")));
}

TEST_F(ControllerCoreTest, RefusesAJoinWithMemoryOfAnotherIncarnation) {
  PeerIdentity newcomer = peer(7, 0);
  newcomer.role = Role::kProducer;
  SegmentRow row = row_of(7);
  row.incarnation = 2;
  EXPECT_EQ(all_of<ClosePeer>(give(MessageReceived{newcomer, JoinMessage{.rows = {row}}})).size(),
            1);
  row.incarnation = newcomer.incarnation;
  EXPECT_TRUE(
      all_of<ClosePeer>(give(MessageReceived{newcomer, JoinMessage{.rows = {row}}})).empty());
  EXPECT_EQ(controller.membership().find(7)->identity.epoch, 2);
}

TEST_F(ControllerCoreTest, TellsReadersOfObjectsThatNobodyHasRoomFor) {
  StepPlanned step{.plan = {.step = 0, .microbatches = {{.dp_rank = 1, .keys = {{.sample = 0}}}}},
                   .objects = {{.key = {.sample = 0}, .pages = kPages + 1}}};
  give(step);
  const auto given_up = sent<RetractMessage>(give(PlanLogged{0}));
  ASSERT_EQ(given_up.size(), 1);
  EXPECT_EQ(given_up[0].first, kConsumer2);
  EXPECT_TRUE(sent<RetractMessage>(give(MemberLost{kOther, 1})).empty());  // once
  PeerIdentity large = peer(7, 0);
  large.role = Role::kProducer;
  SegmentRow row = row_of(7);
  row.length *= 2;
  EXPECT_EQ(sent<AssignMessage>(give(MemberJoined{large, {row}})).size(), 1);
}

TEST_F(ControllerCoreTest, GivesAProducerThatLeavesNothingMore) {
  plan(0);
  give(from(kProducer, Heartbeat{.process = kProducer, .epoch = 1, .leaves = 1}));
  beat(kProducer);  // a late one
  const std::vector<Action> actions = plan(1);
  ASSERT_EQ(sent<AssignMessage>(actions).size(), 1);
  EXPECT_EQ(sent<AssignMessage>(actions)[0].first, kOther);
  EXPECT_EQ(sent<AssignMessage>(actions)[0].second.objects.size(), 2);
  // What it had before still comes from it.
  const auto publish =
      give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle_of(0, kProducer)}));
  EXPECT_EQ(sent<PublishMessage>(publish).size(), 1);
}

TEST_F(ControllerCoreTest, TellsReadersOfObjectsThatOnlyALeavingProducerCouldMake) {
  for (const std::uint16_t process : {kProducer, kOther})
    give(from(process, Heartbeat{.process = process, .epoch = 1, .leaves = 1}));
  EXPECT_EQ(sent<RetractMessage>(plan(0)).size(), 2);
}

TEST_F(ControllerCoreTest, SurvivesAReportOfALostProducer) {
  plan(0);
  const std::vector<Action> actions =
      give(from(kConsumer, FailMessage{.process = kProducer,
                                       .fault = static_cast<std::uint32_t>(ExitCode::kPeerLost)}));
  EXPECT_EQ(sent<EpochMessage>(actions).size(), 4);
  now = at_ms(1'000);
  EXPECT_TRUE(all_of<StopProcess>(give(Tick{})).empty());
}

TEST_F(ControllerCoreTest, TellsAnOwnerThatHasAskedWhereAnObjectIs) {
  plan(0);
  const MessageReceived question = from(kOther, ResolveMessage{.key = {.sample = 0}});
  EXPECT_TRUE(sent<PublishMessage>(give(question)).empty());
  const auto told = sent<PublishMessage>(
      give(from(kProducer, PublishMessage{.sequence = 1, .handle = handle_of(0, kProducer)})));
  ASSERT_EQ(told.size(), 2);
  EXPECT_EQ(told[0].first, kConsumer);
  EXPECT_EQ(told[1].first, kOther);
  EXPECT_EQ(sent<PublishMessage>(give(question)).size(), 1);  // it has not heard
}

class ObjectBookTest : public testing::Test {
 protected:
  void add(std::uint64_t sample, std::uint32_t bundle, std::optional<std::uint16_t> lender = {}) {
    book.add(0, {.key = {.sample = sample}, .pages = 1, .bundle = bundle, .lender = lender}, {});
  }
  std::vector<std::uint64_t> samples_of(std::uint16_t owner) {
    std::vector<std::uint64_t> samples;
    for (const AssignedObject& object : book.objects_of(0, owner))
      samples.push_back(object.key.sample);
    return samples;
  }
  ObjectBook book{1};
};

TEST_F(ObjectBookTest, ListsWhatAnOwnerGotLaterInTheOrderOfThePlan) {
  for (std::uint64_t sample = 0; sample < 6; ++sample) add(sample, 0);
  const std::vector<OwnerSpace> both{{.process = 1, .pages = 9}, {.process = 2, .pages = 9}};
  EXPECT_EQ(book.assign(0, both), (std::map<std::uint16_t, std::uint64_t>{{1, 3}, {2, 3}}));
  EXPECT_EQ(samples_of(2), (std::vector<std::uint64_t>{1, 3, 5}));
  EXPECT_TRUE(book.assign(0, both).empty());
  book.release(1);
  EXPECT_TRUE(samples_of(1).empty());
  EXPECT_EQ(book.assign(0, std::span(both).subspan(1)),
            (std::map<std::uint16_t, std::uint64_t>{{2, 3}}));
  EXPECT_EQ(samples_of(2), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(ObjectBookTest, PrefersASmallLoadAndThenRoomOverTheReserve) {
  add(0, 0);
  book.assign(0, std::vector<OwnerSpace>{{.process = 1, .pages = 2}});
  for (std::uint64_t sample = 1; sample < 4; ++sample) add(sample, 0);
  // 1 has no room but its reserve, and takes from it only what 2 has none for.
  book.assign(0, std::vector<OwnerSpace>{{.process = 1, .pages = 2}, {.process = 2, .pages = 3}});
  EXPECT_EQ(samples_of(2), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(samples_of(1), (std::vector<std::uint64_t>{0, 3}));
}

TEST_F(ObjectBookTest, KeepsABundleTogetherWhereThereIsRoom) {
  for (const std::uint32_t bundle : {1, 2}) {
    add(10 * bundle, bundle);
    for (std::uint64_t i = 1; i < 3; ++i) add(10 * bundle + i, bundle);
  }
  book.assign(0, std::vector<OwnerSpace>{{.process = 1, .pages = 4}, {.process = 2, .pages = 4}});
  EXPECT_EQ(samples_of(1), (std::vector<std::uint64_t>{10, 11, 12}));
  EXPECT_EQ(samples_of(2), (std::vector<std::uint64_t>{20, 21, 22}));
}

TEST_F(ObjectBookTest, AsksALenderForItsOwnAlone) {
  add(1, 0);
  add(2, 0, 2);
  add(3, 0, 3);  // which is not there
  book.assign(0, std::vector<OwnerSpace>{{.process = 1, .pages = 4},
                                         {.process = 2, .pages = 4, .lends = true}});
  EXPECT_EQ(samples_of(1), std::vector<std::uint64_t>{1});
  EXPECT_EQ(samples_of(2), std::vector<std::uint64_t>{2});
}

}  // namespace
}  // namespace tributary::memory
