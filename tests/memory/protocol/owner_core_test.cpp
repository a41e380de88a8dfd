#include "memory/protocol/owner_core.h"

#include <functional>
#include <gtest/gtest.h>

#include "tests/memory/protocol/small_job.h"

namespace tributary::memory {
namespace {

class OwnerCoreTest : public testing::Test {
 protected:
  std::vector<Action> give(const Event& event) { return owner.step(event, now); }
  /// Lets the owner make objects of one page; returns their handles.
  std::vector<ObjectHandle> make(std::uint64_t step, const std::vector<std::uint64_t>& samples) {
    AssignMessage assign{.step = step, .version = ++version};
    for (const std::uint64_t sample : samples)
      assign.objects.push_back({.key = {.sample = sample}, .pages = 1});
    granted += samples.size();
    give(from(kController, assign));
    std::vector<Action> actions =
        give(from(kController, Credit{.granted_pages = granted, .sequence = version, .epoch = 1}));
    std::vector<ObjectHandle> handles;
    for (auto encode = all_of<Encode>(actions); !encode.empty(); encode = all_of<Encode>(actions)) {
      actions = give(Encoded{.slot = encode[0].slot, .description = {.bytes = 10, .crc32c = 77}});
      for (const auto& [to, publish] : sent<PublishMessage>(actions))
        handles.push_back(publish.handle);
    }
    return handles;
  }
  static GetRequest get_of(const ObjectHandle& handle) {
    return {.request = 6,
            .gva = handle.fields.first_gva,
            .generation = handle.fields.generation,
            .length = handle.fields.bytes,
            .epoch = handle.fields.epoch};
  }
  SendObject answer(const GetRequest& request, std::uint16_t reader = kConsumer,
                    std::uint32_t epoch = 1) {
    return all_of<SendObject>(give(from(reader, request, epoch))).at(0);
  }
  Status status_of(const GetRequest& request, std::uint16_t reader = kConsumer) {
    return Status{answer(request, reader).reply.status};
  }

  TimePoint now = at_ms(10);
  std::vector<std::atomic<std::uint64_t>> generations =
      std::vector<std::atomic<std::uint64_t>>(kPages);
  OwnerCore owner{{.identity = member(kProducer),
                   .place = {.process = kProducer, .page_bytes = kPageBytes, .pages = kPages},
                   .reserve_pages = 1,
                   .limits = {.request_bytes = 100, .peer_bytes = 25, .peer_requests = 2}},
                  first_table(),
                  Generations(generations)};
  std::uint64_t version = 0, granted = 0;
};

TEST_F(OwnerCoreTest, MakesWhatItIsAssignedUnderItsCredit) {
  const AssignMessage assign{
      .step = 0, .version = 1, .objects = {{.key = {.sample = 4}, .pages = 2}}};
  EXPECT_TRUE(all_of<Encode>(give(from(kController, assign))).empty());
  EXPECT_TRUE(all_of<Encode>(give(from(kController, Credit{1, 1, 1}))).empty());
  EXPECT_TRUE(all_of<Encode>(give(from(kController, Credit{2, 2, 9}))).empty());  // another epoch
  const auto encode = all_of<Encode>(give(from(kController, Credit{2, 2, 1})));
  ASSERT_EQ(encode.size(), 1);
  EXPECT_EQ(encode[0].key.sample, 4);
  const auto publish =
      sent<PublishMessage>(give(Encoded{.slot = encode[0].slot, .description = {.bytes = 128}}));
  ASSERT_EQ(publish.size(), 1);
  EXPECT_EQ(publish[0].first, kController);
  EXPECT_EQ(publish[0].second.handle.fields.key.sample, 4);
  EXPECT_TRUE(all_of<Encode>(give(from(kController, assign))).empty());  // it is there already
}

TEST_F(OwnerCoreTest, HasLeftWhenAllThatItWasAssignedIsUsed) {
  make(0, {4});
  EXPECT_FALSE(owner.has_left());
  const auto told = sent<Heartbeat>(give(LeaveAsked{}));
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0].second.leaves, 1);
  EXPECT_FALSE(owner.has_left());
  EXPECT_EQ(make(1, {5}).size(), 1);  // assigned before the controller heard of it
  give(from(kController, CommitMessage{.step = 0}));
  EXPECT_FALSE(owner.has_left());
  give(from(kController, CommitMessage{.step = 1}));
  EXPECT_TRUE(owner.has_left());
}

