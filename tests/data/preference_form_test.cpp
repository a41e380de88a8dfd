#include "data/record/preference_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/record/record.h"

namespace tributary::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record read_pair(const std::string& line) {
  auto parsed = parse_record(line, "a.json[0]", {.answers = Answers::kPair});
  if (!parsed) throw std::runtime_error(parsed.refusal().code + ": " + parsed.refusal().reason);
  EXPECT_EQ(parsed.value().form, RecordForm::kPreference);
  return std::move(parsed).value().record;
}
std::string pair_refusal(const std::string& line, Answers answers = Answers::kPair) {
  const auto parsed = parse_record(line, "a.json[0]", {.answers = answers});
  return parsed ? "accepted" : parsed.refusal().code + ": " + parsed.refusal().reason;
}

Turn asked(std::vector<Part> parts) { return {Role::kUser, std::move(parts)}; }
Turn said(const char* text) { return {Role::kAssistant, {text}}; }
Turn said_before(const char* text) { return {Role::kAssistant, {text}, /*is_learned=*/false}; }
const MediaReference kFirstPicture{Modality::kImage, 0};

/// A conversation in the OpenAI form: a question, and what follows it.
std::string talk(const std::string& rest) {
  return R"([{"role":"user","content":"Hi"})" + rest + "]";
}
std::string answer(const std::string& text) {
  return R"(,{"role":"assistant","content":")" + text + R"("})";
}

TEST(Preference, ReadsAPromptWithTwoAnswers) {
  for (const char* line : {R"({"prompt":"Hi","chosen":"Ho","rejected":"No"})",
                           R"({"question":"Hi","chosen":"Ho","rejected":"No"})",
                           R"({"query":"Hi","response":"Ho","rejected_response":"No"})",
                           R"({"instruction":"Hi","input":"","chosen":"Ho","rejected":"No"})",
                           R"({"prompt":[{"role":"user","content":"Hi"}],
            "chosen":[{"role":"assistant","content":"Ho"}],
            "rejected":[{"role":"assistant","content":"No"}]})",
                           R"({"chosen_messages":[{"role":"user","content":"Hi"},
            {"role":"assistant","content":"Ho"}],"rejected_messages":[
            {"role":"user","content":"Hi"},{"role":"assistant","content":"No"}]})",
                           R"({"conversations":[{"from":"human","value":"Hi"}],
            "chosen":{"from":"gpt","value":"Ho"},"rejected":{"from":"gpt","value":"No"}})",
                           R"({"conversation":[{"from":"human","value":"Hi"}],
            "chosen":{"from":"gpt","value":"Ho"},"rejected":{"from":"gpt","value":"No"}})"}) {
    const Record record = read_pair(line);
    EXPECT_THAT(record.turns, ElementsAre(asked({"Hi"}), said("Ho"))) << line;
    EXPECT_THAT(record.rejected, ElementsAre(asked({"Hi"}), said("No"))) << line;
    EXPECT_TRUE(record.unread_keys.empty()) << line;
  }
}

TEST(Preference, FindsThePromptThatTwoConversationsBeginWith) {
  const std::string before = talk(answer("Yes?") + R"(,{"role":"user","content":"And?"})");
  const std::string open = before.substr(0, before.size() - 1);
  const std::string pair =
      R"({"chosen":)" + open + answer("Ho") + R"(],"rejected":)" + open + answer("No") + "]";
  for (const std::string& rest : {std::string(), std::string(R"(,"prompt":"And?")"),
                                  R"(,"messages":)" + open + answer("Ho") + "]"}) {
    const Record record = read_pair(pair + rest + "}");
    EXPECT_THAT(record.turns,
                ElementsAre(asked({"Hi"}), said_before("Yes?"), asked({"And?"}), said("Ho")));
    EXPECT_THAT(record.rejected,
                ElementsAre(asked({"Hi"}), said_before("Yes?"), asked({"And?"}), said("No")));
  }
  EXPECT_THAT(pair_refusal(pair + R"(,"prompt":"Hi"})"),
              HasSubstr("bad_form: prompt is not the question that chosen and rejected begin"));
  EXPECT_THAT(pair_refusal(pair + R"(,"messages":)" + open + "]}"),
              HasSubstr("bad_form: messages is neither a prompt nor the same as chosen"));
}

