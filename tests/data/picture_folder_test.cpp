#include "data/record/picture_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/record/stored_record.h"
#include "tests/data/open_message.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PictureFolder, ReadsClasses) {
  const TemporaryFolder folder;
  folder.write("p/dog/b.PNG", "22");
  folder.write("p/cat/a.jpg", "1");
  folder.write("p/cat/c.webp", "333");
  folder.write("p/cat/notes", "no picture");
  const auto file = open_record_file(folder.at("p"));
  ASSERT_EQ(file->records(), 3);
  EXPECT_EQ(file->bytes(), 6);
  EXPECT_EQ(file->read(0).value().json, (Json{{"image", "cat/a.jpg"}, {"label", "cat"}}));
  EXPECT_EQ(file->read(2).value().json, (Json{{"image", "dog/b.PNG"}, {"label", "dog"}}));
  EXPECT_EQ(file->key(1), folder.at("p") + "/cat/c.webp");
  const std::string before = file->digest();
  folder.write("p/cat/c.webp", "4444");
  EXPECT_NE(open_record_file(folder.at("p"))->digest(), before);
}

TEST(PictureFolder, ReadsMetadata) {
  const TemporaryFolder folder;
  folder.write("lines/a.png", "");
  folder.write("lines/metadata.jsonl", "{\"file_name\":\"a.png\",\"text\":\"a cat\"}\n");
  EXPECT_EQ(open_record_file(folder.at("lines"))->read(0).value().json,
            (Json{{"file_name", "a.png"}, {"text", "a cat"}}));
  folder.write("table/a.png", "");
  folder.write(
      "table/metadata.csv",
      "\xef\xbb\xbf"
      "file_name,text,note\r\na.png,\"a \"\"big\"\",\nold cat\",\r\nb.png,dog,x\n\nc.png\n");
  const auto table = open_record_file(folder.at("table"));
  ASSERT_EQ(table->records(), 3);
  EXPECT_EQ(table->read(0).value().json,
            (Json{{"file_name", "a.png"}, {"text", "a \"big\",\nold cat"}}));
  EXPECT_EQ(table->read(1).value().json,
            (Json{{"file_name", "b.png"}, {"text", "dog"}, {"note", "x"}}));
  EXPECT_EQ(table->read(2).refusal().reason, "row has 1 cells, the first row names 3 columns");
  EXPECT_EQ(table->key(1), folder.at("table/metadata.csv") + ":4");
}

TEST(PictureFolder, NamesALayoutThatItCannotRead) {
  const TemporaryFolder folder;
  folder.write("flat/a.png", "");
  EXPECT_THAT(message_of(folder.at("flat")),
              AllOf(HasSubstr("directory of pictures without classes or texts"),
                    HasSubstr("\"a.png\" is in no class"), HasSubstr("metadata.jsonl")));
  folder.write("deep/a/b/c.png", "");
  EXPECT_THAT(message_of(folder.at("deep")), HasSubstr("lies in more than one directory"));
  folder.write("split/train/cat/a.png", "");
  EXPECT_THAT(message_of(folder.at("split")),
              HasSubstr("fix: set `path` to " + folder.at("split") + "/train"));
  folder.write("quote/metadata.csv", "file_name,text\na.png,\"a cat\n");
  EXPECT_THAT(message_of(folder.at("quote")), HasSubstr("quote of a CSV file is not closed"));
  folder.write("empty/metadata.csv", "file_name,text\n");
  EXPECT_THAT(message_of(folder.at("empty")), HasSubstr("data: file holds no record"));
}

}  // namespace
}  // namespace tributary::data
