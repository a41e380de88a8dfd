#include "memory/wire/messages.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

#include "core/file/crc32c.h"
#include "core/random.h"
#include "tests/memory/full_size.h"

namespace tributary::memory {
namespace {

ObjectHandle make_handle() {
  const std::uint64_t first = GlobalAddress::make(Tier::kDram, 3, 4096).value().bits();
  return {.fields = {.key = {.sample = 7, .dataset_epoch = 1, .part = 2},
                     .first_gva = first,
                     .generation = 5,
                     .bytes = 6000,
                     .tokens = 3,
                     .crc32c = 9,
                     .epoch = 1,
                     .process = 3,
                     .dtype = static_cast<std::uint8_t>(ElementType::kBf16),
                     .shape = {3, 1000},
                     .dims = 2,
                     .extent_count = 2},
          .extents = {{.gva = first, .bytes = 4096}, {.gva = first + 16384, .bytes = 1904}}};
}

SegmentRow make_row() {
  return {.process = 3,
          .length = 8192,
          .page_bytes = 4096,
          .epoch = 2,
          .keys = {{.engine = Engine::kTcp, .bytes = {std::byte{4}}}}};
}

/// One message of each type, with every field in use.
std::vector<Message> make_messages() {
  const Key key{.sample = 7, .encoder_version = 1, .dataset_epoch = 2, .part = 3};
  return {
      Hello{.magic = kFrameMagic, .version = 1, .role = 2, .rank = 4, .world = 8},
      Challenge{.server = {.magic = kFrameMagic, .rank = 5}, .mac = {1}},
      Confirm{.mac = {2}},
      EpochMessage{.process = 3, .epoch = 2, .rows = {make_row()}, .digest = {std::byte{1}}},
      AssignMessage{.step = 1, .version = 2, .objects = {{.key = key, .pages = 4}, {.pages = 1}}},
      PublishMessage{.sequence = 6, .handle = make_handle()},
      RetractMessage{.key = key, .generation = 5},
      PlanMessage{.step = 1,
                  .microbatches = {{.dp_rank = 1, .order = 2, .keys = {key, {}}}, {.dp_rank = 3}}},
      GetRequest{.request = 1, .gva = 2, .generation = 3, .offset = 4, .length = 5, .epoch = 6},
      GetReply{.request = 1, .payload_bytes = 2, .status = 3, .crc32c = 4},
      LeaseMessage{.lease_id = 1, .entries = {{.gva = 2, .generation = 3}}},
      UnleaseMessage{.lease_id = 1},
      CommitMessage{.step = 1},
      Credit{.granted_pages = 1, .sequence = 2, .epoch = 3},
      Heartbeat{.step = 1,
                .progress = 2,
                .process = 3,
                .epoch = 4,
                .busy_ms = 5,
                .blocked_ms = 6,
                .leaves = 1},
      AckMessage{.type = FrameType::kPlan, .status = Status::kBusy, .sequence = 3, .key = key},
      FailMessage{.process = 3, .fault = 4, .text = "a reason"},
      ByeMessage{},
      ResolveMessage{.key = key, .sequence = 5},
      JoinMessage{.rows = {make_row(), make_row()}},
      WorkerMessage{.link = 3, .token = {std::byte{7}}, .address = {std::byte{1}, std::byte{2}}},
      PartMessage{.type = FrameType::kPlan,
                  .part = 1,
                  .parts = 2,
                  .digest = {std::byte{1}},
                  .content = {std::byte{5}, std::byte{6}}},
  };
}

TEST(Message, TravelsWhole) {
  const std::vector<Message> messages = make_messages();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(type_of(messages[i])), i + 1);
    const Result<Message> message = parse_message(type_of(messages[i]), body_of(messages[i]));
    ASSERT_TRUE(message) << message.refusal().reason;
    EXPECT_EQ(message.value(), messages[i]) << name_of(type_of(messages[i]));
  }
}

TEST(Message, RefusesEveryTruncationAndEveryExcess) {
  for (const Message& message : make_messages()) {
    const FrameType type = type_of(message);
    std::vector<std::byte> body = body_of(message);
    body.push_back(std::byte{0});
    // The text of a FAIL is the rest of its body.
    EXPECT_EQ(parse_message(type, body).has_value(), type == FrameType::kFail) << name_of(type);
    body.pop_back();
    for (std::size_t length = 0; length < body.size(); ++length) {
      const bool is_whole = type == FrameType::kFail && length >= 8;
      EXPECT_EQ(parse_message(type, std::span(body).first(length)).has_value(), is_whole)
          << name_of(type) << ", " << length << " bytes";
    }
  }
}

TEST(Message, TakesNoCountThatItsBodyCannotHold) {
  for (const FrameType type : {FrameType::kAssign, FrameType::kPlan, FrameType::kLease,
                               FrameType::kJoin, FrameType::kPart}) {
    std::vector<std::byte> body(1024);
    std::fill_n(body.begin(), 24, std::byte{0xff});  // the count is among these
    EXPECT_FALSE(parse_message(type, body)) << name_of(type);
  }
}

