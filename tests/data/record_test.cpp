#include "data/record/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"
#include "core/text.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record read(const std::string& line) {
  auto parsed = parse_record(line, "train.jsonl:7");
  if (!parsed) throw std::runtime_error(parsed.refusal().code + ": " + parsed.refusal().reason);
  return std::move(parsed).value().record;
}

/// "code: reason" of a line that must be refused.
std::string refusal(const std::string& line) {
  const auto parsed = parse_record(line, "train.jsonl:7");
  return parsed ? "accepted" : parsed.refusal().code + ": " + parsed.refusal().reason;
}

std::string asked(const std::string& content) {
  return R"({"messages":[{"role":"user","content":)" + content +
         R"(},{"role":"assistant","content":"yes"}]})";
}

std::string told(const std::string& question, const std::string& rest = "") {
  return R"({"conversations":[{"from":"human","value":")" + question +
         R"("},{"from":"gpt","value":"yes"}])" + rest + "}";
}

const MediaReference kFirstImage{Modality::kImage, 0};
const MediaReference kSecondImage{Modality::kImage, 1};
const MediaReference kFirstClip{Modality::kVideo, 0};

TEST(ParseRecord, ReadsMessagesWithText) {
  const Record record = read(
      R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"2+2?"},)"
      R"({"role":"assistant","content":"4"}],"id":17,"extra":null})");
  EXPECT_EQ(record.key, "train.jsonl:7");
  EXPECT_THAT(record.turns,
              ElementsAre(Turn{Role::kSystem, {"be brief"}}, Turn{Role::kUser, {"2+2?"}},
                          Turn{Role::kAssistant, {"4"}}));
}

TEST(ParseRecord, ReadsContentLists) {
  const Record record =
      read(asked(R"([{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x.png"}},)"
                 R"({"type":"image","image":"y.png"},{"type":"text","text":"b"},)"
                 R"({"type":"video","video":["f0.png","f1.png"],"fps":4},)"
                 R"({"type":"video_url","video_url":{"url":"c.mp4"}}])"));
  const Part second_clip(MediaReference{Modality::kVideo, 1});
  EXPECT_THAT(record.turns[0].parts, ElementsAre(Part("a"), Part(kFirstImage), Part(kSecondImage),
                                                 Part("b"), Part(kFirstClip), second_clip));
  EXPECT_THAT(record.images, ElementsAre("x.png", "y.png"));
  EXPECT_THAT(record.clips, ElementsAre(Clip{{"f0.png", "f1.png"}, 4}, Clip{{}, 2, "c.mp4"}));
}

TEST(ParseRecord, ReadsConversationsWithPlaceholders) {
  const Record record = read(told("<image>\\nleft, <image> or <video>?",
                                  R"(,"images":["a.png","b.png"],"video":["0.png"],"fps":1)"));
  EXPECT_THAT(record.turns[0].parts,
              ElementsAre(Part(kFirstImage), Part("\nleft, "), Part(kSecondImage), Part(" or "),
                          Part(kFirstClip), Part("?")));
  EXPECT_THAT(record.images, ElementsAre("a.png", "b.png"));
  EXPECT_THAT(record.clips, ElementsAre(Clip{{"0.png"}, 1}));
  EXPECT_THAT(read(told("<image>", R"(,"image":"a.png")")).images, ElementsAre("a.png"));
  EXPECT_EQ(read(told("<video><video>", R"(,"videos":[["0.png"],["1.png","2.png"]])")).clips.size(),
            2u);
}

TEST(ParseRecord, ReadsPlaceholdersOfMessagesButNotInTextParts) {
  EXPECT_THAT(refusal(asked(R"("what is in <image>?")")),
              HasSubstr("placeholder_count: 1 image placeholders, 0 images in the record"));
  EXPECT_THAT(read(asked(R"([{"type":"text","text":"write <image> in HTML"}])")).turns[0].parts,
              ElementsAre(Part("write <image> in HTML")));
  const std::string listed = R"({"messages":[{"role":"user","content":"<image>what?"},)"
                             R"({"role":"assistant","content":"a cat"}],"images":["a.png"]})";
  EXPECT_THAT(read(listed).turns[0].parts, ElementsAre(Part(kFirstImage), Part("what?")));
  const std::string parts =
      R"({"messages":[{"role":"user","content":[{"type":"image"},{"type":"text","text":"what?"}]},)"
      R"({"role":"assistant","content":"a cat"}],"images":["a.png"]})";
  EXPECT_THAT(read(parts).turns[0].parts, ElementsAre(Part(kFirstImage), Part("what?")));
}