TEST_F(OwnerCoreTest, TakesAssignmentsAndCreditsFromTheControllerAlone) {
  const AssignMessage assign{.version = 1, .objects = {{.key = {.sample = 4}, .pages = 1}}};
  give(from(kConsumer, assign));
  EXPECT_TRUE(all_of<Encode>(give(from(kController, Credit{1, 1, 1}))).empty());
  give(from(kController, assign));
  give(from(kOther, Credit{9, 9, 1}));
  EXPECT_EQ(owner.credits().granted(), 1);
  give(from(kConsumer, CommitMessage{.step = 5}));
  EXPECT_EQ(owner.low(), 0);
}

TEST_F(OwnerCoreTest, SaysAtOnceThatItIsThereOverANewLink) {
  (void)give(Tick{});
  EXPECT_TRUE(sent<Heartbeat>(give(Tick{})).empty());  // not yet again
  EXPECT_EQ(sent<Heartbeat>(give(LinkRenewed{})).size(), 1);
  (void)make(0, {4});
  EXPECT_EQ(sent<PublishMessage>(give(LinkRenewed{})).size(), 1);
}

TEST_F(OwnerCoreTest, SendsAPublishAgainUntilItIsAcknowledged) {
  const ObjectHandle handle = make(0, {4}).at(0);
  now = at_ms(300);
  const auto again = sent<PublishMessage>(give(Tick{}));
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].second.handle, handle);
  give(from(kController, ack_of(again[0].second)));
  now = at_ms(600);
  EXPECT_TRUE(sent<PublishMessage>(give(Tick{})).empty());
}

TEST_F(OwnerCoreTest, ChecksAGetInOrder) {  // each request breaks its own rule and all later ones
  const ObjectHandle handle = make(0, {4}).at(0);
  const GetRequest good = get_of(handle);
  EXPECT_EQ(status_of(good), Status::kOk);
  const std::vector<std::pair<Status, std::function<void(GetRequest&)>>> breaks{
      {Status::kEpoch, [](GetRequest& one) { one.epoch = 9; }},
      {Status::kBounds, [](GetRequest& one) { one.gva = handle_of(1, kOther).fields.first_gva; }},
      {Status::kStale, [](GetRequest& one) { one.gva += kPageBytes; }},
      {Status::kStale, [](GetRequest& one) { one.generation += 1; }},
      {Status::kBounds, [](GetRequest& one) { one.length = 11; }},
  };
  GetRequest request = good;
  for (std::size_t i = breaks.size(); i-- > 0;) {
    request.gva = good.gva;  // an address is broken in one way at a time
    breaks[i].second(request);
    EXPECT_EQ(status_of(request), breaks[i].first) << i;
  }
  EXPECT_EQ(status_of(request, kController), Status::kBounds);  // the role before all
}

TEST_F(OwnerCoreTest, RefusesWhatLeavesTheObject) {  // I19
  const ObjectHandle handle = make(0, {4}).at(0);
  const auto refuses = [&](auto change) {
    GetRequest request = get_of(handle);
    change(request);
    const std::vector<Action> actions = give(from(kConsumer, request));
    const SendObject answer = all_of<SendObject>(actions).at(0);
    EXPECT_EQ(answer.length, 0);
    EXPECT_EQ(answer.grant, 0);
    return answer.reply.status == static_cast<std::uint32_t>(Status::kBounds) &&
           all_of<ClosePeer>(actions).size() == 1;
  };
  EXPECT_TRUE(refuses([](GetRequest& one) { one.length = 0; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.length = 11; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.offset = 11; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.offset = 1; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.offset = ~std::uint64_t{0} - 5; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.gva = 0; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.gva |= std::uint64_t{1} << 60; }));  // the tier
  EXPECT_TRUE(refuses([](GetRequest& one) { one.gva += kPages * kPageBytes; }));
  EXPECT_TRUE(refuses([](GetRequest& one) { one.flags = 1; }));
  EXPECT_EQ(owner.objects().leases(), 0);
}