TEST(Message, RefusesHandlesWhoseFieldsDisagree) {
  const auto refuses = [](auto change) {
    ObjectHandle handle = make_handle();
    change(handle);
    return !parse_message(FrameType::kPublish, body_of(PublishMessage{.handle = handle}));
  };
  EXPECT_FALSE(refuses([](ObjectHandle&) {}));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.zero = 1; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.key.zero = 1; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.generation = 0; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.bytes = one.fields.dims = 0; }));
  EXPECT_FALSE(refuses([](ObjectHandle& one) {  // an object that cannot be made
    one.fields.bytes = one.fields.dims = one.fields.extent_count = 0;
    one.extents.clear();
  }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.dims = 5; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.dtype = 9; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.shape[0] = 4; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.tier = 1; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.process = 4; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.first_gva += 4096; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.flags = kScattered; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.fields.extent_count = 9; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.extents[1].bytes += 1; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) { one.extents[1].gva = 5; }));
  EXPECT_TRUE(refuses([](ObjectHandle& one) {  // 2^64 bytes more
    one.extents[1].bytes = ~std::uint64_t{0} - 4095 + 1904;
    one.extents[0].bytes = 4096;
  }));
}

TEST(Message, RefusesValuesOutOfRange) {
  EXPECT_FALSE(parse_message(FrameType::kCredit, body_of(Credit{.zero = 1})));
  EXPECT_FALSE(parse_message(FrameType::kRetract, body_of(RetractMessage{.key = {.zero = 1}})));
  EXPECT_FALSE(parse_message(FrameType::kAck,
                             body_of(AckMessage{.type = FrameType::kBye, .status = Status{9}})));
  EXPECT_FALSE(parse_message(FrameType::kAck, body_of(AckMessage{.type = FrameType{23}})));
  EXPECT_FALSE(
      parse_message(FrameType::kAssign, body_of(AssignMessage{.objects = {{.pages = 0}}})));
  EXPECT_FALSE(parse_message(
      FrameType::kEpoch, body_of(EpochMessage{.process = 4, .epoch = 2, .rows = {make_row()}})));
  const auto takes_part = [](FrameType type, std::uint32_t part, std::uint32_t parts) {
    const PartMessage message{
        .type = type, .part = part, .parts = parts, .digest = {}, .content = {std::byte{1}}};
    return parse_message(FrameType::kPart, body_of(message)).has_value();
  };
  EXPECT_TRUE(takes_part(FrameType::kPlan, 0, 2));
  EXPECT_TRUE(takes_part(FrameType::kAssign, kMaxParts - 1, kMaxParts));
  EXPECT_FALSE(takes_part(FrameType::kPart, 0, 2));  // no parts of parts
  EXPECT_FALSE(takes_part(FrameType::kHello, 0, 2));
  EXPECT_FALSE(takes_part(FrameType::kPlan, 2, 2));
  EXPECT_FALSE(takes_part(FrameType::kPlan, 0, 1));
  EXPECT_FALSE(takes_part(FrameType::kPlan, 0, kMaxParts + 1));
  std::vector<std::byte> fail = body_of(FailMessage{.text = std::string(600, 'x')});
  EXPECT_EQ(fail.size(), 8 + FailMessage::kMaxTextBytes);  // the sender cuts it
  fail.push_back(std::byte{1});
  EXPECT_FALSE(parse_message(FrameType::kFail, fail));
}

/// Changes bytes, cuts or lengthens, and now and then makes the checksums fit again.
std::vector<std::byte> mutate(std::vector<std::byte> frame, RandomStream& draw) {
  for (std::uint64_t n = 1 + draw.below(3); n > 0; --n)
    frame[draw.below(frame.size())] = static_cast<std::byte>(draw.next());
  if (draw.below(4) == 0) frame.resize(32 + draw.below(frame.size()));
  if (draw.below(4) == 0) return frame;
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  header.magic = kFrameMagic;
  header.version = kFrameVersion;
  header.flags = 0;
  header.body_bytes = static_cast<std::uint32_t>(frame.size() - sizeof header);
  header.body_crc = crc32c(std::span(frame).subspan(sizeof header));
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(28));
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

TEST(Message, SurvivesFuzzedFrames) {  // I19, the parser's part
  RandomStream draw(0, "messages_test");
  const std::vector<Message> messages = make_messages();
  int accepted = 0, refused = 0;
  for (int i = 0; i < cases(40'000, 1'000'000); ++i) {
    const Message& original = messages[draw.below(messages.size())];
    const std::vector<std::byte> bytes =
        mutate(frame_bytes(type_of(original), 1, 0, body_of(original)), draw);
    FrameParser parser;
    const Result<FrameParser::Fed> fed = parser.feed(bytes);
    if (!fed || !fed.value().frame) {
      ++refused;
      continue;
    }
    const Frame& frame = *fed.value().frame;
    const Result<Message> message = parse_message(frame.type(), frame.body);
    ++(message ? accepted : refused);
    // Nothing that is accepted has bytes that were not understood. BYE has no body to say.
    if (!message || frame.type() == FrameType::kBye) continue;
    ASSERT_EQ(body_of(message.value()), frame.body) << name_of(frame.type());
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tributary::memory