TEST(ParseRecord, ReadsSounds) {
  const MediaReference first{Modality::kAudio, 0};
  const MediaReference second{Modality::kAudio, 1};
  for (const char* key : {"audio", "audio_url", "path", "value"}) {
    const Record record = read(asked(
        str(R"([{"type":"audio",")", key, R"(":"a.wav"},)", R"({"type":"text","text":"what?"}])")));
    EXPECT_THAT(record.turns[0].parts, ElementsAre(Part(first), Part("what?"))) << key;
    EXPECT_THAT(record.sounds, ElementsAre("a.wav")) << key;
  }
  const Record listed = read(told("<audio> or <audio>?", R"(,"audios":["a.wav","b.mp3"])"));
  EXPECT_THAT(listed.turns[0].parts,
              ElementsAre(Part(first), Part(" or "), Part(second), Part("?")));
  EXPECT_THAT(listed.sounds, ElementsAre("a.wav", "b.mp3"));
  EXPECT_THAT(refusal(told("<audio>?", R"(,"audios":["a.wav","b.mp3"])")),
              HasSubstr("placeholder_count: 1 audio placeholders, 2 sounds in the record"));
  EXPECT_THAT(refusal(asked(R"([{"type":"audio","audio":"a.wav","audio_url":"b.wav"}])")),
              HasSubstr("names a sound twice"));
  EXPECT_THAT(refusal(asked(R"([{"type":"audio","audio":"a.wav","fps":2}])")),
              HasSubstr("unread_key"));
}

TEST(ParseRecord, ReadsPartsThatNameTheirContentAValue) {
  const Record record =
      read(asked(R"([{"type":"image_url","value":"a.png"},{"type":"video_url","value":"b.mp4"},)"
                 R"({"type":"text","value":"what?"}])"));
  EXPECT_THAT(record.turns[0].parts,
              ElementsAre(Part(kFirstImage), Part(kFirstClip), Part("what?")));
  EXPECT_THAT(record.images, ElementsAre("a.png"));
  EXPECT_EQ(record.clips.at(0).file, "b.mp4");
  EXPECT_THAT(refusal(asked(R"([{"type":"image_url","image_url":"a.png","value":"b.png"}])")),
              HasSubstr("names a picture twice, as `image_url` and as `value`"));
}

TEST(ParseRecord, ReadsQuestionsWithTheirAnswersInOneObject) {
  const Record record =
      read(R"({"conversation":[{"human":"a","assistant":"b"},{"human":"c","assistant":"d"}]})");
  EXPECT_THAT(record.turns, ElementsAre(Turn{Role::kUser, {"a"}}, Turn{Role::kAssistant, {"b"}},
                                        Turn{Role::kUser, {"c"}}, Turn{Role::kAssistant, {"d"}}));
  EXPECT_THAT(refusal(R"({"conversation":[{"human":"a"}]})"),
              HasSubstr("conversation[0].assistant is missing"));
  EXPECT_THAT(refusal(R"({"conversation":[],"conversations":[{}]})"), HasSubstr("bad_form: both"));
}

TEST(ParseRecord, ReadsTheSystemColumn) {
  const Record record = read(told("2+2?", R"(,"system":"be brief")"));
  EXPECT_EQ(record.turns[0], (Turn{Role::kSystem, {"be brief"}}));
  EXPECT_EQ(read(told("2+2?", R"(,"system":"")")).turns.size(), 2u);
  EXPECT_THAT(refusal(R"({"system":"a","messages":[{"role":"system","content":"b"},)"
                      R"({"role":"assistant","content":"c"}]})"),
              HasSubstr("is a system turn that is not the first"));
}