TEST_F(OwnerCoreTest, LimitsWhatOnePeerHasUnderWay) {
  const ObjectHandle handle = make(0, {4}).at(0);
  const SendObject first = answer(get_of(handle));
  EXPECT_EQ(status_of(get_of(handle)), Status::kOk);
  EXPECT_EQ(status_of(get_of(handle)), Status::kBusy);
  EXPECT_EQ(status_of(get_of(handle), kConsumer2), Status::kOk);
  give(GrantEnded{first.grant});
  give(GrantEnded{first.grant});  // ends once
  EXPECT_EQ(status_of(get_of(handle)), Status::kOk);
  EXPECT_EQ(status_of(get_of(handle)), Status::kBusy);
}

TEST_F(OwnerCoreTest, KeepsACommittedObjectWhileItIsSent) {  // I8
  const ObjectHandle handle = make(0, {4}).at(0);
  const SendObject sending = answer(get_of(handle));
  give(from(kController, CommitMessage{.step = 0}));
  EXPECT_EQ(owner.objects().arena().used_pages(), 1);
  EXPECT_EQ(status_of(get_of(handle), kConsumer2), Status::kStale);
  give(GrantEnded{sending.grant});
  EXPECT_EQ(owner.objects().arena().used_pages(), 0);
}

TEST_F(OwnerCoreTest, WatermarkOnlyRises) {  // I16
  make(0, {4});
  give(from(kController, CommitMessage{.step = 3}));
  EXPECT_EQ(owner.objects().arena().used_pages(), 0);
  EXPECT_EQ(sent<AckMessage>(give(from(kController, CommitMessage{.step = 1}))).size(), 1);
  EXPECT_EQ(owner.low(), 4);
}

TEST_F(OwnerCoreTest, GivesAFencedReaderNothing) {  // I9, I18
  const ObjectHandle handle = make(0, {4}).at(0);
  const SendObject sending = answer(get_of(handle));
  EXPECT_EQ(owner.objects().leases(), 1);
  give(from(kController, EpochMessage{.process = kConsumer, .epoch = 2}));
  EXPECT_EQ(owner.objects().leases(), 0);
  const SendObject refused = answer(get_of(handle));
  EXPECT_EQ(refused.reply.status, static_cast<std::uint32_t>(Status::kEpoch));
  EXPECT_EQ(refused.grant, 0);
  EXPECT_EQ(owner.member().refused(), 1);
  give(GrantEnded{sending.grant});  // comes late
}

TEST_F(OwnerCoreTest, LeasesAllOrNothingAndNothingAfterTheEnd) {
  const std::vector<ObjectHandle> handles = make(0, {4, 5});
  const auto entry = [](const ObjectHandle& handle) {
    return LeaseEntry{handle.fields.first_gva, handle.fields.generation};
  };
  const auto lease = [&](const LeaseMessage& message) {
    return sent<AckMessage>(give(from(kConsumer, message))).at(0).second.status;
  };
  const LeaseMessage both{.lease_id = 1, .entries = {entry(handles[0]), entry(handles[1])}};
  LeaseMessage half = both;
  half.lease_id = 2;
  ++half.entries[1].generation;
  EXPECT_EQ(lease(half), Status::kStale);
  EXPECT_EQ(owner.objects().leases(), 0);
  EXPECT_EQ(lease(both), Status::kOk);
  EXPECT_EQ(lease(both), Status::kOk);
  EXPECT_EQ(owner.objects().leases(), 1);
  give(from(kConsumer, UnleaseMessage{.lease_id = 1}));
  EXPECT_EQ(owner.objects().leases(), 0);
  EXPECT_EQ(lease(both), Status::kStale);  // a late copy
  EXPECT_EQ(owner.objects().leases(), 0);
}

