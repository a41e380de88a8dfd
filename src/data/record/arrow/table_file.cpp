#include "data/record/table_file.h"

#include <algorithm>
#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/table.h>
#include <list>
#include <mutex>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/arrow/row_json.h"
#include "data/record/stored_file.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMaxKeptBytes = std::int64_t{256} << 20;

using Batch = std::shared_ptr<arrow::RecordBatch>;

[[noreturn]] void refuse_table(const std::string& path, const std::string& found) {
  TRIB_RAISE(Fault::kInput, .what = "data: table cannot be read", .where = shown_path(path),
             .found = found, .expected = "Parquet, or an Arrow file or stream",
             .fix = "fetch or write the file again");
}

template <class T>
T value_or_refuse(arrow::Result<T> result, const std::string& path) {
  if (!result.ok()) refuse_table(path, result.status().ToString());
  return std::move(result).ValueUnsafe();
}

/// A table as batches of rows that are read when they are needed.
class TableFile : public RecordFile {
 public:
  std::int64_t records() const override { return begins_.back(); }
  Result<StoredRecord> read(std::int64_t record) const override {
    if (auto changed = file_.refuse_change()) return *changed;
    const std::size_t batch = batch_of(record);
    const Result<Batch> rows = load(batch);
    if (!rows) return rows.refusal();
    return read_row(rows.value(), record - begins_[batch], classes_);
  }
  /// `train.parquet[12]` with the row from 0.
  std::string key(std::int64_t record) const override { return str(path(), "[", record, "]"); }
  std::int64_t offset(std::int64_t record) const override { return record; }
  std::string beginning_of(std::int64_t record) const override {
    const Result<StoredRecord> stored = read(record);
    return stored ? stored.value().json.dump().substr(0, kMaxBeginningBytes) : "";
  }
  const std::string& path() const override { return file_.path(); }
  std::int64_t bytes() const override { return file_.bytes(); }
  const std::string& digest() const override { return digest_; }

 protected:
  explicit TableFile(const std::string& path) : file_(path), digest_(digest_of(file_)) {}

  virtual Result<Batch> load(std::size_t batch) const = 0;
  void add_batch(std::int64_t rows) { begins_.push_back(begins_.back() + rows); }
  void finish(const arrow::Schema& schema) {
    classes_ = read_classes(schema);
    TRIB_REQUIRE(records() > 0, .what = "data: file holds no record", .where = path(),
                 .found = "0 rows", .expected = "at least 1 row");
  }

 private:
  std::size_t batch_of(std::int64_t record) const {
    TRIB_CHECK(record >= 0 && record < records(), .what = "data: record outside the file",
               .where = path(), .found = str(record), .expected = str("below ", records()));
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, record) - begins_.begin()) -
           1;
  }

  StoredFile file_;
  std::string digest_;
  std::vector<std::int64_t> begins_{0};  // [batches + 1] the first row of each
  ClassNames classes_;
};

/// An Arrow file or stream, mapped into memory.
class ArrowFile final : public TableFile {
 public:
  ArrowFile(const std::string& path, bool is_stream) : TableFile(path) {
    const auto mapped =
        value_or_refuse(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ), path);
    is_stream ? read_stream(mapped) : read_file(mapped);
    finish(*schema_);
  }

 private:
  Result<Batch> load(std::size_t batch) const override { return batches_[batch]; }

  void add(Batch batch) {
    add_batch(batch->num_rows());
    batches_.push_back(std::move(batch));
  }
  void read_stream(const std::shared_ptr<arrow::io::MemoryMappedFile>& mapped) {
    const auto reader =
        value_or_refuse(arrow::ipc::RecordBatchStreamReader::Open(mapped), this->path());
    schema_ = reader->schema();
    while (Batch batch = value_or_refuse(reader->Next(), this->path())) add(std::move(batch));
  }
  void read_file(const std::shared_ptr<arrow::io::MemoryMappedFile>& mapped) {
    const auto reader =
        value_or_refuse(arrow::ipc::RecordBatchFileReader::Open(mapped), this->path());
    schema_ = reader->schema();
    for (int i = 0; i < reader->num_record_batches(); ++i)
      add(value_or_refuse(reader->ReadRecordBatch(i), this->path()));
  }

  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Batch> batches_;
};

/// Parquet, of which the row groups that were read last are kept.
class ParquetFile final : public TableFile {
 public:
  explicit ParquetFile(const std::string& path) : TableFile(path) {
    const auto file = value_or_refuse(arrow::io::ReadableFile::Open(path), path);
    reader_ = value_or_refuse(parquet::arrow::OpenFile(file, arrow::default_memory_pool()), path);
    reader_->set_use_threads(false);
    std::shared_ptr<arrow::Schema> schema;
    if (const auto status = reader_->GetSchema(&schema); !status.ok())
      refuse_table(path, status.ToString());
    const auto facts = reader_->parquet_reader()->metadata();
    for (int group = 0; group < facts->num_row_groups(); ++group)
      add_batch(facts->RowGroup(group)->num_rows());
    finish(*schema);
  }

 private:
  struct Kept {
    std::size_t group;
    Batch rows;
    std::int64_t bytes;
  };

  Result<Batch> load(std::size_t group) const override {
    const std::lock_guard lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->group != group) continue;
      kept_.splice(kept_.begin(), kept_, at);
      return kept_.front().rows;
    }
    auto table = reader_->ReadRowGroup(static_cast<int>(group));
    if (!table.ok()) return Refusal{"read_failed", table.status().ToString()};
    auto rows = (*table)->CombineChunksToBatch();
    if (!rows.ok()) return Refusal{"read_failed", rows.status().ToString()};
    const std::int64_t bytes =
        reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group))->total_byte_size();
    kept_.push_front({group, *rows, bytes});
    kept_bytes_ += bytes;
    while (kept_.size() > 1 && kept_bytes_ > kMaxKeptBytes) {
      kept_bytes_ -= kept_.back().bytes;
      kept_.pop_back();
    }
    return kept_.front().rows;
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  mutable std::mutex mutex_;      // guards the reader and what follows
  mutable std::list<Kept> kept_;  // the last read one first
  mutable std::int64_t kept_bytes_ = 0;
};

}  // namespace

std::unique_ptr<RecordFile> open_parquet(const std::string& path) {
  return std::make_unique<ParquetFile>(path);
}

std::unique_ptr<RecordFile> open_arrow(const std::string& path) {
  const StoredFile file(path);
  char first = 0;
  const bool is_stream = file.read_at(&first, 1, 0) == 1 && first != 'A';
  return std::make_unique<ArrowFile>(path, is_stream);
}

}  // namespace tributary::data