TEST(ParseRecord, ReadsWhichAnswersCount) {
  const auto answers = [](const std::string& first, const std::string& second) {
    return R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b")" +
           first + R"(},{"role":"assistant","content":"c")" + second + "}]}";
  };
  for (const char* key :
       {R"(,"weight":0)", R"(,"loss_weight":0.0)", R"(,"train":false)", R"(,"loss":false)"}) {
    const Record record = read(answers(key, ""));
    EXPECT_FALSE(record.turns[1].is_learned) << key;
    EXPECT_TRUE(record.turns[2].is_learned) << key;
    EXPECT_THAT(refusal(answers(key, key)), HasSubstr("no_answer: messages has no assistant turn"));
  }
  EXPECT_TRUE(read(answers(R"(,"weight":1,"train":true)", "")).turns[1].is_learned);
  EXPECT_THAT(refusal(answers(R"(,"weight":0.5)", "")), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(refusal(answers(R"(,"train":"no")", "")), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal(answers(R"(,"weight":1,"train":false)", "")), HasSubstr("contradict"));
  EXPECT_THAT(refusal(answers(R"(,"train":false,"loss":true)", "")),
              HasSubstr("messages[1] has a train and a loss that contradict each other"));
}

TEST(ParseRecord, RefusesKeysThatWouldChangeWhatIsLearned) {
  for (const char* rest : {R"(,"tools":[{"name":"search"}])", R"(,"rejected":"no")",
                           R"(,"bbox":[[1,2,3,4]])", R"(,"weight":0.5)"})
    EXPECT_THAT(refusal(told("a", rest)), HasSubstr("unread_key: record.")) << rest;
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant",)"
                      R"("content":"b","reasoning_content":"hm"}]})"),
              HasSubstr("unread_key: messages[1].reasoning_content is not read: thinking"));
  EXPECT_THAT(refusal(asked(R"([{"type":"image","image":"a.png","max_pixels":9}])")),
              HasSubstr("messages[0].content[0].max_pixels is not read: set data.max_pixels"));
  EXPECT_EQ(refusal(told("a", R"(,"tools":"[]","objects":{},"rejected":null)")), "accepted");
}

TEST(ParseRecord, RefusesKeysWithinPictures) {
  EXPECT_THAT(
      refusal(asked(R"([{"type":"image_url","image_url":{"url":"a","detail":"low"}}])")),
      HasSubstr("unread_key: messages[0].content[0].image_url.detail is not read: set data"));
  EXPECT_EQ(refusal(asked(R"([{"type":"image_url","image_url":{"url":"a","detail":"auto"}}])")),
            "accepted");
  EXPECT_THAT(refusal(asked(R"([{"type":"image","image":"a.png","detail":"high"}])")),
              HasSubstr("unread_key: messages[0].content[0].detail"));
  EXPECT_THAT(refusal(told("<image>", R"(,"images":[{"path":"a.png","resized_height":28}])")),
              HasSubstr("unread_key: images[0].resized_height is not read: set data.max_pixels"));
  EXPECT_THAT(refusal(told("<image>", R"(,"images":[{"path":"a.png","bytes":"iVBO"}])")),
              HasSubstr("unread_key: images[0].bytes is not read: write a data URL"));
  EXPECT_EQ(refusal(told("<image>", R"(,"images":[{"path":"a.png","bytes":null}])")), "accepted");
  EXPECT_THAT(refusal(told("<image>", R"(,"image":"a.png","max_pixels":784)")),
              HasSubstr("unread_key: record.max_pixels"));
  EXPECT_THAT(refusal(asked(R"([{"type":"text","text":"a","image":"a.png"}])")),
              HasSubstr("messages[0].content[0].image is not read: a part of this `type` has no"));
  EXPECT_THAT(refusal(asked(R"([{"type":"image","image":"a.png","path":"b.png"}])")),
              HasSubstr("messages[0].content[0] names a picture twice"));
}

TEST(ParseRecord, NamesSlipsOfThePen) {
  EXPECT_THAT(
      refusal(asked(R"([{"type":"image","imgae":"a.png"},{"type":"text","text":"b"}])")),
      HasSubstr("unread_key: messages[0].content[0].imgae is not read: did you mean `image`"));
  EXPECT_THAT(refusal(told("a", R"(,"sytem":"be brief")")), HasSubstr("did you mean `system`?"));
  EXPECT_THAT(refusal(told("a", R"(,"imagse":["a.png"])")), HasSubstr("did you mean `images`?"));
}

