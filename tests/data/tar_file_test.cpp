#include "data/record/tar_file.h"

#include <cstdio>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/record/many_files.h"
#include "data/record/media_files.h"
#include "data/record/stored_record.h"
#include "tests/data/open_message.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One header of ustar and what it is for: written here byte by byte, as POSIX describes it.
std::string member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  std::array<char, 13> octal{};
  std::snprintf(octal.data(), octal.size(), "%011zo", content.size());
  put(0, name);
  put(100, "0000644");
  put(124, octal.data());
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(octal.data(), octal.size(), "%06o", sum);
  put(148, std::string(octal.data(), 7));
  const std::size_t padding = (512 - content.size() % 512) % 512;
  return header + content + std::string(padding, '\0');
}
const std::string kEnd(1024, '\0');

/// A name longer than the header has room for, as a pax record before its member.
std::string long_member(const std::string& name, const std::string& content) {
  std::string record = " path=" + name + "\n";
  std::size_t length = record.size();
  while (std::to_string(length).size() + record.size() != length)
    length = std::to_string(length).size() + record.size();
  return member("pax", std::to_string(length) + record, 'x') + member("short", content);
}

std::string picture_of(const StoredRecord& record, const std::string& name) {
  const auto bytes = record.inside->read(name);
  return bytes ? std::string(bytes.value().begin(), bytes.value().end()) : bytes.refusal().code;
}

TEST(TarFile, GroupsNeighboursWithOneName) {
  const TemporaryFolder folder;
  const std::string wide(9000, 'p');
  const auto file = open_record_file(folder.write(
      "a.tar", member("d/", "", '5') + member("d/0001.jpg", wide) +
                   member("d/0001.json", R"({"query":"what?","response":"cat"})") +
                   member("d/0002.json", R"({"images":["0002.left.png","right.png"],"id":7})") +
                   member("d/0002.left.png", "L") + member("d/0002.right.PNG", "R") + kEnd));
  ASSERT_EQ(file->records(), 2);
  EXPECT_EQ(file->key(0), folder.at("a.tar") + "/d/0001");
  const StoredRecord first = file->read(0).value();
  EXPECT_EQ(first.json,
            (Json{{"query", "what?"}, {"response", "cat"}, {"images", {"d/0001.jpg"}}}));
  EXPECT_EQ(picture_of(first, "d/0001.jpg"), wide);
  EXPECT_EQ(first.inside->read_beginning("d/0001.jpg", 10).value().size(), 10u);
  EXPECT_FALSE(first.inside->holds("d/0002.left.png"));
  const StoredRecord second = file->read(1).value();
  EXPECT_EQ(second.json.at("images"), (Json{"0002.left.png", "right.png"}));
  EXPECT_EQ(picture_of(second, "0002.left.png"), "L");
  EXPECT_EQ(picture_of(second, "right.png"), "R");
}

TEST(TarFile, ReadsTextsAndClasses) {
  const TemporaryFolder folder;
  const auto file = open_record_file(folder.write(
      "a.tar", member("1.jpg", "J") + member("1.txt", "a cat\n") +
                   member("1.json", R"({"caption":"a cat","url":"u"})") + member("2.cls", "3") +
                   member("2.png", "P") + member("2.mp3", "sound") + kEnd));
  ASSERT_EQ(file->records(), 2);
  EXPECT_EQ(file->read(0).value().json,
            (Json{{"text", "a cat"}, {"url", "u"}, {"images", {"1.jpg"}}}));
  EXPECT_EQ(file->read(1).value().json,
            (Json{{"label", "3"}, {"images", {"2.png"}}, {".mp3", "2.mp3"}}));
}

TEST(TarFile, ReadsLongNames) {
  const TemporaryFolder folder;
  const std::string name = std::string(200, 'n') + "/" + std::string(120, 'm');
  const auto file =
      open_record_file(folder.write("a.tar", long_member(name + ".json", R"({"text":"x"})") +
                                                 long_member(name + ".png", "P") + kEnd));
  ASSERT_EQ(file->records(), 1);
  const StoredRecord record = file->read(0).value();
  EXPECT_EQ(record.json, (Json{{"text", "x"}, {"images", {name + ".png"}}}));
  EXPECT_EQ(picture_of(record, name + ".png"), "P");
}

TEST(TarFile, NamesWhatItDoesNotRead) {
  const TemporaryFolder folder;
  const std::string good = member("1.json", "{}");
  EXPECT_THAT(message_of(folder.write(
                  "cut.tar", good + member("2.json", std::string(900, ' ')).substr(0, 700))),
              HasSubstr("data: tar archive is damaged or of a kind that is not read"));
  EXPECT_THAT(message_of(folder.write("link.tar", good + member("2.json", "", '2') + kEnd)),
              AllOf(HasSubstr("member \"2.json\" is a link"), HasSubstr("tar -tf ")));
  EXPECT_THAT(message_of(folder.write("none.tar", member("d/", "", '5') + kEnd)),
              HasSubstr("tar archive holds no sample"));
  const auto file = open_record_file(
      folder.write("bad.tar", member("1.json", "[1]") + member("2.json", "{") + kEnd));
  EXPECT_EQ(file->read(0).refusal().code, "bad_form");
  EXPECT_EQ(file->read(1).refusal().code, "bad_json");
}

TEST(ManyFiles, JoinsShardsOfARangeAPatternAndADirectory) {
  const TemporaryFolder folder;
  for (const char* name : {"s/b-08", "s/b-09", "s/b-10", "s/b-11"})
    folder.write(std::string(name) + ".tar", member("1.json", str("{\"text\":\"", name, "\"}")) +
                                                 member("2.json", "{}") + kEnd);
  folder.write("s/LICENSE", "shards");
  const auto shards = [&](const std::string& path) {
    const auto file = open_record_file(folder.at(path));
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < file->records(); i += 2)
      keys.push_back(file->key(i).substr(folder.path().size() + 1));
    return keys;
  };
  EXPECT_THAT(shards("s/b-{09..10}.tar"), ElementsAre("s/b-09.tar/1", "s/b-10.tar/1"));
  EXPECT_THAT(shards("s/*1*.tar"), ElementsAre("s/b-10.tar/1", "s/b-11.tar/1"));
  EXPECT_THAT(shards("s"),
              ElementsAre("s/b-08.tar/1", "s/b-09.tar/1", "s/b-10.tar/1", "s/b-11.tar/1"));
  const auto all = open_record_file(folder.at("s"));
  EXPECT_EQ(all->read(4).value().json.at("text"), "s/b-10");
  EXPECT_EQ(all->bytes(), 4 * (4 * 512 + 1024));
  EXPECT_NE(all->digest(), open_record_file(folder.at("s/b-{08..10}.tar"))->digest());
}

TEST(ManyFiles, NamesPatternsThatFindNothing) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of(folder.at("*.tar")), HasSubstr("data: no file of the pattern"));
  EXPECT_THAT(message_of(folder.at("a-{1..x}.tar")), HasSubstr("data: range of files"));
  EXPECT_THAT(message_of(folder.at("a-{2..1}.tar")), HasSubstr("data: range without a number"));
  EXPECT_THAT(message_of(folder.at("a-{08..10}.tar")), HasSubstr("a-08.tar"));
  folder.write("mixed/a.tar", member("1.json", "{}") + kEnd);
  folder.write("mixed/a.jsonl", "{}\n");
  EXPECT_THAT(message_of(folder.at("mixed")),
              AllOf(HasSubstr("directory of no one kind of records"),
                    HasSubstr("found: 1 files of JSON, 1 files of tar")));
}

}  // namespace
}  // namespace tributary::data