TEST_F(OwnerCoreTest, DropsWhatALeavingReaderHolds) {
  const ObjectHandle handle = make(0, {4}).at(0);
  give(from(kConsumer,
            LeaseMessage{.lease_id = 1,
                         .entries = {{handle.fields.first_gva, handle.fields.generation}}}));
  EXPECT_EQ(owner.objects().leases(), 1);
  give(from(kConsumer, ByeMessage{}));
  EXPECT_EQ(owner.objects().leases(), 0);
}

TEST_F(OwnerCoreTest, EndsWhenItIsFenced) {  // I18
  make(0, {4});
  const auto stop =
      all_of<StopProcess>(give(from(kController, EpochMessage{.process = kProducer, .epoch = 2})));
  ASSERT_EQ(stop.size(), 1);
  EXPECT_EQ(stop[0].code, ExitCode::kFenced);
  EXPECT_TRUE(give(Tick{}).empty());
}

TEST_F(OwnerCoreTest, TakesNoEpochFromAnybodyElse) {
  EXPECT_TRUE(give(from(kConsumer, EpochMessage{.process = kProducer, .epoch = 2})).empty());
  EXPECT_TRUE(give(from(kConsumer, FailMessage{.process = kProducer})).empty());
  EXPECT_EQ(owner.member().refused(), 2);
}

