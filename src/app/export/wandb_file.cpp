#include "app/export/wandb_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "core/file/given_file.h"
#include "core/file/protobuf.h"
#include "core/json.h"
#include "core/text.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

/// The log format of LevelDB: records in blocks of 32 KiB, each with checksum, length and type.
class RecordLog {
 public:
  void append(std::string_view record) {
    constexpr std::size_t kBlock = 32768;
    constexpr std::size_t kHead = 7;
    bool is_first = true;
    do {
      std::size_t left = kBlock - bytes_.size() % kBlock;
      if (left < kHead) bytes_.append(left, '\0'), left = kBlock;
      const std::string_view part = record.substr(0, left - kHead);
      record.remove_prefix(part.size());
      append_part(part, is_first, record.empty());
      is_first = false;
    } while (!record.empty());
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  enum Type { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

  void append_part(std::string_view part, bool is_first, bool is_last) {
    const char type = is_first ? (is_last ? kFull : kFirst) : (is_last ? kLast : kMiddle);
    std::string content(1, type);
    content += part;
    const auto checksum = ::crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                  static_cast<uInt>(content.size()));
    bytes_ += little_endian(checksum, 4) + little_endian(part.size(), 2) + content;
  }

  // A file of W&B begins with the magic 0xBEE1 and version 0.
  std::string bytes_ = std::string(":W&B") + little_endian(0xBEE1, 2) + little_endian(0, 1);
};

// Record: 1 num, 2 history, 3 summary, 17 run, 18 exit, 21 header. HistoryRecord: 1 item, 2 step.
// HistoryItem, SummaryItem and ConfigItem: 1 key, 16 value_json. HistoryStep: 1 num. RunRecord:
// 1 run_id, 3 project, 4 config, 8 display_name, 17 start_time. ConfigRecord and SummaryRecord:
// 1 update. RunExitRecord: 1 exit_code, 2 runtime. HeaderRecord: 1 version_info. VersionInfo:
// 1 producer, 2 min_consumer.

std::string item(const std::string& key, const std::string& value_json) {
  return proto_bytes(1, proto_bytes(1, key) + proto_bytes(16, value_json));
}

std::string number_json(double value) { return Json(value).dump(); }

std::string run_record(const RunHistory& history, const std::string& id,
                       const std::string& project) {
  std::string config;
  for (const auto& [key, value] : history.settings) config += item(key, value);
  const double whole = std::floor(history.started);
  const std::string start =
      proto_integer(1, static_cast<std::int64_t>(whole)) +
      proto_integer(2, static_cast<std::int64_t>(1e9 * (history.started - whole)));
  return proto_bytes(1, id) + proto_bytes(3, project) + proto_bytes(4, config) +
         proto_bytes(8, history.name) + proto_bytes(17, start);
}

std::string history_record(const RunHistory& history, std::int64_t number,
                           const RunHistory::Step& step) {
  std::string record = item("_step", str(number)) + item("_runtime", number_json(step.seconds)) +
                       item("_timestamp", number_json(history.started + step.seconds));
  for (const auto& [figure, value] : step.figures) record += item(figure, number_json(value));
  return record + proto_bytes(2, proto_integer(1, number));
}

/// The last value of each figure, which is what a list of runs shows.
std::string summary_record(const RunHistory& history) {
  std::map<std::string, double> last;
  for (const auto& [number, step] : history.steps)
    for (const auto& [figure, value] : step.figures) last[figure] = value;
  std::string record = item("_runtime", number_json(history.seconds()));
  for (const auto& [figure, value] : last) record += item(figure, number_json(value));
  return record;
}

/// Removes what another export of the run left, whose start may have been another.
void remove_exports(const fs::path& folder, const std::string& id) {
  if (!fs::is_directory(folder)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("offline-run-") && name.ends_with("-" + id)) fs::remove_all(entry.path());
  }
}

/// The time of the start as W&B writes it into the name of the directory.
std::string start_name(double started) {
  const auto seconds = static_cast<std::time_t>(started);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &parts);
  return text.data();
}

}  // namespace

std::string write_wandb_run(const RunHistory& history, const std::string& folder,
                            const std::string& project) {
  const std::string id = history.key.substr(0, 8);
  RecordLog log;
  std::int64_t records = 0;
  const auto append = [&](unsigned field, const std::string& content) {
    log.append(proto_integer(1, ++records) + proto_bytes(field, content));
  };
  append(21, proto_bytes(1, proto_bytes(1, "tributary") + proto_bytes(2, "0.0.1")));
  append(17, run_record(history, id, project));
  for (const auto& [number, step] : history.steps) append(2, history_record(history, number, step));
  append(3, summary_record(history));
  if (history.has_ended || history.has_failed)
    append(18, proto_integer(1, history.has_failed ? 1 : 0) +
                   proto_integer(2, std::llround(history.seconds())));
  const fs::path run = fs::path(folder) / str("offline-run-", start_name(history.started), "-", id);
  remove_exports(folder, id);
  fs::create_directories(run / "files");
  write_given_file((run / str("run-", id, ".wandb")).string(), log.bytes(),
                   {.what = "metrics: file cannot be written"});
  return run.string();
}

}  // namespace tributary::app
