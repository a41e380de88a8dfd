#include "data/loader/read_sample.h"

#include <nlohmann/json.hpp>

namespace tributary::data {

void append_read(std::string& message, const ReadSample& read, MediaRows rows) {
  Json bad = Json::array();
  for (const Rejection& rejection : read.passed.bad)
    bad.push_back({rejection.id.source, rejection.id.record, rejection.key, rejection.offset,
                   rejection.beginning, rejection.refusal.code, rejection.refusal.reason});
  append_facts(message, {{"bad", bad},
                         {"is_left_out", read.passed.is_left_out},
                         {"unread_keys", read.passed.unread_keys},
                         {"limit", read.passed.limit}});
  append_sample(message, read.sample, rows);
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
