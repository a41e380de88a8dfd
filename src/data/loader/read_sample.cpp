#include "data/loader/read_sample.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMostReplacements = 100;  // for one sample, in a row

}  // namespace

template <class Use>
void SampleReader::find_good(const Draw& draw, std::vector<Rejection>& rejections,
                             const Use& use) const {
  const SourceFiles& files = *sources_[static_cast<std::size_t>(draw.source)];
  std::int64_t item = order_.item_at(draw.source, draw.position);
  for (std::int64_t attempt = 0; attempt <= kMostReplacements; ++attempt) {
    const std::int64_t in_file = files.train_record(item);
    const Result<Record> record = files.read_train(item);
    const std::optional<Refusal> refusal =
        record ? use(record.value(), files.file().key(in_file)) : record.refusal();
    if (!refusal) return;
    rejections.push_back({{draw.source, in_file},
                          files.file().key(in_file),
                          files.file().offset(in_file),
                          files.digest_beginning(in_file),
                          *refusal});
    item = order_.replacement(draw.source, draw.index, attempt);
  }
  TRIB_RAISE(Fault::kInput, .what = "data: no good record found in place of a bad one",
             .where = files.file().path(),
             .found = str(kMostReplacements + 1,
                          " bad records in a row, the last: ", rejections.back().refusal.reason),
             .exit = ExitCode::kDataLimit);
}

void SampleReader::read(const Draw& draw, ReadSample& read) const {
  find_good(draw, read.rejections,
            [&](const Record& record, std::string key) -> std::optional<Refusal> {
              Result<EncodedSample> sample = encoder_.encode(record);
              if (!sample) return sample.refusal();
              read.sample = std::move(sample).value();
              read.sample.id = draw.index;
              read.sample.source = draw.source;
              read.sample.key = std::move(key);
              return std::nullopt;
            });
}

SampleShape SampleReader::describe(const Draw& draw) const {
  SampleShape shape;
  std::vector<Rejection> left_to_who_reads;
  find_good(draw, left_to_who_reads,
            [&](const Record& record, const std::string&) -> std::optional<Refusal> {
              Result<SampleShape> described = encoder_.describe(record);
              if (!described) return described.refusal();
              shape = std::move(described).value();
              return std::nullopt;
            });
  return shape;
}

void append_read(std::string& message, const ReadSample& read, MediaRows rows) {
  Json rejections = Json::array();
  for (const Rejection& rejection : read.rejections)
    rejections.push_back({rejection.id.source, rejection.id.record, rejection.key, rejection.offset,
                          rejection.beginning, rejection.refusal.code, rejection.refusal.reason});
  append_facts(message, rejections);
  append_sample(message, read.sample, rows);
}

std::vector<ReadSample> take_read(std::string_view message) {
  std::vector<ReadSample> samples;
  while (!message.empty()) {
    ReadSample& read = samples.emplace_back();
    for (const Json& rejection : take_facts(message))
      read.rejections.push_back(
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
