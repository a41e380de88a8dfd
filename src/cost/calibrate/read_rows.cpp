#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <memory>

#include "core/error.h"
#include "core/file/given_file.h"
#include "core/nearest_name.h"
#include "core/split_text.h"
#include "cost/calibrate/training_row.h"

namespace tributary::cost {
namespace {

struct Column {
  const char* name;
  bool required;
  std::int64_t TrainingRow::*field;
  std::int64_t max;
};

constexpr std::int64_t kMany = std::int64_t{1} << 24;
constexpr std::array kColumns{
    Column{"# GPUs", true, &TrainingRow::devices, kMany},
    Column{"global batch", true, &TrainingRow::global_batch, kMany},
    Column{"micro batch", true, &TrainingRow::micro_batch, kMany},
    Column{"hidden size", true, &TrainingRow::width, kMany},
    Column{"attention heads", true, &TrainingRow::heads, 1 << 16},
    Column{"# layers", true, &TrainingRow::layers, 1 << 16},
    Column{"sequence length", true, &TrainingRow::sequence, kMany},
    Column{"tensor parallelism", true, &TrainingRow::tp, kMany},
    Column{"data parallelism", true, &TrainingRow::dp, kMany},
    Column{"pipeline parallelism", true, &TrainingRow::pp, kMany},
    Column{"virtual stages", false, &TrainingRow::virtual_stages, 1 << 16},
    Column{"vocabulary", false, &TrainingRow::vocab, kMany},
};
constexpr const char* kTime = "iteration time (ms)";
constexpr const char* kRecompute = "recompute";
constexpr const char* kPredicted = "predicted_ms";
constexpr const char* kSequenceParallel = "sequence parallelism";
constexpr std::string_view kBlanks = " \t\r\"";

std::string lower(std::string text) {
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size() || error != std::errc()) return std::nullopt;
  return number;
}

class RowReader {
 public:
  explicit RowReader(TrainingTable& table)
      : table_(table), source_(std::make_shared<const std::string>(table.source)) {}

  void take_header(std::string_view line) {
    table_.header = std::string(line);
    fields_ = split_at(',', line, kBlanks);
    names_.assign(fields_.begin(), fields_.end());
    for (const std::string& name : names_) lower_names_.push_back(lower(name));
    for (const Column& column : kColumns)
      columns_.push_back(column.required ? find_required(column.name) : find_optional(column.name));
    time_ = find_optional(kTime);
    recompute_ = find_optional(kRecompute);
    sequence_parallel_ = find_optional(kSequenceParallel);
    table_.predicted = find(kPredicted);
  }

  void take_row(std::string_view line, std::int64_t number) {
    fields_ = split_at(',', line, kBlanks);
    line_ = number;
    TRIB_REQUIRE(fields_.size() == names_.size(), .what = "cost: row of another width",
                 .where = place(), .found = str(fields_.size(), " fields"),
                 .expected = str(names_.size(), ", as in the header"));
    TrainingRow row{.source = source_, .line = number};
    for (std::size_t i = 0; i < kColumns.size(); ++i)
      if (columns_[i] >= 0) row.*kColumns[i].field = whole(columns_[i], kColumns[i].max);
    if (time_ >= 0 && !fields_[time_].empty()) row.seconds = 1e-3 * milliseconds();
    if (recompute_ >= 0) row.recompute = recompute();
    if (sequence_parallel_ >= 0) row.sequence_parallel = flag();
    check(row);
    table_.rows.push_back(row);
    table_.lines.emplace_back(line);
  }

