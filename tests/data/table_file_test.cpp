#include "data/record/table_file.h"

#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <thread>

#include "data/record/media_files.h"
#include "data/record/stored_record.h"
#include "tests/data/open_message.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<arrow::DataType> picture_type() {
  return arrow::struct_(
      {arrow::field("bytes", arrow::binary()), arrow::field("path", arrow::utf8())});
}

/// A column of pictures as `datasets` writes it; empty bytes or paths stand for null.
std::shared_ptr<arrow::Array> pictures(
    const std::vector<std::pair<std::string, std::string>>& cells) {
  auto bytes = std::make_shared<arrow::BinaryBuilder>();
  auto paths = std::make_shared<arrow::StringBuilder>();
  arrow::StructBuilder column(picture_type(), arrow::default_memory_pool(), {bytes, paths});
  for (const auto& [content, path] : cells) {
    EXPECT_TRUE(column.Append().ok());
    EXPECT_TRUE((content.empty() ? bytes->AppendNull() : bytes->Append(content)).ok());
    EXPECT_TRUE((path.empty() ? paths->AppendNull() : paths->Append(path)).ok());
  }
  return column.Finish().ValueOrDie();
}

template <class Builder, class Value>
std::shared_ptr<arrow::Array> column(const std::vector<Value>& values) {
  Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return builder.Finish().ValueOrDie();
}

/// [["a"], [], ["b", "c"], ...] by lengths.
std::shared_ptr<arrow::Array> lists(const std::vector<std::vector<std::string>>& cells) {
  auto words = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), words);
  for (const auto& cell : cells) {
    EXPECT_TRUE(builder.Append().ok());
    EXPECT_TRUE(words->AppendValues(cell).ok());
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> small_table() {
  const std::string classes =
      R"({"info":{"features":{"label":{"names":["cat","dog"],"_type":"ClassLabel"}}}})";
  const auto schema =
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("label", arrow::int64()),
                     arrow::field("score", arrow::float64()), arrow::field("image", picture_type()),
                     arrow::field("words", arrow::list(arrow::utf8()))},
                    arrow::key_value_metadata({"huggingface"}, {classes}));
  return arrow::Table::Make(
      schema, {column<arrow::StringBuilder, std::string>({"one", "two", "three", "four", "five"}),
               column<arrow::Int64Builder, std::int64_t>({0, 1, 0, -1, 7}),
               column<arrow::DoubleBuilder, double>({0.5, 1, 2, 3, 4}),
               pictures({{"B0", "a.png"}, {"B1", ""}, {"", "c.png"}, {"", ""}, {"B4", ""}}),
               lists({{"x"}, {}, {"y", "z"}, {}, {}})});
}

void write_parquet(const std::string& path, const arrow::Table& table, std::int64_t rows) {
  const auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  ASSERT_TRUE(
      parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, rows,
                                 parquet::default_writer_properties(),
                                 parquet::ArrowWriterProperties::Builder().store_schema()->build())
          .ok());
}

void write_arrow(const std::string& path, const arrow::Table& table, bool is_stream) {
  const auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto writer = is_stream ? arrow::ipc::MakeStreamWriter(out, table.schema())
                                : arrow::ipc::MakeFileWriter(out, table.schema());
  ASSERT_TRUE((*writer)->WriteTable(table, /*max_chunksize=*/2).ok());
  ASSERT_TRUE((*writer)->Close().ok());
}

std::string picture_of(const StoredRecord& record, const std::string& name) {
  const auto bytes = record.inside->read(name);
  return bytes ? std::string(bytes.value().begin(), bytes.value().end()) : bytes.refusal().code;
}

void expect_small_table(const RecordFile& file) {
  ASSERT_EQ(file.records(), 5);
  const StoredRecord first = file.read(0).value();
  EXPECT_EQ(first.json, (Json{{"text", "one"},
                              {"label", "cat"},
                              {"score", 0.5},
                              {"image", "image"},
                              {"words", {"x"}}}));
  EXPECT_EQ(picture_of(first, "image"), "B0");
  EXPECT_EQ(first.inside->read_beginning("image", 1).value().size(), 1u);
  EXPECT_EQ(picture_of(file.read(1).value(), "image"), "B1");
  const StoredRecord third = file.read(2).value();
  EXPECT_EQ(third.json.at("image"), "c.png");
  EXPECT_FALSE(third.inside->holds("c.png"));
  EXPECT_EQ(third.json.at("words"), (Json{"y", "z"}));
  EXPECT_EQ(file.read(3).value().json.at("image"), nullptr);
  EXPECT_EQ(file.read(3).value().json.at("label"), -1);  // `datasets` writes it for no class
  EXPECT_EQ(file.read(4).value().json.at("label"), 7);
  EXPECT_EQ(picture_of(file.read(4).value(), "image"), "B4");
  EXPECT_EQ(file.key(4), file.path() + "[4]");
  EXPECT_EQ(file.digest().size(), 16u);
  EXPECT_THAT(file.beginning_of(1), HasSubstr("\"two\""));
}

