#include "data/loader/sample_bytes.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::data {
namespace {

template <class Value>
void append_values(std::string& message, const std::vector<Value>& values) {
  const std::size_t begin = message.size();
  message.resize(begin + values.size() * sizeof(Value));
  if (!values.empty())
    std::memcpy(message.data() + begin, values.data(), values.size() * sizeof(Value));
}

std::string_view take_bytes(std::string_view& message, std::size_t count) {
  TRIB_CHECK(message.size() >= count, .what = "data: message of a rank is cut",
             .found = str(message.size(), " bytes"), .expected = str(count));
  const std::string_view bytes = message.substr(0, count);
  message.remove_prefix(count);
  return bytes;
}

template <class Value>
std::vector<Value> take_values(std::string_view& message, std::size_t count) {
  const std::string_view bytes = take_bytes(message, count * sizeof(Value));
  std::vector<Value> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Json describe_items(const EncodedSample& sample, ModalitySet with_rows) {
  Json items = Json::array();
  for (const PatchedItem& item : sample.items)
    items.push_back(
        {static_cast<int>(item.modality), item.grid.time, item.grid.rows, item.grid.columns,
         item.seconds_per_step, with_rows.has(item.modality) ? item.rows.size() : 0,
         item.grid.mosaic.tile_columns, item.grid.mosaic.rows, item.grid.mosaic.columns});
  return items;
}

}  // namespace

void append_facts(std::string& message, const Json& facts) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(facts);
  append_values(message, std::vector<std::uint64_t>{bytes.size()});
  append_values(message, bytes);
}

Json take_facts(std::string_view& message) {
  const auto size = static_cast<std::size_t>(take_values<std::uint64_t>(message, 1).front());
  return Json::from_cbor(take_bytes(message, size));
}

void append_sample(std::string& message, const EncodedSample& sample, ModalitySet with_rows) {
  append_facts(message, {{"id", sample.id},
                         {"source", sample.source},
                         {"key", sample.key},
                         {"tokens", sample.tokens.size()},
                         {"rejected", sample.rejected},
                         {"items", describe_items(sample, with_rows)}});
  append_values(message, sample.tokens);
  append_values(message, sample.targets);
  for (const PatchedItem& item : sample.items)
    if (with_rows.has(item.modality)) append_values(message, item.rows);
}

EncodedSample take_sample(std::string_view& message) {
  const Json facts = take_facts(message);
  EncodedSample sample;
  sample.id = facts.at("id").get<std::int64_t>();
  sample.source = facts.at("source").get<int>();
  sample.key = facts.at("key").get<std::string>();
  sample.rejected = facts.at("rejected").get<std::int64_t>();
  const auto tokens = facts.at("tokens").get<std::size_t>();
  sample.tokens = take_values<std::int32_t>(message, tokens);
  sample.targets = take_values<std::int64_t>(message, tokens);
  for (const Json& item : facts.at("items"))
    sample.items.push_back({.modality = static_cast<Modality>(item.at(0).get<int>()),
                            .grid = {.time = item.at(1).get<std::int64_t>(),
                                     .rows = item.at(2).get<std::int64_t>(),
                                     .columns = item.at(3).get<std::int64_t>(),
                                     .mosaic = {.tile_columns = item.at(6).get<std::int64_t>(),
                                                .rows = item.at(7).get<std::int64_t>(),
                                                .columns = item.at(8).get<std::int64_t>()}},
                            .seconds_per_step = item.at(4).get<double>(),
                            .rows = take_values<float>(message, item.at(5).get<std::size_t>())});
  return sample;
}

}  // namespace tributary::data