TEST_F(OwnerCoreTest, EndsWhenTheControllerIsSilent) {
  give(Tick{});
  now = at_ms(5'010);
  EXPECT_TRUE(all_of<StopProcess>(give(Tick{})).empty());
  now = at_ms(5'011);
  const auto stop = all_of<StopProcess>(give(Tick{}));
  ASSERT_EQ(stop.size(), 1);
  EXPECT_EQ(stop[0].code, ExitCode::kPeerLost);
}

TEST_F(OwnerCoreTest, EndsWhenItGetsNoEpochInTime) {
  MemberIdentity newcomer = member(kProducer);
  newcomer.epoch = 0;
  OwnerCore joining{{.identity = newcomer,
                     .place = {.process = kProducer, .page_bytes = kPageBytes, .pages = kPages}},
                    PageTable{},
                    Generations(generations)};
  EXPECT_FALSE(joining.step(Tick{}, at_ms(10)).empty());
  // This may be about the incarnation before.
  static_cast<void>(joining.step(from(kController, EpochMessage{.process = kProducer, .epoch = 2}),
                                 at_ms(5'000)));
  EXPECT_TRUE(all_of<StopProcess>(joining.step(Tick{}, at_ms(5'010))).empty());
  EXPECT_EQ(all_of<StopProcess>(joining.step(Tick{}, at_ms(5'011))).size(), 1);
}

TEST_F(OwnerCoreTest, PublishesASampleThatCannotBeEncodedWithoutBytes) {
  give(from(kController,
            AssignMessage{.version = 1, .objects = {{.key = {.sample = 4}, .pages = 1}}}));
  std::vector<Action> actions = give(from(kController, Credit{1, 1, 1}));
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_TRUE(sent<PublishMessage>(actions).empty());
    const auto encode = all_of<Encode>(actions);
    ASSERT_EQ(encode.size(), 1);
    actions = give(EncodeFailed{.slot = encode[0].slot, .reason = "damaged"});
  }
  const auto published = sent<PublishMessage>(actions);
  ASSERT_EQ(published.size(), 1);
  const WireHandle& fields = published[0].second.handle.fields;
  EXPECT_EQ(fields.key.sample, 4);
  EXPECT_EQ(fields.bytes, 0);
  const Message message = published[0].second;
  EXPECT_TRUE(parse_message(type_of(message), body_of(message)).has_value());
  EXPECT_TRUE(all_of<Encode>(actions).empty());
  EXPECT_EQ(owner.objects().arena().used_pages(), 1);
  const auto refused = all_of<SendObject>(give(from(kConsumer, whole_object(fields, 1))));
  ASSERT_EQ(refused.size(), 1);  // nobody reads it
  EXPECT_EQ(refused[0].reply.status, static_cast<std::uint32_t>(Status::kBounds));
  give(from(kController, CommitMessage{.step = 0}));
  EXPECT_EQ(owner.objects().arena().used_pages(), 0);
}

TEST_F(OwnerCoreTest, IsBlockedWhileCreditsAreMissing) {
  EXPECT_FALSE(owner.is_blocked());
  give(from(kController,
            AssignMessage{.version = 1, .objects = {{.key = {.sample = 4}, .pages = 1}}}));
  EXPECT_TRUE(owner.is_blocked());
  const auto encode = all_of<Encode>(give(from(kController, Credit{1, 1, 1})));
  ASSERT_EQ(encode.size(), 1);
  EXPECT_FALSE(owner.is_blocked());
  give(Encoded{.slot = encode[0].slot, .description = {.bytes = 1}});
  EXPECT_FALSE(owner.is_blocked());
}

TEST_F(OwnerCoreTest, RevokesTheNewestObjectsForAnOlderOne) {
  make(0, {1});
  make(1, {2, 3, 4, 5, 6});
  // Another producer was lost: this one takes three more pages of step 0.
  AssignMessage more{.step = 0, .version = ++version};
  for (std::uint64_t sample : {1, 7, 8, 9}) more.objects.push_back({{.sample = sample}, 1});
  const std::vector<Action> actions = give(from(kController, more));
  const auto retracted = sent<RetractMessage>(actions);
  ASSERT_EQ(retracted.size(), 2);  // 8 pages - 1 - 4 of step 0 leave 3
  EXPECT_EQ(retracted[0].second.key.sample, 6);
  EXPECT_EQ(retracted[1].second.key.sample, 5);
  EXPECT_EQ(owner.credits().available(), 2 - all_of<Encode>(actions).size());
}

TEST_F(OwnerCoreTest, AsksUntilItHasReadWhatAnotherOneLends) {
  const auto asked = [&] { return sent<ResolveMessage>(give(Tick{})).size(); };
  const auto first = sent<ResolveMessage>(give(ObjectAsked{.key = {.sample = 8}, .step = 0}));
  ASSERT_EQ(first.size(), 1);
  EXPECT_EQ(first[0].second.key.sample, 8);
  EXPECT_EQ(asked(), 0);
  now = at_ms(300);
  EXPECT_EQ(asked(), 1);
  const PublishMessage there{.sequence = 1, .handle = handle_of(8, kOther)};
  for (const Status status : {Status::kStale, Status::kOk}) {
    const auto actions = give(from(kController, there));
    EXPECT_EQ(sent<AckMessage>(actions).size(), 1);
    const auto gets = all_of<StartGet>(actions);
    ASSERT_EQ(gets.size(), 1);
    EXPECT_EQ(gets[0].handle, there.handle);
    give(GetDone{.request = gets[0].request, .status = status});
    now = now + Nanoseconds{300'000'000};
    EXPECT_EQ(asked(), status == Status::kOk ? 0 : 1);
  }
  EXPECT_TRUE(all_of<StartGet>(give(from(kController, there))).empty());
}

TEST_F(OwnerCoreTest, AsksForNothingOfAStepThatIsOver) {
  give(ObjectAsked{.key = {.sample = 8}, .step = 0});
  give(ObjectAsked{.key = {.sample = 9}, .step = 1});
  give(from(kController, CommitMessage{.step = 0}));
  now = at_ms(300);
  const auto asked = sent<ResolveMessage>(give(Tick{}));
  ASSERT_EQ(asked.size(), 1);
  EXPECT_EQ(asked[0].second.key.sample, 9);
}

}  // namespace
}  // namespace tributary::memory