TEST(TableFile, ReadsParquetByRowGroups) {
  const TemporaryFolder folder;
  write_parquet(folder.at("a.parquet"), *small_table(), /*rows=*/2);
  expect_small_table(*open_record_file(folder.at("a.parquet")));
}

TEST(TableFile, ReadsArrowFilesAndStreams) {
  const TemporaryFolder folder;
  write_arrow(folder.at("file.arrow"), *small_table(), /*is_stream=*/false);
  expect_small_table(*open_record_file(folder.at("file.arrow")));
  write_arrow(folder.at("stream.arrow"), *small_table(), /*is_stream=*/true);
  expect_small_table(*open_record_file(folder.at("stream.arrow")));
}

TEST(TableFile, ReadsDirectoriesOfShards) {
  const TemporaryFolder folder;
  folder.write("hub/README", "");
  write_parquet(folder.at("hub/train-00001-of-00002.parquet"), *small_table()->Slice(3), 9);
  write_parquet(folder.at("hub/train-00000-of-00002.parquet"), *small_table()->Slice(0, 3), 9);
  const auto hub = open_record_file(folder.at("hub"));
  ASSERT_EQ(hub->records(), 5);
  EXPECT_EQ(hub->read(3).value().json.at("text"), "four");

  folder.write("saved/state.json", R"({"_data_files":[{"filename":"data-00000-of-00001.arrow"}]})");
  write_arrow(folder.at("saved/data-00000-of-00001.arrow"), *small_table(), /*is_stream=*/true);
  expect_small_table(*open_record_file(folder.at("saved")));
  folder.write("splits/dataset_dict.json", R"({"splits":["train"]})");
  EXPECT_THAT(message_of(folder.at("splits")),
              AllOf(HasSubstr("directory holds several parts of a data set"),
                    HasSubstr("fix: set `path` to " + folder.at("splits") + "/train")));
  folder.write("odd/state.json", "{}");
  EXPECT_THAT(message_of(folder.at("odd")), HasSubstr("state of a data set is not understood"));
}

TEST(TableFile, ReadsFromManyThreads) {
  const TemporaryFolder folder;
  write_parquet(folder.at("a.parquet"), *small_table(), /*rows=*/1);
  const auto file = open_record_file(folder.at("a.parquet"));
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::int64_t i = 0; i < 200; ++i) {
          const StoredRecord record =
              file->read((i * 7 + static_cast<std::int64_t>(t)) % 5).value();
          const std::string name = record.json.at("text");
          if (name == "one" && picture_of(record, "image") != "B0") ++wrong[t];
          if (name == "five" && picture_of(record, "image") != "B4") ++wrong[t];
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(TableFile, NamesWhatItCannotRead) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of(folder.write("a.parquet", "PAR1 and no more than that")),
              AllOf(HasSubstr("data: table cannot be read"), HasSubstr("a.parquet")));
  EXPECT_THAT(message_of(folder.write("a.arrow", "ARROW1 and no more than that")),
              HasSubstr("data: table cannot be read"));
  write_parquet(folder.at("none.parquet"), *small_table()->Slice(5), 9);
  EXPECT_THAT(message_of(folder.at("none.parquet")), HasSubstr("data: file holds no record"));

  const auto months = arrow::schema({arrow::field("t", arrow::utf8()),
                                     arrow::field("m", arrow::time32(arrow::TimeUnit::SECOND))});
  arrow::Time32Builder time(arrow::time32(arrow::TimeUnit::SECOND), arrow::default_memory_pool());
  ASSERT_TRUE(time.Append(3).ok());
  const auto odd = arrow::Table::Make(
      months, {column<arrow::StringBuilder, std::string>({"\xff"}), time.Finish().ValueOrDie()});
  write_arrow(folder.at("odd.arrow"), *odd, /*is_stream=*/false);
  EXPECT_EQ(open_record_file(folder.at("odd.arrow"))->read(0).refusal().code, "bad_utf8");
  write_arrow(folder.at("time.arrow"), *odd->SelectColumns({1}).ValueOrDie(), false);
  EXPECT_THAT(open_record_file(folder.at("time.arrow"))->read(0).refusal().reason,
              HasSubstr("m is of the type time32[s], which has no JSON; leave the column out"));
}

}  // namespace
}  // namespace tributary::data
