#include "data/record/json_file.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/random.h"
#include "data/record/stored_record.h"
#include "tests/data/open_message.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts_of(const JsonFile& file) {
  std::vector<std::string> lines;
  for (std::int64_t i = 0; i < file.records(); ++i) lines.push_back(file.text(i).value());
  return lines;
}

JsonFile open_json(const std::string& path) { return JsonFile(open_bytes(path)); }

TEST(JsonFile, ReadsLinesHoweverTheyEnd) {
  const TemporaryFolder folder;
  const JsonFile file =
      open_json(folder.write("a.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\n  \t\r\n{\"b\":2}\n {}"));
  EXPECT_THAT(texts_of(file), ElementsAre("{\"a\":1}", "{\"b\":2}", " {}"));
  EXPECT_EQ(file.blank_lines(), 2);
  EXPECT_EQ(file.key(0), folder.at("a.jsonl") + ":1");
  EXPECT_EQ(file.key(1), folder.at("a.jsonl") + ":4");
  EXPECT_EQ(file.key(2), folder.at("a.jsonl") + ":5");
}

/// The reader's blocks may end within a line; the oracle splits the text in memory.
TEST(JsonFile, EqualsAPlainSplitOnRandomFiles) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    RandomStream random(seed);
    std::string text;
    std::vector<std::string> expected;
    const std::size_t bytes = random.below(3 << 20);
    while (text.size() < bytes || expected.empty()) {
      const std::string line(random.below(4) == 0 ? random.below(400000) : random.below(40), 'x');
      const bool last_without_newline = text.size() + line.size() >= bytes && !line.empty();
      text += line + (last_without_newline ? "" : "\n");
      if (!line.empty()) expected.push_back(line);
    }
    const JsonFile file = open_json(folder.write("r.jsonl", text));
    EXPECT_EQ(file.bytes(), std::ssize(text));
    EXPECT_EQ(texts_of(file), expected);
  }
}

TEST(JsonFile, DigestIsThatOfTheContent) {
  const TemporaryFolder folder;
  const JsonFile a = open_json(folder.write("a.jsonl", "{}\n{}\n"));
  const JsonFile same = open_json(folder.write("b.jsonl", "{}\n{}\n"));
  const JsonFile other = open_json(folder.write("c.jsonl", "{}\n[]\n"));
  EXPECT_EQ(a.digest(), same.digest());
  EXPECT_NE(a.digest(), other.digest());
  EXPECT_EQ(a.digest().size(), 16u);
}

TEST(JsonFile, RefusesALineThatIsTooLong) {
  const TemporaryFolder folder;
  const JsonFile file =
      open_json(folder.write("a.jsonl", "{}\n" + std::string((16 << 20) + 1, 'x') + "\n{}"));
  ASSERT_EQ(file.records(), 3);
  EXPECT_EQ(file.text(1).refusal().code, "line_too_long");
  EXPECT_THAT(file.text(1).refusal().reason, HasSubstr("16777217 bytes, limit 16777216"));
  EXPECT_TRUE(file.text(2));
}

TEST(JsonFile, RefusesAFileThatWasWrittenSince) {
  const TemporaryFolder folder;
  const JsonFile file = open_json(folder.write("a.jsonl", "{}\n{}\n"));
  EXPECT_TRUE(file.text(1));
  folder.write("a.jsonl", "{}\n");
  EXPECT_EQ(file.text(1).refusal().code, "file_changed");
  EXPECT_THAT(file.text(0).refusal().reason, HasSubstr("file has 3 bytes, 6 when the run began"));
}

TEST(JsonFile, NamesAFileThatCannotBeUsed) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of(folder.at("none.jsonl")),
              AllOf(HasSubstr("input error: data: file cannot be opened"), HasSubstr("none.jsonl"),
                    HasSubstr("No such file")));
  EXPECT_THAT(message_of("none.jsonl"),
              AllOf(HasSubstr("where: none.jsonl (from /"),
                    HasSubstr("relative paths start from the directory where `tributary` is")));
  ASSERT_EQ(mkfifo(folder.at("fifo").c_str(), 0600), 0);
  EXPECT_THAT(message_of(folder.at("fifo")), HasSubstr("data: not a regular file"));
  EXPECT_THAT(message_of(folder.write("empty.jsonl", "")),
              AllOf(HasSubstr("data: file holds no record"), HasSubstr("0 bytes")));
  EXPECT_THAT(message_of(folder.write("blank.jsonl", "\n \n")),
              AllOf(HasSubstr("data: file holds no record"), HasSubstr("2 blank lines")));
}