TEST(ParseRecord, NamesKeysThatNothingReads) {
  const Record record = read(
      R"({"id":7,"source":"web","note":null,"tags":[],"odd key":1,"messages":[)"
      R"({"role":"user","name":"ann","content":[{"type":"text","text":"a","cache":1},)"
      R"({"type":"text","text":"b","cache":2}]},{"role":"assistant","name":"bot","content":"c"}]})");
  EXPECT_THAT(record.unread_keys,
              testing::UnorderedElementsAre("id", "source", "\"odd key\"", "messages[].name",
                                            "messages[].content[].cache"));
  EXPECT_THAT(read(told("<image>", R"(,"images":[{"path":"a.png","height":5}])")).unread_keys,
              ElementsAre("images[].height"));
  EXPECT_THAT(read(told("a")).unread_keys, testing::IsEmpty());
}

TEST(ParseRecord, NamesTheKeysOfARecordOfNoForm) {
  EXPECT_THAT(refusal(R"({"query":"a","id":"b"})"),
              HasSubstr("bad_form: no known form; found id, query: a question without its answer; "
                        "docs/formats/data.md shows the forms"));
  EXPECT_THAT(refusal(R"({"file_name":"a.png","width":3})"), HasSubstr("a picture without its"));
  EXPECT_THAT(refusal(R"({"speech":"a"})"), testing::EndsWith("no known form; found speech"));
  EXPECT_THAT(refusal("{}"), testing::EndsWith("found no key"));
}

TEST(ParseRecord, RefusesWhatIsNotOneJsonObject) {
  EXPECT_THAT(refusal("{\"messages\": [}"),
              HasSubstr("bad_json: line is not valid JSON: byte 15: unexpected '}'; expected '['"));
  EXPECT_THAT(refusal(""), HasSubstr("bad_json"));
  EXPECT_THAT(refusal(asked("\"a\"") + " {}"), HasSubstr("bad_json"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("bad_form: record is a array"));
  EXPECT_THAT(refusal(R"({"messages":[],"messages":[]})"),
              AllOf(HasSubstr("bad_json"), HasSubstr("duplicate key"), HasSubstr("messages")));
  EXPECT_THAT(refusal(std::string(40, '[') + std::string(40, ']')), HasSubstr("depth <= 32"));
  EXPECT_THAT(refusal(R"({"messages":1e999})"), HasSubstr("bad_json"));
  EXPECT_THAT(refusal(R"({"messages":NaN})"), HasSubstr("bad_json"));
  EXPECT_THAT(refusal(std::string((16u << 20) + 1, ' ')),
              HasSubstr("line_too_long: 16777217 bytes, limit 16777216"));
}

TEST(ParseRecord, RefusesInvalidText) {
  EXPECT_THAT(refusal(asked("\"\xc0\xaf\"")), HasSubstr("bad_utf8"));      // overlong
  EXPECT_THAT(refusal(asked("\"\xed\xa0\x80\"")), HasSubstr("bad_utf8"));  // surrogate
  EXPECT_THAT(refusal(asked("\"\xe2\x82\"")), HasSubstr("bad_utf8"));      // truncated
  EXPECT_THAT(refusal(asked(R"("\ud800 alone")")), HasSubstr("bad_json"));
  EXPECT_THAT(refusal(asked(R"("a\u0000b")")),
              HasSubstr("bad_text: messages[0].content holds a NUL character"));
  EXPECT_THAT(refusal(asked(R"("  \n")")),
              HasSubstr("empty_text: messages[0] has neither text nor image"));
  EXPECT_THAT(refusal(asked("[]")), HasSubstr("empty_text"));
}

TEST(ParseRecord, RefusesMissingAndWrongFields) {
  EXPECT_THAT(refusal(R"({"speech":"hello"})"), HasSubstr("bad_form: no known form"));
  EXPECT_THAT(refusal(R"({"messages":[],"conversations":[]})"), HasSubstr("bad_form: both"));
  EXPECT_THAT(refusal(R"({"messages":"hello"})"),
              HasSubstr("bad_field: messages is of type string, expected list"));
  EXPECT_THAT(refusal(R"({"messages":["hello"]})"),
              HasSubstr("bad_field: messages[0] is of type string, expected object"));
  EXPECT_THAT(refusal(R"({"messages":[{"content":"a"}]})"),
              HasSubstr("bad_field: messages[0].role is missing"));
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user"}]})"),
              HasSubstr("bad_field: messages[0].content is missing"));
  EXPECT_THAT(refusal(R"({"conversations":[{"from":"human"}]})"),
              HasSubstr("bad_field: conversations[0].value is missing"));
  EXPECT_THAT(refusal(asked("7")), HasSubstr("messages[0].content is of type number"));
  EXPECT_THAT(refusal(asked(R"([{"type":"depth","depth":"a.png"}])")),
              HasSubstr("messages[0].content[0].type = \"depth\", expected text, image_url"));
  EXPECT_THAT(refusal(asked(R"([{"type":"image_url"}])")),
              HasSubstr("messages[0].content[0].image_url is missing"));
  EXPECT_THAT(refusal(asked(R"([{"type":"video","video":["0.png"],"fps":0}])")),
              HasSubstr("fps = 0, expected above 0"));
  EXPECT_THAT(refusal(asked(R"([{"type":"video","video":[]}])")),
              HasSubstr("video has 0 frames, expected 1 to 768"));
}

