#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/json.h"
#include "data/loader/survey.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kBarWidth = 40;

Json to_json(const Histogram& histogram) {
  Json counts = Json::array();
  for (const auto& [from, count] : histogram.counts) counts.push_back({from, count});
  return {{"values", histogram.values},
          {"min", histogram.min},
          {"max", histogram.max},
          {"sum", histogram.sum},
          {"median", histogram.percentile(50)},
          {"percentile_90", histogram.percentile(90)},
          {"percentile_99", histogram.percentile(99)},
          {"counts", counts}};
}

void print(std::ostream& out, const std::string& title, const Histogram& histogram) {
  if (histogram.values == 0) return;
  out << "  " << title << ": min " << histogram.min << ", mean " << histogram.sum / histogram.values
      << ", max " << histogram.max << "; median " << histogram.percentile(50) << ", 90 % within "
      << histogram.percentile(90) << ", 99 % within " << histogram.percentile(99) << '\n';
  std::int64_t highest = 0;
  for (const auto& [from, count] : histogram.counts) highest = std::max(highest, count);
  for (const auto& [from, count] : histogram.counts) {
    const std::int64_t to = std::max<std::int64_t>(2 * from - 1, from);
    const std::int64_t bar = (count * kBarWidth + highest - 1) / highest;
    out << "    " << std::setw(8) << from << " - " << std::setw(8) << to << "  " << std::setw(8)
        << count << "  " << std::string(static_cast<std::size_t>(bar), '#') << '\n';
  }
}

void print_examples(std::ostream& out, const std::vector<BadRecord>& records, std::int64_t all) {
  for (const BadRecord& each : records)
    out << "    " << each.key << "  " << each.refusal.code << ": " << each.refusal.reason << '\n';
  const std::int64_t left = all - std::ssize(records);
  if (left > 0) out << "    and " << left << " more\n";
}

void print_too_long(std::ostream& out, const Survey& survey) {
  if (survey.too_long == 0) return;
  out << "  longer than " << survey.max_tokens << ": " << survey.too_long << " of "
      << survey.tokens.values
      << " samples; data.too_long says what becomes of them, batch.capacity_tokens and "
         "data.max_tokens set the limit\n";
  print_examples(out, survey.first_too_long, survey.too_long);
}

void print_unread_keys(std::ostream& out, const Survey& survey) {
  constexpr std::size_t kMaxShown = 20;
  if (survey.unread_keys.empty()) return;
  out << "  keys that nothing reads:";
  std::size_t shown = 0;
  for (const auto& [key, records] : survey.unread_keys) {
    if (shown++ == kMaxShown) break;
    out << (shown == 1 ? " " : ", ") << key << " in " << records;
  }
  if (survey.unread_keys.size() > kMaxShown)
    out << " and " << survey.unread_keys.size() - kMaxShown << " more";
  out << " of " << survey.surveyed - survey.bad_records() << " records\n";
}

void print_bad(std::ostream& out, const Survey& survey) {
  out << "  bad: " << survey.bad_records();
  std::string separator = " (";
  for (const auto& [code, count] : survey.bad) {
    out << separator << code << ' ' << count;
    separator = ", ";
  }
  out << (survey.bad.empty() ? "\n" : ")\n");
  print_examples(out, survey.first_bad, survey.bad_records());
}

}  // namespace

Json to_json(const Survey& survey) {
  Json first_bad = Json::array();
  for (const BadRecord& bad : survey.first_bad)
    first_bad.push_back(
        {{"key", bad.key}, {"code", bad.refusal.code}, {"reason", bad.refusal.reason}});
  Json json{{"name", survey.name},
            {"path", survey.path},
            {"bytes", survey.bytes},
            {"records", survey.records},
            {"surveyed", survey.surveyed},
            {"blank_lines", survey.blank_lines},
            {"forms", survey.forms},
            {"turns", survey.turns},
            {"images", survey.images},
            {"clips", survey.clips},
            {"sounds", survey.sounds},
            {"frames", survey.frames},
            {"text_bytes", to_json(survey.text_bytes)},
            {"picture_sides", to_json(survey.picture_sides)},
            {"unread_keys", survey.unread_keys},
            {"bad", survey.bad},
            {"first_bad", first_bad},
            {"first_sample", survey.first_sample}};
  if (survey.tokens.values > 0) {
    json["tokens"] = to_json(survey.tokens);
    json["target_tokens"] = to_json(survey.target_tokens);
  }
  if (survey.max_tokens.count > 0) {
    json["max_tokens"] = survey.max_tokens.count;
    json["too_long"] = survey.too_long;
  }
  return json;
}

std::string to_text(const Survey& survey) {
  std::ostringstream out;
  out << survey.name << ": " << survey.path << '\n'
      << "  records: " << survey.records << " in " << survey.bytes << " bytes";
  if (survey.surveyed < survey.records) out << ", the first " << survey.surveyed << " inspected";
  if (survey.blank_lines > 0) out << ", " << survey.blank_lines << " blank lines";
  out << '\n';
  if (survey.forms.empty()) {
    out << "  no record is good\n";
    print_bad(out, survey);
    return std::move(out).str();
  }
  out << "  forms:";
  for (const auto& [form, records] : survey.forms)
    out << (form == survey.forms.begin()->first ? " " : ", ") << form << ' ' << records;
  out << "\n  turns: " << survey.turns << "\n  media: images " << survey.images << ", clips "
      << survey.clips << " (" << survey.frames << " frames), sounds " << survey.sounds << "\n";
  print(out, "text of a record [bytes]", survey.text_bytes);
  print(out, "tokens of a sample", survey.tokens);
  print(out, "target tokens of a sample", survey.target_tokens);
  print(out, "longer side of a picture [pixels]", survey.picture_sides);
  print_too_long(out, survey);
  print_unread_keys(out, survey);
  print_bad(out, survey);
  if (!survey.first_sample.empty()) {
    out << "  first sample:\n";
    std::istringstream lines(survey.first_sample);
    for (std::string line; std::getline(lines, line);) out << "    " << line << '\n';
  }
  return std::move(out).str();
}

}  // namespace tributary::data
