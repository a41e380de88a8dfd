#include "data/text/model_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file/file_system.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string describe(const TemporaryFolder& folder) {
  return describe_other_template(folder.path(), config::ModelFamily::kLlama);
}

/// Gives a model directory a template as it was published.
void copy_template(const TemporaryFolder& folder, const std::string& name) {
  const std::string from = TRIB_SOURCE_DIR "/tests/golden/chat_templates/" + name + ".jinja";
  folder.write("chat_template.jinja", read_text_file(real_file_system(), from, 1 << 20));
}

TEST(DescribeOtherTemplate, IsSilentAboutTemplatesThatWriteTheSame) {
  const TemporaryFolder folder;
  EXPECT_THAT(describe(folder), IsEmpty()) << "there is none";
  EXPECT_THAT(describe_other_template(TRIB_SOURCE_DIR "/configs/demo_model",
                                      config::ModelFamily::kQwen2_5Vl),
              IsEmpty());
  folder.write("tokenizer_config.json", R"({"chat_template": "", "model_max_length": 5})");
  EXPECT_THAT(describe(folder), IsEmpty());
  for (const char* name :
       {"qwen2_5", "qwen2_5_omni", "qwen3_instruct_2507", "qwen3_vl", "llama3", "llama3_1"}) {
    copy_template(folder, name);
    EXPECT_THAT(describe(folder), IsEmpty()) << name;
  }
}

TEST(DescribeOtherTemplate, SaysHowAKnownOneDiffers) {
  const TemporaryFolder folder;
  copy_template(folder, "qwen3");
  EXPECT_EQ(describe(folder), "the chat_template of " + folder.at("chat_template.jinja") +
                                  " is that of Qwen3, and chats are written so, but no empty "
                                  "<think> block stands in the last answer");
  copy_template(folder, "llama3_2");
  EXPECT_THAT(describe(folder), HasSubstr("is that of Llama 3.2"));
}

TEST(DescribeOtherTemplate, NamesTheFileOfAnotherOne) {
  const TemporaryFolder folder;
  const auto expect_named = [&](const std::string& file) {
    EXPECT_THAT(describe(folder), HasSubstr("the chat_template of " + folder.at(file) +
                                            " is not run: chats are written as by the family "
                                            "`llama`"));
  };
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "a"},)"
               R"({"name": "default", "template": "{{ messages }}"}]})");
  expect_named("tokenizer_config.json");
  folder.write("chat_template.json", R"({"chat_template": "{{ messages }}"})");
  expect_named("chat_template.json");
  folder.write("chat_template.jinja", "{{ messages }}\n");
  expect_named("chat_template.jinja");
}

TEST(SystemPromptOf, IsThatOfTheTemplateWhereOneIsKnown) {
  const TemporaryFolder folder;
  const auto prompt = [&](const std::string& given) {
    return system_prompt_of(folder.path(), config::ModelFamily::kQwen2, given);
  };
  EXPECT_EQ(prompt("auto"), "You are a helpful assistant.");
  copy_template(folder, "qwen2_5");
  EXPECT_EQ(prompt("auto"), "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  EXPECT_EQ(prompt(""), "");
  EXPECT_EQ(prompt("Be brief."), "Be brief.");
}

TEST(SystemPromptOf, IsNotThatOfTheTextModelInsideOfInternVl) {
  const TemporaryFolder folder;
  copy_template(folder, "qwen2_5");
  EXPECT_THAT(system_prompt_of(folder.path(), config::ModelFamily::kInternVlChat, "auto"),
              HasSubstr("英文名是InternVL"));
  EXPECT_THAT(describe_other_template(folder.path(), config::ModelFamily::kInternVlChat),
              HasSubstr("is not run: chats are written as by the family `internvl_chat`"));
}

TEST(DescribeOtherTemplate, RefusesAFileThatIsNoJson) {
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json", "{");
  EXPECT_THROW((void)describe(folder), Error);
}

}  // namespace
}  // namespace tributary::data