TEST(ParseRecord, RefusesRolesOutOfPlace) {
  EXPECT_THAT(refusal(R"({"messages":[{"role":"tool","content":"a"}]})"),
              HasSubstr("bad_role: messages[0].role = \"tool\""));
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"a"},)"
                      R"({"role":"system","content":"b"},{"role":"assistant","content":"c"}]})"),
              HasSubstr("bad_role: messages[1] is a system turn that is not the first"));
}

TEST(ParseRecord, RefusesARecordWithNothingToLearn) {
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"a"}]})"),
              HasSubstr("no_answer: messages has no assistant turn"));
  EXPECT_THAT(refusal(R"({"messages":[]})"), HasSubstr("no_answer"));
  EXPECT_THAT(refusal(R"({"conversations":[]})"), HasSubstr("no_answer"));
}

TEST(ParseRecord, RefusesPlaceholdersWithoutTheirMedia) {
  EXPECT_THAT(refusal(told("<image> and <image>", R"(,"image":"a.png")")),
              HasSubstr("placeholder_count: 2 image placeholders, 1 images in the record"));
  EXPECT_THAT(refusal(told("no picture", R"(,"images":["a.png"])")),
              HasSubstr("placeholder_count: 0 image placeholders, 1 images"));
  EXPECT_THAT(refusal(told("<image>")), HasSubstr("placeholder_count: 1 image placeholders, 0"));
  EXPECT_THAT(refusal(told("<video>")), HasSubstr("placeholder_count: 1 video placeholders, 0"));
  EXPECT_THAT(refusal(told("<video>", R"(,"videos":"clip.mp4")")),
              HasSubstr("bad_field: videos is of type string, expected a list of clips"));
}

/// A chat about one image, with `objects` beside it.
std::string located(const std::string& question, const std::string& answer,
                    const std::string& objects) {
  return R"({"messages":[{"role":"user","content":"<image>)" + question +
         R"("},{"role":"assistant","content":")" + answer + R"("}],"images":["a.png"],"objects":)" +
         objects + "}";
}