/// The elements of a list, whatever stands between and within them.
TEST(JsonFile, ReadsTheElementsOfAList) {
  const TemporaryFolder folder;
  const JsonFile file = open_json(folder.write(
      "llava.json", "\xef\xbb\xbf \n[ {\"a\": \"]},[\\\"\"},\n\n {\"b\": [1, [2]]}\n,{}, 7 ]\n"));
  ASSERT_EQ(file.records(), 4);
  EXPECT_EQ(file.read(0).value().json, (Json{{"a", "]},[\""}}));
  EXPECT_EQ(file.read(1).value().json, (Json{{"b", {1, {2}}}}));
  EXPECT_EQ(file.read(2).value().json, Json::object());
  EXPECT_EQ(file.read(3).value().json, 7);
  EXPECT_EQ(file.key(1), folder.at("llava.json") + "[1]");
  EXPECT_EQ(file.offset(2), 43);
  EXPECT_EQ(file.beginning_of(2), "{}");
}

/// The oracle parses the whole text at once; blocks of the reader end anywhere.
TEST(JsonFile, EqualsAWholeParseOnRandomLists) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RandomStream random(seed);
    Json list = Json::array();
    for (std::size_t bytes = 0; bytes < (3u << 20);) {
      std::string text(random.below(4) == 0 ? random.below(300000) : random.below(30), 'x');
      for (int i = 0; i < 3 && !text.empty(); ++i)
        text[random.below(text.size())] = "\"\\[]{},:\n"[random.below(9)];
      bytes += text.size() + 20;
      list.push_back({{"text", text}, {"list", {1, text.substr(0, 3)}}});
    }
    const JsonFile file = open_json(folder.write("r.json", list.dump(seed % 2 == 0 ? -1 : 2)));
    ASSERT_EQ(file.records(), std::ssize(list));
    for (std::size_t i = 0; i < list.size(); ++i)
      ASSERT_EQ(file.read(static_cast<std::int64_t>(i)).value().json, list[i]) << seed << " " << i;
  }
}

TEST(JsonFile, NamesAListThatIsDamaged) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of(folder.write("cut.json", R"([{"a": 1}, {"b")")),
              AllOf(HasSubstr("data: JSON list is not closed"),
                    HasSubstr("after 15 bytes and 1 whole elements")));
  EXPECT_THAT(message_of(folder.write("two.json", "[{}]\n[{}]\n")),
              AllOf(HasSubstr("data: bytes after a JSON list"), HasSubstr("\"[\" at byte 6")));
  EXPECT_THAT(message_of(folder.write("none.json", "[ ]")), HasSubstr("file holds no record"));
  const JsonFile file = open_json(folder.write("bad.json", R"([{"a": 1, "a": 2}, {"b" 3}])"));
  EXPECT_EQ(file.read(0).refusal().code, "bad_json");
  EXPECT_EQ(file.read(1).refusal().code, "bad_json");
}

TEST(JsonFile, GivesLinesOfTextAsDocuments) {
  const TemporaryFolder folder;
  const JsonFile file(open_bytes(folder.write("a.txt", "[first]\n\nsecond\r\n\xff\n")),
                      JsonFile::Content::kText);
  ASSERT_EQ(file.records(), 3);
  EXPECT_EQ(file.read(0).value().json, (Json{{"text", "[first]"}}));
  EXPECT_EQ(file.read(1).value().json, (Json{{"text", "second"}}));
  EXPECT_EQ(file.read(2).refusal().code, "bad_utf8");
}

TEST(JsonFile, KnowsFilesOfOtherForms) {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  const std::vector<std::array<std::string, 4>> files{
      {"a.jsonl.zst", "\x28\xb5\x2f\xfd\0"s, "found: compressed by zstd", "zstd -d "},
      {"a.jsonl", "\xff\xfe{\0}\0"s, "found: text in UTF-16", "iconv -f UTF-16 -t UTF-8 "},
      {"a.zip", "PK\x03\x04\0"s, "found: a zip archive", "unzip "}};
  for (const auto& [name, content, found, fix] : files) {
    const std::string path = folder.write(name, content + "\n{}\n");
    EXPECT_THAT(message_of(path), AllOf(HasSubstr("data: file holds no records; where: " + path),
                                        HasSubstr(found), HasSubstr("fix: "), HasSubstr(fix)));
  }
}

TEST(CsvFile, IsAContainerByItsName) {
  const TemporaryFolder folder;
  folder.write("a.csv", "query,response\nHi,Ho\n");
  folder.write("b.csv", "query,response\nAnd,Oh\n");
  EXPECT_EQ(open_record_file(folder.at("a.csv"))->read(0).value().json,
            (Json{{"query", "Hi"}, {"response", "Ho"}}));
  EXPECT_EQ(open_record_file(folder.path())->records(), 2);
}

TEST(JsonFile, NamesADirectoryWithoutRecords) {
  const TemporaryFolder folder;
  folder.write("empty/none", "");
  const auto message = [&](const char* name) { return message_of(folder.at(name)); };
  EXPECT_THAT(message("empty"), AllOf(HasSubstr("data: directory of no one kind of records"),
                                      HasSubstr("found: no file of records")));
}

}  // namespace
}  // namespace tributary::data
