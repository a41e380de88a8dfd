#include "data/record/column_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/record/record.h"

namespace tributary::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedRecord parse(const std::string& line, const RecordOptions& options = {}) {
  auto parsed = parse_record(line, "a.json[0]", options);
  if (!parsed) throw std::runtime_error(parsed.refusal().code + ": " + parsed.refusal().reason);
  return std::move(parsed).value();
}
std::string why_refused(const std::string& line, const RecordOptions& options = {}) {
  const auto parsed = parse_record(line, "a.json[0]", options);
  return parsed ? "accepted" : parsed.refusal().code + ": " + parsed.refusal().reason;
}

Turn user(std::vector<Part> parts) { return {Role::kUser, std::move(parts)}; }
Turn assistant(const char* text) { return {Role::kAssistant, {text}}; }
const MediaReference kFirst{Modality::kImage, 0};
const MediaReference kSecond{Modality::kImage, 1};

TEST(Alpaca, JoinsInstructionAndInput) {
  const ParsedRecord parsed =
      parse(R"({"instruction":"Translate.","input":"cat","output":"chat","id":1})");
  EXPECT_EQ(parsed.form, RecordForm::kAlpaca);
  EXPECT_THAT(parsed.record.turns, ElementsAre(user({"Translate.\ncat"}), assistant("chat")));
  EXPECT_THAT(parsed.record.unread_keys, ElementsAre("id"));
  for (const char* input : {"", R"("input":"",)", R"("input":null,)"})
    EXPECT_EQ(
        parse(R"({"instruction":"Hi",)" + std::string(input) + R"("output":"Ho"})").record.turns[0],
        user({"Hi"}));
}

TEST(Alpaca, ReadsSystemHistoryAndPictures) {
  const Record record = parse(R"({"instruction":"And <image>?","output":"A dog.","system":"Brief",)"
                              R"("history":[["What is <image>?","A cat."]],"images":["a","b"]})")
                            .record;
  EXPECT_THAT(record.turns,
              ElementsAre(Turn{Role::kSystem, {"Brief"}}, user({"What is ", kFirst, "?"}),
                          assistant("A cat."), user({"And ", kSecond, "?"}), assistant("A dog.")));
  EXPECT_THAT(record.images, ElementsAre("a", "b"));
}

TEST(Alpaca, RefusesWhatItCannotRead) {
  EXPECT_THAT(why_refused(R"({"instruction":"a","output":"b","history":"c"})"),
              HasSubstr("bad_field: history is of type string"));
  EXPECT_THAT(why_refused(R"({"instruction":"a","output":"b","history":[["c"]]})"),
              HasSubstr("history[0] is no pair"));
  EXPECT_THAT(why_refused(R"({"instruction":"a","output":7})"),
              HasSubstr("output is of type number"));
  EXPECT_THAT(why_refused(R"({"instruction":"a","output":""})"), HasSubstr("empty_text: turns[1]"));
  EXPECT_THAT(why_refused(R"({"instruction":"a"})"),
              HasSubstr("the Alpaca form without its `output`"));
  EXPECT_THAT(why_refused(R"({"instruction":"a","inptu":"b","output":"c"})"),
              HasSubstr("unread_key: record.inptu is not read: did you mean `input`?"));
  EXPECT_THAT(why_refused(R"({"instruction":"a","output":"c","tools":["x"]})"),
              HasSubstr("unread_key: record.tools"));
}

TEST(Query, ReadsColumnsOfSeveralNames) {
  for (const char* question : {"query", "prompt", "question"})
    for (const char* answer : {"response", "completion", "answer"}) {
      const ParsedRecord parsed =
          parse(str(R"({")", question, R"(":"2+2?",")", answer, R"(":"4"})"));
      EXPECT_EQ(parsed.form, RecordForm::kQuery);
      EXPECT_THAT(parsed.record.turns, ElementsAre(user({"2+2?"}), assistant("4")));
    }
  EXPECT_THAT(why_refused(R"({"query":"a","prompt":"b","answer":"c"})"),
              HasSubstr("bad_form: both query and prompt"));
  EXPECT_THAT(why_refused(R"({"query":"a"})"), HasSubstr("a question without its answer"));
}

TEST(Query, PutsPicturesThatNoTextNamesFirst) {
  const Record named = parse(R"({"query":"a <image> b","response":"c","images":["x"]})").record;
  EXPECT_EQ(named.turns[0], user({"a ", kFirst, " b"}));
  const Record unnamed = parse(R"({"question":"now?","answer":"c","images":["x","y"],)"
                               R"("system":"s","history":[["before?","b"]]})")
                             .record;
  EXPECT_THAT(unnamed.turns,
              ElementsAre(Turn{Role::kSystem, {"s"}}, user({kFirst, kSecond, "before?"}),
                          assistant("b"), user({"now?"}), assistant("c")));
  EXPECT_THAT(why_refused(R"({"query":"<image><image>","response":"c","images":["x"]})"),
              HasSubstr("placeholder_count: 2 image placeholders, 1 images"));
}

