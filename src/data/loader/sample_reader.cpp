#include "data/loader/sample_reader.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMaxReplacements = 100;  // of bad records in a row, for one sample
constexpr std::int64_t kMaxTooLong = 1000;      // of records in a row that are too long

[[noreturn]] void raise_all_bad(const SourceFiles& files, const Passed& passed) {
  TRIB_RAISE(Fault::kInput, .what = "data: no good record found in place of a bad one",
             .where = files.file().path(),
             .found = str(passed.bad.size(),
                          " bad records in a row, the last: ", passed.bad.back().refusal.reason),
             .exit = ExitCode::kDataLimit);
}

[[noreturn]] void raise_all_too_long(const SourceFiles& files, const std::string& last) {
  TRIB_RAISE(Fault::kInput, .what = "data: no sample of the source is short enough",
             .where = files.file().path(),
             .found = str(kMaxTooLong, " records in a row are too long, the last: ", last),
             .fix =
                 "raise batch.capacity_tokens or data.max_tokens if these set the limit, or "
                 "leave the source out",
             .exit = ExitCode::kDataLimit);
}

}  // namespace

template <class Use>
void SampleReader::find_usable(const Draw& draw, Passed& passed, const Use& use) const {
  const SourceFiles& files = *sources_[static_cast<std::size_t>(draw.source)];
  std::int64_t item = order_.item_at(draw.source, draw.position);
  std::int64_t too_long = 0;
  for (std::int64_t attempt = 0;; ++attempt) {
    const std::int64_t in_file = files.train_record(item);
    const Result<Record> record = files.read_train(item);
    const std::optional<Refusal> refusal =
        record ? use(record.value(), files.file().key(in_file)) : record.refusal();
    if (!refusal) return;
    if (too_long_ != config::TooLong::kRefuse && refusal->code == kTooLong) {
      if (attempt == 0) passed.is_left_out = draw.position < files.train_size();
      if (++too_long == kMaxTooLong) raise_all_too_long(files, refusal->reason);
    } else {
      passed.bad.push_back({{draw.source, in_file},
                            files.file().key(in_file),
                            files.file().offset(in_file),
                            files.digest_beginning(in_file),
                            *refusal});
      if (std::ssize(passed.bad) > kMaxReplacements) raise_all_bad(files, passed);
    }
    item = order_.replacement(draw.source, draw.index, attempt);
  }
}

void SampleReader::read(const Draw& draw, ReadSample& read, ModalitySet without) const {
  find_usable(
      draw, read.passed, [&](const Record& record, std::string key) -> std::optional<Refusal> {
        Result<EncodedSample> sample =
            without.empty() ? encoder_.encode(record) : encoder_.encode_without(record, without);
        if (!sample) return sample.refusal();
        read.sample = std::move(sample).value();
        read.sample.id = draw.index;
        read.sample.source = draw.source;
        read.sample.key = std::move(key);
        read.passed.unread_keys = record.unread_keys;
        return std::nullopt;
      });
}

std::vector<Picture> SampleReader::pictures(const Draw& draw) const {
  std::vector<Picture> pictures;
  Passed counted_by_read;
  find_usable(draw, counted_by_read,
              [&](const Record& record, const std::string&) -> std::optional<Refusal> {
                Result<std::vector<Picture>> decoded = encoder_.pictures(record);
                if (!decoded) return decoded.refusal();
                pictures = std::move(decoded).value();
                return std::nullopt;
              });
  return pictures;
}

SampleShape SampleReader::describe(const Draw& draw) const {
  SampleShape shape;
  Passed left_to_who_reads;
  find_usable(draw, left_to_who_reads,
              [&](const Record& record, const std::string&) -> std::optional<Refusal> {
                Result<SampleShape> described = encoder_.describe(record);
                if (!described) return described.refusal();
                shape = std::move(described).value();
                return std::nullopt;
              });
  return shape;
}

void append_read(std::string& message, const ReadSample& read, ModalitySet with_rows) {
  Json bad = Json::array();
  for (const Rejection& rejection : read.passed.bad)
    bad.push_back({rejection.id.source, rejection.id.record, rejection.key, rejection.offset,
                   rejection.beginning, rejection.refusal.code, rejection.refusal.reason});
  append_facts(message, {{"bad", bad},
                         {"is_left_out", read.passed.is_left_out},
                         {"unread_keys", read.passed.unread_keys},
                         {"limit", read.passed.limit}});
  append_sample(message, read.sample, with_rows);
}

std::vector<ReadSample> take_read(std::string_view message) {
  std::vector<ReadSample> samples;
  while (!message.empty()) {
    ReadSample& read = samples.emplace_back();
    const Json facts = take_facts(message);
    read.passed.is_left_out = facts.at("is_left_out").get<bool>();
    read.passed.unread_keys = facts.at("unread_keys").get<std::vector<std::string>>();
    read.passed.limit = facts.at("limit").get<std::string>();
    for (const Json& rejection : facts.at("bad"))
      read.passed.bad.push_back(
          {.id = {.source = rejection.at(0).get<std::int64_t>(),
                  .record = rejection.at(1).get<std::int64_t>()},
           .key = rejection.at(2).get<std::string>(),
           .offset = rejection.at(3).get<std::int64_t>(),
           .beginning = rejection.at(4).get<std::string>(),
           .refusal = {rejection.at(5).get<std::string>(), rejection.at(6).get<std::string>()}});
    read.sample = take_sample(message);
  }
  return samples;
}

}  // namespace tributary::data
