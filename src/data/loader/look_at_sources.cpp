#include "data/loader/look_at_sources.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <thread>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMaxNamed = 10;
constexpr const char* kFix =
    "raise batch.capacity_tokens or data.max_tokens if these set the limit, or lower "
    "data.max_pixels";

Result<SampleShape> describe(const Result<Record>& record, const SampleEncoder& encoder) {
  if (!record) return record.refusal();
  return encoder.describe(record.value());
}

/// Says why a record is too long; null when it is not, or is bad.
std::optional<std::string> why_too_long(const Result<SampleShape>& shape) {
  if (shape || shape.refusal().code != kTooLong) return std::nullopt;
  return shape.refusal().reason;
}

/// Names a record whose media the model cannot take, and says why; null for any other.
std::optional<std::string> why_not_taken(const Record& record, const Result<SampleShape>& shape) {
  if (shape || (shape.refusal().code != "no_vision" && shape.refusal().code != "no_sound"))
    return std::nullopt;
  return str(record.key, " ", shape.refusal().code, ": ", shape.refusal().reason);
}

std::string list_keys(const std::map<std::string, std::int64_t>& keys) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [key, records] : keys) {
    if (named++ == kMaxNamed) return str(text, " and ", keys.size() - kMaxNamed, " more");
    text += str(text.empty() ? "" : ", ", key, " in ", records);
  }
  return text;
}

void look_at_source(const config::SourceSection& source, config::TooLong too_long_rule,
                    const SourceFiles& files, const SampleEncoder& encoder,
                    std::map<std::string, std::int64_t>& keys, DataLook& look) {
  const std::int64_t looked_at = std::min(kLookedAt, files.train_size());
  std::int64_t tokens = 0;
  std::int64_t dropped = 0;
  std::int64_t too_long = 0;
  std::int64_t not_taken = 0;
  std::string example;
  std::string first_not_taken;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const Result<Record> record = files.read_train(i * files.train_size() / looked_at);
    if (record)
      for (const std::string& key : record.value().unread_keys) ++keys[key];
    const Result<SampleShape> shape = describe(record, encoder);
    if (shape) tokens += shape.value().tokens.count;
    dropped += shape ? 0 : 1;
    if (const auto why = record ? why_not_taken(record.value(), shape) : std::nullopt)
      if (not_taken++ == 0) first_not_taken = *why;
    const auto reason = why_too_long(shape);
    if (!reason) continue;
    if (too_long++ == 0) example = str(record.value().key, " with ", *reason);
  }
  TRIB_REQUIRE(too_long == 0 || too_long < files.train_size(),
               .what = "data: no sample of the source is short enough",
               .where = files.file().path(),
               .found = str("all ", too_long, " are too long: ", example),
               .fix = str(kFix, ", or leave the source out"), .exit = ExitCode::kDataLimit);
  TRIB_REQUIRE(
      not_taken == 0 || not_taken < looked_at,
      .what = "data: the model cannot take the media of the source", .where = files.file().path(),
      .found = str("all ", looked_at, " records looked at; the first is ", first_not_taken),
      .fix = "set model.path to a model with an encoder for them, or leave the source out");
  const double scale = static_cast<double>(files.train_size()) / static_cast<double>(looked_at);
  look.tokens += std::llround(scale * static_cast<double>(tokens));
  look.dropped += std::llround(scale * static_cast<double>(dropped));
  const std::string of_records = str(" of ", looked_at, " records looked at");
  if (too_long > 0)
    look.findings.push_back(str(
        "source ", source.name, ": samples that are too long are left out, ", too_long, of_records,
        ": ", example,
        " (data.too_long: ", too_long_rule == config::TooLong::kTruncate ? "truncate)" : "drop)"));
  if (!keys.empty())
    look.findings.push_back(
        str("source ", source.name, ": keys that nothing reads: ", list_keys(keys), of_records));
}

/// Lists key and reason of the too long training items among first, first + stride, ...
std::vector<std::string> list_too_long(const SourceFiles& files, const SampleEncoder& encoder,
                                       std::int64_t first, std::int64_t stride) {
  std::vector<std::string> found;
  for (std::int64_t item = first; item < files.train_size(); item += stride) {
    const Result<Record> record = files.read_train(item);
    if (const auto reason = why_too_long(describe(record, encoder)))
      found.push_back(str(record.value().key, ": ", *reason));
  }
  return found;
}

/// As above, for the whole source, on several threads and in no order.
std::vector<std::string> list_too_long(const SourceFiles& files, const SampleEncoder& encoder,
                                       int threads) {
  std::vector<std::vector<std::string>> parts(static_cast<std::size_t>(threads));
  std::vector<std::exception_ptr> failures(parts.size());
  {
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < parts.size(); ++i)
      running.emplace_back([&, i] {
        try {
          parts[i] = list_too_long(files, encoder, static_cast<std::int64_t>(i), threads);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
  }
  std::vector<std::string> found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    found.insert(found.end(), parts[i].begin(), parts[i].end());
  }
  return found;
}

/// Puts train.jsonl:9 before train.jsonl:10.
bool is_before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

DataLook look_at_sources(const config::DataSection& data,
                         const std::vector<std::unique_ptr<SourceFiles>>& sources,
                         const SampleEncoder& encoder, std::set<std::string>& unread_keys) {
  DataLook look;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (data.sources[i].weight == 0) continue;
    std::map<std::string, std::int64_t> keys;
    look_at_source(data.sources[i], data.too_long, *sources[i], encoder, keys, look);
    for (const auto& [key, records] : keys) unread_keys.insert(data.sources[i].name + " " + key);
  }
  return look;
}

void refuse_too_long(const config::DataSection& data,
                     const std::vector<std::unique_ptr<SourceFiles>>& sources,
                     const SampleEncoder& encoder) {
  std::string list;
  std::size_t count = 0;
  std::int64_t records = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (data.sources[i].weight == 0) continue;
    records += sources[i]->train_size();
    std::vector<std::string> found = list_too_long(*sources[i], encoder, data.workers);
    std::sort(found.begin(), found.end(), is_before);
    for (const std::string& each : found)
      if (count++ < kMaxNamed) list += "\n  " + each;
  }
  if (count > kMaxNamed) list += str("\n  and ", count - kMaxNamed, " more");
  TRIB_REQUIRE(count == 0, .what = "data: samples are too long", .where = "data.too_long: refuse",
               .found = str(count, " of ", records, " training records:", list, "\n "),
               .fix = str(kFix, ", or set data.too_long: drop or truncate"),
               .exit = ExitCode::kDataLimit);
}

}  // namespace tributary::data