TEST(Query, ReadsMessagesInTheColumns) {
  const Record record = parse(R"({"prompt":[{"role":"system","content":"s"},)"
                              R"({"role":"user","content":"a"}],)"
                              R"("completion":[{"role":"assistant","content":"b"}]})")
                            .record;
  EXPECT_THAT(record.turns, ElementsAre(Turn{Role::kSystem, {"s"}}, user({"a"}), assistant("b")));
}

TEST(Query, TakesReferencesBesideOrInPlaceOfAnAnswer) {
  const Record listed =
      parse(R"({"question":"q","answers":["b","a","c","a"],"answer":"learned"})").record;
  EXPECT_THAT(listed.references, ElementsAre("b", "a", "c", "a"));
  EXPECT_THAT(listed.turns, ElementsAre(user({"q"}), assistant("learned")));
  const Record voted =
      parse(R"({"question":"q","answers":[{"answer":"b"},{"answer":"a","answer_id":2},"a"]})")
          .record;
  EXPECT_THAT(voted.references, ElementsAre("b", "a", "a"));
  EXPECT_THAT(voted.turns, ElementsAre(user({"q"}), assistant("a")));  // what most have said
  const Record chat = parse(R"({"messages":[{"role":"user","content":"q"},)"
                            R"({"role":"assistant","content":"long"}],"answers":["short"]})")
                          .record;
  EXPECT_THAT(chat.references, ElementsAre("short"));
  EXPECT_THAT(parse(R"({"question":"q","answer":"a","answers":[]})").record.references,
              testing::IsEmpty());
}

TEST(Query, RefusesReferencesThatAreNoTexts) {
  for (const auto& [answers, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("a")", "bad_field: answers is of type string"},
           {R"([7])", "bad_field: answers[0] is of type number"},
           {R"(["a"," "])", "empty_text: answers[1] has no text"},
           {R"([{"text":"a"}])", "answers[0]"},
           {"[]", "no_answer: answers is empty"}})
    EXPECT_THAT(why_refused(std::string(R"({"question":"q","answers":)") + answers + "}"),
                HasSubstr(words));
}

TEST(Caption, AnswersTheQuestionOfTheSource) {
  const RecordOptions asked{.question = "What is this?"};
  for (const char* picture : {"image", "file_name"})
    for (const char* text : {"text", "caption", "label"}) {
      const ParsedRecord parsed =
          parse(str(R"({")", picture, R"(":"a.png",")", text, R"(":"a cat"})"), asked);
      EXPECT_EQ(parsed.form, RecordForm::kCaption);
      EXPECT_THAT(parsed.record.turns,
                  ElementsAre(user({kFirst, "What is this?"}), assistant("a cat")));
      EXPECT_THAT(parsed.record.images, ElementsAre("a.png"));
    }
  EXPECT_THAT(why_refused(R"({"image":"a.png","text":"a cat"})"),
              HasSubstr("no_question: a picture with a text and no question; set `question`"));
  EXPECT_THAT(why_refused(R"({"image":"a.png","text":"a","label":"b"})", asked),
              HasSubstr("bad_form: both text and label"));
  EXPECT_THAT(why_refused(R"({"image":"a.png","label":3})", asked), HasSubstr("label is of type"));
}

TEST(Forms, AreChosenByKeysOrByName) {
  const std::string both = R"({"query":"a","response":"b","instruction":"c","output":"d"})";
  EXPECT_EQ(parse(both).form, RecordForm::kAlpaca);
  const ParsedRecord named = parse(both, {.form = RecordForm::kQuery});
  EXPECT_THAT(named.record.turns, ElementsAre(user({"a"}), assistant("b")));
  EXPECT_THAT(named.record.unread_keys, ElementsAre("instruction", "output"));
  EXPECT_THAT(why_refused(R"({"query":"a","response":"b"})", {.form = RecordForm::kAlpaca}),
              HasSubstr("bad_form: not of the form alpaca that `format` names; found query"));
  for (const RecordFormName& each : kRecordForms) EXPECT_EQ(find_form(each.name), each.form);
  EXPECT_EQ(find_form("auto"), std::nullopt);
}

TEST(Forms, NameRatings) {
  EXPECT_THAT(why_refused(R"({"query":"a","response":"b","label":false})"),
              HasSubstr("unread_key: record.label is not read: answers that are rated one by one"));
  EXPECT_THAT(parse(R"({"query":"a","response":"b","label":3})").record.unread_keys,
              ElementsAre("label"));
}

}  // namespace
}  // namespace tributary::data
