#include "data/text/model_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DescribeOtherTemplate, IsSilentAboutTemplatesThatWriteTheSame) {
  const TemporaryFolder folder;
  EXPECT_THAT(describe_other_template(folder.path()), IsEmpty()) << "there is none";
  EXPECT_THAT(describe_other_template(TRIB_SOURCE_DIR "/configs/demo_model"), IsEmpty());
  folder.write("tokenizer_config.json", R"({"chat_template": "", "model_max_length": 5})");
  EXPECT_THAT(describe_other_template(folder.path()), IsEmpty());
}

TEST(DescribeOtherTemplate, NamesTheFileOfAnotherOne) {
  const TemporaryFolder folder;
  const auto expect_named = [&](const std::string& file) {
    EXPECT_THAT(describe_other_template(folder.path()),
                HasSubstr("the chat_template of " + folder.at(file) + " is not run: chats are"));
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

TEST(DescribeOtherTemplate, RefusesAFileThatIsNoJson) {
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json", "{");
  EXPECT_THROW((void)describe_other_template(folder.path()), Error);
}

}  // namespace
}  // namespace tributary::data
