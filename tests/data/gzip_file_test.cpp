#include "data/record/gzip_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <zlib.h>

#include "core/error.h"
#include "core/random.h"
#include "data/record/json_file.h"
#include "data/record/stored_record.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// One gzip member.
std::string zipped(std::string_view text, int level = 6) {
  z_stream zlib{};
  deflateInit2(&zlib, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&zlib, text.size()), '\0');
  std::string in(text);
  zlib.next_in = reinterpret_cast<Bytef*>(in.data());
  zlib.avail_in = static_cast<uInt>(in.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

/// Text that compresses to about half, without long repeats.
std::string random_text(RandomStream& random, std::size_t bytes) {
  std::string text(bytes, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random.below(16));
  return text;
}

std::string scan(ByteFile& file) {
  std::string all;
  file.scan([&](std::string_view block) { all += block; });
  return all;
}

TEST(GzipFile, ReadsAnyPlaceOfAFileOfManyMembers) {
  const TemporaryFolder folder;
  RandomStream random(5);
  std::string text;
  std::string stored;
  for (const std::size_t bytes : {6'000'000, 0, 10, 70'000, 3'500'000, 1}) {
    const std::string member = random_text(random, bytes);
    text += member;
    stored += zipped(member, bytes == 70'000 ? 0 : 6);
  }
  const auto file = open_bytes(folder.write("a.gz", stored + std::string(700, '\0')));
  EXPECT_EQ(file->beginning(7), text.substr(0, 7));
  ASSERT_TRUE(scan(*file) == text);
  EXPECT_EQ(file->stored_bytes(), std::ssize(stored) + 700);
  EXPECT_EQ(file->digest().size(), 16u);
  for (int i = 0; i < 60; ++i) {
    const std::size_t from = random.below(text.size());
    const std::size_t length = std::min<std::size_t>(random.below(90'000), text.size() - from);
    const auto got = file->read(static_cast<std::int64_t>(from), length);
    ASSERT_TRUE(got.has_value()) << got.refusal().reason;
    ASSERT_TRUE(got.value() == text.substr(from, length)) << from << " " << length;
  }
  EXPECT_EQ(file->read(std::ssize(text) - 3, 4).refusal().code, "read_failed");
}

TEST(GzipFile, ReadsFromManyThreads) {
  const TemporaryFolder folder;
  RandomStream random(6);
  const std::string text = random_text(random, 5'000'000);
  const auto file = open_bytes(folder.write("a.gz", zipped(text)));
  (void)scan(*file);
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        RandomStream places(t);
        for (int i = 0; i < 20; ++i) {
          const std::size_t from = places.below(text.size() - 1000);
          const auto got = file->read(static_cast<std::int64_t>(from), 1000);
          wrong[t] += got && got.value() == text.substr(from, 1000) ? 0 : 1;
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(GzipFile, IsAContainerLikeThePlainFile) {
  const TemporaryFolder folder;
  const std::string lines = "{\"a\":1}\n{\"b\":2}\n";
  const auto file = open_record_file(folder.write("a.jsonl.gz", zipped(lines)));
  ASSERT_EQ(file->records(), 2);
  EXPECT_EQ(file->read(1).value().json, (Json{{"b", 2}}));
  EXPECT_EQ(file->key(1), folder.at("a.jsonl.gz") + ":2");
  EXPECT_EQ(open_record_file(folder.write("b", zipped("[{},{}]")))->records(), 2);
}

TEST(GzipFile, NamesDamage) {
  const TemporaryFolder folder;
  RandomStream random(7);
  const std::string good = zipped(random_text(random, 300'000));
  const auto message = [&](const std::string& content) -> std::string {
    try {
      (void)scan(*open_bytes(folder.write("a.gz", content)));
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(message(good), "taken");
  EXPECT_THAT(message(good.substr(0, good.size() - 9)),
              AllOf(HasSubstr("data: gzip file is damaged"),
                    HasSubstr("file ends within compressed data"), HasSubstr("gunzip -t")));
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  EXPECT_THAT(message(flipped), HasSubstr("gzip file is damaged"));
  EXPECT_THAT(message(good + "rubbish"), HasSubstr("gzip file is damaged"));
}

TEST(GzipFile, RefusesAFileThatWasWrittenSince) {
  const TemporaryFolder folder;
  const auto file = open_bytes(folder.write("a.gz", zipped("one\n")));
  (void)scan(*file);
  EXPECT_TRUE(file->read(0, 3));
  folder.write("a.gz", zipped("another\n"));
  EXPECT_EQ(file->read(0, 3).refusal().code, "file_changed");
}

}  // namespace
}  // namespace tributary::data