TEST(ParseRecord, ReadsObjectsInTheOrderOfTheirPlaceholders) {
  using enum ObjectReference::Kind;
  const Record record =
      read(located("Find the <ref-object>", "<bbox>, <bbox> near <ref-object>",
                   R"({"ref":["cat","dog"],"bbox":[[1,2,3.5,4],[9,8]],"bbox_type":"norm1"})"));
  EXPECT_THAT(record.turns[0].parts,
              ElementsAre(Part(kFirstImage), Part("Find the "), Part(ObjectReference{kName, 0})));
  EXPECT_THAT(record.turns[1].parts, ElementsAre(Part(ObjectReference{kBox, 0}), Part(", "),
                                                 Part(ObjectReference{kBox, 1}), Part(" near "),
                                                 Part(ObjectReference{kName, 1})));
  EXPECT_THAT(record.object_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(record.boxes, ElementsAre(Box{{1, 2, 3.5, 4}, 0, true}, Box{{9, 8}, 0, true}));
  const Record turned = read(located("<bbox>?", "<bbox>", R"({"bbox":[[3,4,1,2],[1,2,3,4]]})"));
  EXPECT_THAT(turned.boxes, ElementsAre(Box{{1, 2, 3, 4}}, Box{{1, 2, 3, 4}}));
  // Without the key the words are text.
  EXPECT_THAT(read(told("a <bbox>?")).turns[0].parts, ElementsAre(Part("a <bbox>?")));
}

TEST(ParseRecord, RefusesObjectsThatDoNotFitTheText) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {located("a", "b", R"({"ref":["cat"]})"),
       "placeholder_count: 0 <ref-object> in the text, 1 names in objects.ref"},
      {located("<bbox>", "<bbox>", R"({"bbox":[[1,2]]})"),
       "placeholder_count: 2 <bbox> in the text, 1 boxes in objects.bbox"},
      {located("a", "<bbox>", R"({"bbox":[[1,2,3]]})"), "objects.bbox[0] has 3 numbers"},
      {located("a", "<bbox>", R"({"bbox":[[1,"2"]]})"), "objects.bbox[0] holds what is no number"},
      {located("a", "<bbox>", R"({"bbox":{"a":1}})"), "objects.bbox is of type object"},
      {located("a", "<bbox>", R"({"bbox":[[1,2]],"bbox_type":"norm1000"})"),
       "objects.bbox_type = \"norm1000\", expected real or norm1"},
      {located("a", "<bbox>", R"({"bbox":[[1,2]],"image_id":[0,0]})"),
       "objects.image_id has 2 numbers, objects.bbox has 1 boxes"},
      {located("a", "<bbox>", R"({"bbox":[[1,2]],"image_id":[-1]})"),
       "objects.image_id[0] is no number of an image"},
      {located("a", "<bbox>", R"({"bbox":[[1,2]],"image_id":[1]})"),
       "objects.bbox[0] lies in image 1, the record has 1 images"},
      {located("a", "<bbox>", R"({"bbox":[[1,2]],"bbox_typ":"real"})"),
       "did you mean `bbox_type`?"},
      {told("<bbox>", R"(,"objects":{"bbox":[[1,2]]})"), "the record has 0 images"},
      {told("a", R"(,"objects":[[1,2]])"), "objects is of type array, expected object"}};
  for (const auto& [line, expected] : cases)
    EXPECT_THAT(refusal(line), HasSubstr(expected)) << line;
}

TEST(ParseRecord, RefusesPicturesInAnswers) {
  EXPECT_THAT(refusal(R"({"conversations":[{"from":"human","value":"draw"},)"
                      R"({"from":"gpt","value":"<image>"}],"image":"a.png"})"),
              HasSubstr("media_in_answer: conversations[1]"));
}

/// Any bytes give a record or a refusal, never a crash or an exception.
TEST(ParseRecord, SurvivesDamagedLines) {
  const std::vector<std::string> corpus{
      asked(R"([{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x.png"}}])"),
      told("<image> or <video>?", R"(,"images":["a.png"],"videos":[["0.png"]],"fps":1.5)"),
      asked("\"h\xc3\xa9llo \xf0\x9f\x98\x80 \\u00e9\""),
      R"({"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"b"}],)"
      R"("images":[{"path":"a.png"}]})"};
  int accepted = 0;
  for (std::uint64_t round = 0; round < 20000; ++round) {
    SCOPED_TRACE(str("round ", round));
    RandomStream random(23, "damage", round);
    std::string line = corpus[random.below(corpus.size())];
    for (std::uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
      const std::size_t at = random.below(line.size());
      switch (random.below(4)) {
        case 0:
          line[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          line.insert(at, line.substr(random.below(line.size()), random.below(12)));
          break;
        case 2:
          line.erase(at, 1 + random.below(3));
          break;
        default:
          std::swap(line[at], line[random.below(line.size())]);
      }
      if (line.empty()) line = "{";
    }
    const auto parsed = parse_record(line, "x:1");
    accepted += parsed.has_value() ? 1 : 0;
    EXPECT_TRUE(parsed || !parsed.refusal().code.empty());
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19000);
}

}  // namespace
}  // namespace tributary::data