 private:
  /// The column of that name; -1: there is none.
  [[nodiscard]] int find(const std::string& name) const {
    int found = -1;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] != name) continue;
      TRIB_REQUIRE(found < 0, .what = "cost: column stands twice",
                   .where = str(table_.source, ":1"), .found = escaped(name),
                   .fix = "keep one of them");
      found = static_cast<int>(i);
    }
    return found;
  }
  [[nodiscard]] int find_required(const std::string& name) const {
    const int found = find(name);
    const std::string nearest = found < 0 ? nearest_name(name, names_) : "";
    TRIB_REQUIRE(found >= 0, .what = "cost: column is missing", .where = str(table_.source, ":1"),
                 .expected = name,
                 .fix = nearest.empty() ? "add it: docs/formats/training_rows.md"
                                        : str("is it ", escaped(nearest), "?"));
    return found;
  }
  /// Refuses near misses of the name: a misspelt column would silently get the default.
  [[nodiscard]] int find_optional(const std::string& name) const {
    constexpr std::size_t kSlip = 2;  // max edits of a near miss
    const int found = find(name);
    const std::string nearest = found < 0 ? nearest_name(name, lower_names_, kSlip) : "";
    TRIB_REQUIRE(nearest.empty(), .what = "cost: column is nearly one that means something",
                 .where = str(table_.source, ":1"), .found = escaped(nearest),
                 .expected = str(name, ", or a name unlike it"),
                 .fix = str("is it ", escaped(name), "? Rename the column"));
    return found;
  }
  [[nodiscard]] std::string place() const { return str(table_.source, ":", line_); }
  [[nodiscard]] std::string place(int column) const {
    return str(place(), " column ", escaped(names_[column]));
  }
  /// Reads a whole number; tables with gaps write it as a float: 4.0.
  [[nodiscard]] std::int64_t whole(int column, std::int64_t max) const {
    const auto number = to_number<double>(fields_[column]);
    const bool fits = number && *number >= 1 && *number <= static_cast<double>(max) &&
                      *number == std::floor(*number);
    TRIB_REQUIRE(fits, .what = "cost: value cannot be used", .where = place(column),
                 .found = escaped(fields_[column]), .expected = str("a whole number, 1 to ", max));
    return static_cast<std::int64_t>(*number);
  }
  [[nodiscard]] double milliseconds() const {
    const auto number = to_number<double>(fields_[time_]);
    TRIB_REQUIRE(number && std::isfinite(*number) && *number > 0 && *number < 1e12,
                 .what = "cost: value cannot be used", .where = place(time_),
                 .found = escaped(fields_[time_]), .expected = "milliseconds above 0, or nothing");
    return *number;
  }
  [[nodiscard]] std::optional<config::RecomputePlan> recompute() const {
    const std::string_view name = fields_[recompute_];
    if (name.empty()) return std::nullopt;
    if (name == "none") return config::RecomputePlan::kNone;
    if (name == "selective") return config::RecomputePlan::kSelective;
    TRIB_REQUIRE(name == "full", .what = "cost: value cannot be used", .where = place(recompute_),
                 .found = escaped(name), .expected = "none, selective, full, or nothing");
    return config::RecomputePlan::kFull;
  }
  [[nodiscard]] bool flag() const {
    const auto value = to_number<double>(fields_[sequence_parallel_]);
    TRIB_REQUIRE(value && (*value == 0 || *value == 1), .what = "cost: value cannot be used",
                 .where = place(sequence_parallel_), .found = escaped(fields_[sequence_parallel_]),
                 .expected = "0 or 1");
    return *value == 1;
  }

  void check(const TrainingRow& row) const {
    TRIB_REQUIRE(row.tp * row.dp * row.pp == row.devices,
                 .what = "cost: degrees do not multiply to the devices", .where = place(),
                 .found = str("tp ", row.tp, ", dp ", row.dp, ", pp ", row.pp, " on ", row.devices),
                 .expected = "tp * dp * pp = # GPUs");
    TRIB_REQUIRE(row.global_batch % (row.dp * row.micro_batch) == 0,
                 .what = "cost: batch does not divide into microbatches", .where = place(),
                 .found = str("global batch ", row.global_batch, ", dp ", row.dp, ", micro batch ",
                              row.micro_batch),
                 .expected = "a multiple of dp * micro batch");
    TRIB_REQUIRE(row.heads % row.tp == 0 && row.width % row.heads == 0,
                 .what = "cost: heads do not divide", .where = place(),
                 .found = str("hidden size ", row.width, ", ", row.heads, " heads, tp ", row.tp),
                 .expected = "hidden size a multiple of the heads, heads a multiple of tp");
    TRIB_REQUIRE(
        row.layers >= row.pp * row.virtual_stages, .what = "cost: fewer layers than stages",
        .where = place(),
        .found = str(row.layers, " layers, pp ", row.pp, ", virtual stages ", row.virtual_stages));
  }

  TrainingTable& table_;
  std::shared_ptr<const std::string> source_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> names_;
  std::vector<std::string> lower_names_;
  std::vector<int> columns_;  // [kColumns]; -1: not there
  int time_ = -1;
  int recompute_ = -1;
  int sequence_parallel_ = -1;
  std::int64_t line_ = 1;
};

/// Replaces the value of one field of a line; -1 appends a field.
std::string with_field(std::string_view line, int column, const std::string& value) {
  if (column < 0) return str(line, ',', value);
  std::size_t begin = 0;
  for (int field = 0; field < column; ++field) begin = line.find(',', begin) + 1;
  const std::size_t end = std::min(line.find(',', begin), line.size());
  return str(line.substr(0, begin), value, line.substr(end));
}

}  // namespace

std::string write_predictions(const TrainingTable& table, std::span<const double> seconds) {
  TRIB_CHECK(seconds.size() == table.rows.size(), .what = "cost: predictions are not of the rows");
  std::string text = with_field(table.header, table.predicted, kPredicted) + '\n';
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    text +=
        with_field(table.lines[i], table.predicted, str(std::setprecision(9), 1e3 * seconds[i]));
    text += '\n';
  }
  return text;
}

TrainingTable parse_training_rows(std::string_view text, const std::string& source) {
  TrainingTable table{.source = source};
  RowReader reader(table);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::int64_t number = 0;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (number == 1) {
      reader.take_header(line);
    } else if (!trimmed(line, kBlanks).empty()) {
      reader.take_row(line, number);
    }
  }
  TRIB_REQUIRE(!table.rows.empty(), .what = "cost: file holds no rows", .where = str(source, ":1"),
               .expected = "a header, then a row for each configuration",
               .fix = "add rows: docs/formats/training_rows.md");
  return table;
}

TrainingTable read_training_rows(const std::string& path) {
  return parse_training_rows(
      read_given_file(path, kAnySize,
                      {.what = "cost: file cannot be read",
                       .expected = "rows of step times, docs/formats/training_rows.md"}),
      path);
}

}  // namespace tributary::cost
