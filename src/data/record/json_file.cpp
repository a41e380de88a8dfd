#include "data/record/json_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "data/record/record.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr std::uint32_t kMaxLineBytes = 16u << 20;
constexpr std::uint32_t kLargest = std::numeric_limits<std::uint32_t>::max();
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }
bool is_space(char byte) { return is_blank(byte) || byte == '\n'; }

Result<StoredRecord> document_of(std::string text) {
  Json json{{"text", std::move(text)}};
  try {
    (void)json.dump();
  } catch (const Json::exception&) {
    return Refusal{"bad_utf8", "line is not UTF-8"};
  }
  return StoredRecord{.json = std::move(json)};
}

}  // namespace

/// Finds the lines of a file whose bytes come in blocks.
class JsonFile::LineIndex {
 public:
  explicit LineIndex(JsonFile& file) : file_(file) {}

  void take(std::string_view block) {
    std::size_t i = at_ == 0 && block.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    if (i > 0) begin_ = static_cast<std::int64_t>(i);
    while (i < block.size()) {
      while (blank_ && i < block.size() && is_blank(block[i])) ++i;
      if (i == block.size()) break;
      blank_ = blank_ && block[i] == '\n';
      const std::size_t newline = block.find('\n', i);
      if (newline == std::string_view::npos) break;
      add(at_ + static_cast<std::int64_t>(newline));
      begin_ = at_ + static_cast<std::int64_t>(newline) + 1;
      i = newline + 1;
    }
    at_ += std::ssize(block);
  }
  void end() {
    if (begin_ < at_) add(at_);
  }

 private:
  void add(std::int64_t end) {
    if (blank_) {
      ++file_.blank_lines_;
    } else {
      file_.add_line(begin_, end - begin_, number_);
    }
    ++number_;
    blank_ = true;
  }

  JsonFile& file_;
  std::int64_t at_ = 0;     // of the block in the file
  std::int64_t begin_ = 0;  // of the line
  std::int64_t number_ = 1;
  bool blank_ = true;  // nothing but white space so far in this line
};

/// Finds the elements of one JSON list whose bytes come in blocks.
class JsonFile::ListIndex {
 public:
  explicit ListIndex(JsonFile& file) : file_(file) {}

  void take(std::string_view block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (in_string_ && !escaped_) {  // most bytes are within strings
        const std::size_t next = block.find_first_of("\"\\", i);
        if (next == std::string_view::npos) break;
        i = next;
      }
      step(block[i], at_ + static_cast<std::int64_t>(i));
    }
    at_ += std::ssize(block);
  }
  void end() const {
    TRIB_REQUIRE(closed_, .what = "data: JSON list is not closed", .where = file_.path(),
                 .found = str("the end of the file after ", at_, " bytes and ", file_.records(),
                              " whole elements"),
                 .expected = "a ] at its end", .fix = "fetch or write the file again");
  }

 private:
  void step(char byte, std::int64_t at) {
    if (in_string_) {
      in_string_ = escaped_ || byte != '"';
      escaped_ = !escaped_ && byte == '\\';
      return;
    }
    if (is_space(byte) || (depth_ == 0 && !closed_ && byte != '[')) return;  // or byte order mark
    TRIB_REQUIRE(!closed_, .what = "data: bytes after a JSON list", .where = file_.path(),
                 .found = str(escaped(std::string(1, byte)), " at byte ", at + 1),
                 .expected = "the end of the file after its ]");
    const bool ends = depth_ == 1 && (byte == ',' || byte == ']');
    if (ends && begin_ >= 0) file_.add_line(begin_, at - begin_, number_++);
    if (ends) begin_ = -1;
    if (depth_ == 1 && !ends && begin_ < 0) begin_ = at;
    if (byte == '[' || byte == '{') ++depth_;
    if (byte == ']' || byte == '}') --depth_;
    in_string_ = byte == '"';
    closed_ = depth_ == 0;
  }

  JsonFile& file_;
  std::int64_t at_ = 0;
  std::int64_t begin_ = -1;  // of the element; below 0 between elements
  std::int64_t number_ = 0;
  std::int64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool closed_ = false;
};

JsonFile::JsonFile(std::unique_ptr<ByteFile> file, Content content)
    : file_(std::move(file)), content_(content) {
  index_records();
  TRIB_REQUIRE(!lines_.empty(), .what = "data: file holds no record", .where = path(),
               .found = str(bytes(), " bytes, ", blank_lines_, " blank lines"),
               .expected = "one JSON object a line, or a list of them");
}

void JsonFile::add_line(std::int64_t offset, std::int64_t length, std::int64_t number) {
  TRIB_REQUIRE(number < kLargest, .what = "data: file has too many lines", .where = path(),
               .expected = str("fewer than ", kLargest));
  lines_.push_back({offset, static_cast<std::uint32_t>(std::min<std::int64_t>(length, kLargest)),
                    static_cast<std::uint32_t>(number)});
}

void JsonFile::index_records() {
  LineIndex lines(*this);
  ListIndex list(*this);
  bool is_known = content_ == Content::kText;
  file_->scan([&](std::string_view block) {
    if (!is_known) {
      const std::string_view text =
          block.substr(block.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
      const auto first = std::ranges::find_if_not(text, is_space);
      is_list_ = first != text.end() && *first == '[';
      is_known = true;
    }
    is_list_ ? list.take(block) : lines.take(block);
  });
  if (is_list_) {
    list.end();
  } else {
    lines.end();
  }
}

Result<std::string> JsonFile::text(std::int64_t record) const {
  TRIB_CHECK(record >= 0 && record < records(), .what = "data: record outside the file",
             .where = path(), .found = str(record), .expected = str("below ", records()));
  const Line& line = lines_[static_cast<std::size_t>(record)];
  if (line.length > kMaxLineBytes)
    return Refusal{"line_too_long", str(line.length == kLargest ? "at least " : "", line.length,
                                        " bytes, limit ", kMaxLineBytes)};
  Result<std::string> text = file_->read(line.offset, line.length);
  if (!text || !text.value().ends_with('\r')) return text;
  return text.value().substr(0, text.value().size() - 1);
}

Result<StoredRecord> JsonFile::read(std::int64_t record) const {
  Result<std::string> line = text(record);
  if (!line) return line.refusal();
  if (content_ == Content::kText) return document_of(std::move(line).value());
  Result<Json> json = parse_line(line.value());
  if (!json) return json.refusal();
  return StoredRecord{.json = std::move(json).value()};
}

std::string JsonFile::key(std::int64_t record) const {
  const Line& line = lines_[static_cast<std::size_t>(record)];
  return is_list_ ? str(path(), "[", line.number, "]") : str(path(), ":", line.number);
}

std::string JsonFile::beginning_of(std::int64_t record) const {
  const Result<std::string> line = text(record);
  return line ? line.value().substr(0, kMaxBeginningBytes) : "";
}

}  // namespace tributary::data