TEST(Preference, TakesTheLastAnswerOfMessagesAsTheChosenOne) {
  const std::string messages = R"({"messages":)" + talk(answer("Ho"));
  for (const std::string& rejected :
       {std::string(R"(,"rejected_response":"No"})"),
        std::string(R"(,"rejected_response":[{"role":"assistant","content":"No"}]})"),
        R"(,"rejected_messages":)" + talk(answer("No")) + "}"}) {
    const Record record = read_pair(messages + rejected);
    EXPECT_THAT(record.turns, ElementsAre(asked({"Hi"}), said("Ho")));
    EXPECT_THAT(record.rejected, ElementsAre(asked({"Hi"}), said("No")));
  }
  EXPECT_THAT(pair_refusal(R"({"messages":)" + talk("") + R"(,"rejected_response":"No"})"),
              HasSubstr("no_answer: messages has no answer at its end"));
  EXPECT_THAT(pair_refusal(messages + R"(,"rejected_response":"No","prompt":"Hi"})"),
              HasSubstr("bad_form: both messages and prompt"));
}

TEST(Preference, GivesBothAnswersTheSamePictures) {
  const Record listed =
      read_pair(R"({"images":["a.png"],"prompt":[{"role":"user","content":[{"type":"image"},)"
                R"({"type":"text","text":"Hi"}]}],"chosen":"Ho","rejected":"No"})");
  EXPECT_THAT(listed.turns, ElementsAre(asked({kFirstPicture, "Hi"}), said("Ho")));
  EXPECT_THAT(listed.rejected, ElementsAre(asked({kFirstPicture, "Hi"}), said("No")));
  EXPECT_THAT(listed.images, ElementsAre("a.png"));
  const Record column =
      read_pair(R"({"image":"a.png","system":"Be brief","history":[["a","b"]],"question":"Hi",)"
                R"("chosen":"Ho","rejected":"No"})");
  EXPECT_THAT(column.rejected, ElementsAre(Turn{Role::kSystem, {"Be brief"}, /*is_learned=*/true},
                                           asked({kFirstPicture, "a"}), said_before("b"),
                                           asked({"Hi"}), said("No")));
  EXPECT_THAT(pair_refusal(R"({"image":"a.png","prompt":"Hi","chosen":"<image>","rejected":"No"})"),
              HasSubstr("placeholder_count"));
}

TEST(Preference, RefusesWhatItCannotCompare) {
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {R"({"chosen":"Ho","rejected":"No"})", "no_prompt: chosen and rejected are answers"},
           {R"({"prompt":"Hi","query":"Hi","chosen":"Ho","rejected":"No"})",
            "bad_form: both prompt and query"},
           {R"({"prompt":"Hi","input":"x","chosen":"Ho","rejected":"No"})",
            "bad_form: input without an instruction"},
           {R"({"prompt":"Hi","chosen":"Ho","rejected":""})", "bad_form: no text or turns under"},
           {R"({"prompt":"Hi","chosen":"Ho","rejected":7})", "bad_field: rejected is of type num"},
           {R"({"prompt":"Hi","chosen":"Ho","rejected":" "})", "empty_text: rejected[1]"},
           {R"({"chosen":)" + talk(answer("Ho")) + R"(,"rejected":"No"})",
            "bad_form: one of chosen and rejected is a whole conversation"},
           {R"({"chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"Ho"}],)"
            R"("rejected":[{"role":"user","content":"b"},{"role":"assistant","content":"No"}]})",
            "no_prompt: chosen is no answer to a question that it shares"},
           {R"({"prompt":"Hi","chosen":"Ho","rejected":"No","rejected_images":["a.png"]})",
            "unread_key: record.rejected_images is not read"},
           {R"({"prompt":"Hi","chosen":"Ho","rejected":"No","margin":1,"tools":[1]})",
            "unread_key: record.tools is not read"},
           {R"({"prompt":"Hi","completion":"Ho"})", "no_pair: one answer alone"}})
    EXPECT_THAT(pair_refusal(line), HasSubstr(words)) << line;
  EXPECT_THAT(pair_refusal(R"({"prompt":"Hi","chosen":"Ho","rejected":"No"})", Answers::kOne),
              HasSubstr("preferences: a chosen and a rejected answer"));
}

}  // namespace
}  // namespace tributary::data
