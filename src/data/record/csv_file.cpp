#include "data/record/csv_file.h"

#include <string_view>

#include "core/error.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMaxRowBytes = std::int64_t{16} << 20;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// The cells of a row. A quoted cell may hold commas and newlines, and "" for a quote.
std::vector<std::string> split_row(std::string_view row) {
  while (row.ends_with('\n') || row.ends_with('\r')) row.remove_suffix(1);
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const char byte = row[i];
    if (byte == '"' && quoted && i + 1 < row.size() && row[i + 1] == '"') {
      cells.back() += row[i++];
    } else if (byte == '"') {
      quoted = !quoted;
    } else if (byte == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += byte;
    }
  }
  return cells;
}

}  // namespace

CsvFile::CsvFile(std::unique_ptr<ByteFile> file) : file_(std::move(file)) {
  std::int64_t at = 0;
  Row row{.offset = 0, .length = 0, .line = 1};
  std::int64_t line = 1;
  bool quoted = false;
  bool blank = true;  // nothing but the end of the line so far
  const auto end_row = [&](std::int64_t end) {
    row.length = end - row.offset;
    if (!blank) rows_.push_back(row);
    blank = true;
    row = {.offset = end, .length = 0, .line = line};
  };
  file_->scan([&](std::string_view block) {
    for (const char byte : block) {
      ++at;
      if (byte == '"') quoted = !quoted;
      blank = blank && (byte == '\n' || byte == '\r');
      if (byte != '\n') continue;
      ++line;
      if (!quoted) end_row(at);
    }
  });
  if (row.offset < at) end_row(at);
  TRIB_REQUIRE(!quoted, .what = "data: quote of a CSV file is not closed", .where = path(),
               .found = str("the end of the file in the row of line ", rows_.back().line),
               .expected = "a second \" in the same cell");
  TRIB_REQUIRE(rows_.size() > 1, .what = "data: file holds no record", .where = path(),
               .found = str(rows_.size(), " rows"), .expected = "names of columns, then rows");
  std::string header = text(rows_.front()).value();
  if (header.starts_with(kUtf8Mark)) header.erase(0, kUtf8Mark.size());
  columns_ = split_row(header);
  rows_.erase(rows_.begin());
}

Result<std::string> CsvFile::text(const Row& row) const {
  if (row.length > kMaxRowBytes)
    return Refusal{"line_too_long", str(row.length, " bytes, limit ", kMaxRowBytes)};
  return file_->read(row.offset, static_cast<std::size_t>(row.length));
}

Result<StoredRecord> CsvFile::read(std::int64_t record) const {
  const Result<std::string> row = text(rows_[static_cast<std::size_t>(record)]);
  if (!row) return row.refusal();
  const std::vector<std::string> cells = split_row(row.value());
  if (cells.size() != columns_.size())
    return Refusal{"bad_field", str("row has ", cells.size(), " cells, the first row names ",
                                    columns_.size(), " columns")};
  Json json = Json::object();
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (!cells[i].empty()) json[columns_[i]] = cells[i];
  try {
    (void)json.dump();
  } catch (const Json::exception&) {
    return Refusal{"bad_utf8", "row is not UTF-8"};
  }
  return StoredRecord{.json = std::move(json)};
}

std::string CsvFile::key(std::int64_t record) const {
  return str(path(), ":", rows_[static_cast<std::size_t>(record)].line);
}
std::int64_t CsvFile::offset(std::int64_t record) const {
  return rows_[static_cast<std::size_t>(record)].offset;
}
std::string CsvFile::beginning_of(std::int64_t record) const {
  const Result<std::string> row = text(rows_[static_cast<std::size_t>(record)]);
  return row ? row.value().substr(0, kMaxBeginningBytes) : "";
}

}  // namespace tributary::data
