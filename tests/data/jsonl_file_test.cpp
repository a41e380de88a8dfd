#include "data/record/jsonl_file.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const JsonlFile& file) {
  std::vector<std::string> lines;
  for (std::int64_t i = 0; i < file.records(); ++i) lines.push_back(file.read(i).value());
  return lines;
}

std::string message_of(const std::string& path) {
  try {
    const JsonlFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
  return "opened";
}

TEST(JsonlFile, ReadsLinesHoweverTheyEnd) {
  const TemporaryFolder folder;
  const JsonlFile file(
      folder.write("a.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\n  \t\r\n{\"b\":2}\n {}"));
  EXPECT_THAT(lines_of(file), ElementsAre("{\"a\":1}", "{\"b\":2}", " {}"));
  EXPECT_EQ(file.blank_lines(), 2);
  EXPECT_EQ(file.key(0), folder.at("a.jsonl") + ":1");
  EXPECT_EQ(file.key(1), folder.at("a.jsonl") + ":4");
  EXPECT_EQ(file.key(2), folder.at("a.jsonl") + ":5");
}

/// The reader's blocks may end within a line; the oracle splits the text in memory.
TEST(JsonlFile, EqualsAPlainSplitOnRandomFiles) {
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
    const JsonlFile file(folder.write("r.jsonl", text));
    EXPECT_EQ(file.bytes(), std::ssize(text));
    EXPECT_EQ(lines_of(file), expected);
  }
}

TEST(JsonlFile, DigestIsThatOfTheContent) {
  const TemporaryFolder folder;
  const JsonlFile a(folder.write("a.jsonl", "{}\n{}\n"));
  const JsonlFile same(folder.write("b.jsonl", "{}\n{}\n"));
  const JsonlFile other(folder.write("c.jsonl", "{}\n[]\n"));
  EXPECT_EQ(a.digest(), same.digest());
  EXPECT_NE(a.digest(), other.digest());
  EXPECT_EQ(a.digest().size(), 16u);
}

TEST(JsonlFile, RefusesALineThatIsTooLong) {
  const TemporaryFolder folder;
  const JsonlFile file(folder.write("a.jsonl", "{}\n" + std::string((16 << 20) + 1, 'x') + "\n{}"));
  ASSERT_EQ(file.records(), 3);
  EXPECT_EQ(file.read(1).refusal().code, "line_too_long");
  EXPECT_THAT(file.read(1).refusal().reason, HasSubstr("16777217 bytes, limit 16777216"));
  EXPECT_TRUE(file.read(2));
}

TEST(JsonlFile, RefusesAFileThatWasWrittenSince) {
  const TemporaryFolder folder;
  const JsonlFile file(folder.write("a.jsonl", "{}\n{}\n"));
  EXPECT_TRUE(file.read(1));
  folder.write("a.jsonl", "{}\n");
  EXPECT_EQ(file.read(1).refusal().code, "file_changed");
  EXPECT_THAT(file.read(0).refusal().reason, HasSubstr("file has 3 bytes, 6 when the run began"));
}

TEST(JsonlFile, NamesAFileThatCannotBeUsed) {
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
  EXPECT_THAT(message_of(folder.write("list.json", "[{}, {}]")),
              AllOf(HasSubstr("data: file is one JSON list, not JSON lines"), HasSubstr("jq -c")));
}

TEST(JsonlFile, KnowsFilesOfOtherForms) {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  const std::string tar = "0001.jpg" + std::string(249, '\0') + "ustar\0"s + std::string(600, '\0');
  const std::vector<std::array<std::string, 4>> files{
      {"a.parquet", "PAR1\x15\0"s, "found: Parquet", "load_dataset('parquet'"},
      {"a.arrow", "ARROW1\0\0"s, "found: an Arrow file", "Dataset.from_file("},
      {"a.jsonl.gz", "\x1f\x8b\x08\0"s, "found: compressed by gzip", "gunzip -c "},
      {"a.jsonl.zst", "\x28\xb5\x2f\xfd\0"s, "found: compressed by zstd", "zstd -d "},
      {"a.zip", "PK\x03\x04\0"s, "found: a zip archive", "unzip "},
      {"a.tar", tar, "found: a tar archive (WebDataset)", "tar -xf "}};
  for (const auto& [name, content, found, fix] : files) {
    const std::string path = folder.write(name, content + "\n{}\n");
    EXPECT_THAT(message_of(path), AllOf(HasSubstr("data: file holds no JSON lines; where: " + path),
                                        HasSubstr(found), HasSubstr("fix: "), HasSubstr(fix)));
  }
}

TEST(JsonlFile, KnowsDirectoriesOfOtherForms) {
  const TemporaryFolder folder;
  folder.write("saved/state.json", "{}");
  folder.write("splits/dataset_dict.json", "{}");
  folder.write("pictures/cat/1.JPG", "");
  folder.write("empty/none", "");
  const auto message = [&](const char* name) { return message_of(folder.at(name)); };
  EXPECT_THAT(message("saved"), AllOf(HasSubstr("data: a directory in place of a file"),
                                      HasSubstr("found: a directory of `datasets`;"),
                                      HasSubstr("load_from_disk('" + folder.at("saved") +
                                                "').to_json('" + folder.at("saved.jsonl") + "')")));
  EXPECT_THAT(message("splits"), HasSubstr("load_from_disk('" + folder.at("splits/train") + "')"));
  EXPECT_THAT(message("pictures"), HasSubstr("found: a directory of pictures; expected: a file"));
  EXPECT_THAT(message("empty"), HasSubstr("fix: name a file of JSON lines"));
}

}  // namespace
}  // namespace tributary::data
