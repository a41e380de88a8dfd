#include "data/loader/loader_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr const char* kFormat = "tributary.loader/2";

/// Reads one member; the error for a missing one or a wrong type names the key.
template <class T>
T read(const Json& json, const char* key, const std::string& where) {
  TRIB_REQUIRE(json.is_object() && json.contains(key), .what = "data: loader state lacks a key",
               .where = where, .expected = key, .exit = ExitCode::kCheckpointRefused);
  try {
    return json.at(key).get<T>();
  } catch (const Json::exception& wrong) {
    TRIB_RAISE(Fault::kInput, .what = "data: loader state has a value of the wrong type",
               .where = str(where, " ", key), .found = wrong.what(),
               .exit = ExitCode::kCheckpointRefused);
  }
}

}  // namespace

std::map<std::string, std::int64_t> count_reasons(std::span<const QuarantinedRecord> quarantined) {
  std::map<std::string, std::int64_t> counts;
  for (const QuarantinedRecord& bad : quarantined) ++counts[bad.code];
  return counts;
}

Json to_json(const LoaderState& state) {
  Json sources = Json::array();
  for (const SourceDigest& source : state.sources)
    sources.push_back({{"name", source.name},
                       {"bytes", source.bytes},
                       {"records", source.records},
                       {"content", source.content},
                       {"images", source.images}});
  Json quarantined = Json::array();
  for (const auto& [id, code] : state.quarantined)
    quarantined.push_back(Json::array({id.source, id.record, code}));
  return {{"format", kFormat},
          {"seed", state.seed},
          {"held_out_fraction", state.held_out_fraction},
          {"sources", sources},
          {"weights", state.weights},
          {"start_steps", state.start_steps},
          {"next_index", state.next_index},
          {"cursors", state.cursors},
          {"quarantined", quarantined},
          {"left_out", state.left_out},
          {"trained_ahead", state.trained_ahead}};
}

LoaderState loader_state_from_json(const Json& json, const std::string& where) {
  const auto format = read<std::string>(json, "format", where);
  TRIB_REQUIRE(format == kFormat, .what = "data: loader state of another format", .where = where,
               .found = escaped(format), .expected = kFormat, .exit = ExitCode::kCheckpointRefused);
  LoaderState state;
  state.seed = read<std::uint64_t>(json, "seed", where);
  state.held_out_fraction = read<double>(json, "held_out_fraction", where);
  for (const Json& source : read<std::vector<Json>>(json, "sources", where))
    state.sources.push_back(
        {read<std::string>(source, "name", where), read<std::int64_t>(source, "bytes", where),
         read<std::int64_t>(source, "records", where), read<std::string>(source, "content", where),
         read<std::string>(source, "images", where)});
  state.weights = read<std::vector<double>>(json, "weights", where);
  state.start_steps = read<std::vector<std::int64_t>>(json, "start_steps", where);
  state.next_index = read<std::int64_t>(json, "next_index", where);
  state.cursors = read<std::vector<std::int64_t>>(json, "cursors", where);
  using Item = std::tuple<std::int64_t, std::int64_t, std::string>;
  for (const auto& [source, record, code] : read<std::vector<Item>>(json, "quarantined", where))
    state.quarantined.push_back({{source, record}, code});
  state.left_out = read<std::vector<std::int64_t>>(json, "left_out", where);
  if (json.contains("trained_ahead"))
    state.trained_ahead = read<std::vector<std::int64_t>>(json, "trained_ahead", where);
  return state;
}

std::string describe(const SourceDigest& source) {
  return str(source.name, ": ", source.records, " records, ", source.bytes, " bytes, content ",
             source.content, source.images.empty() ? "" : ", first images ", source.images);
}

void check_same_data(const LoaderState& saved, const LoaderState& own,
                     std::span<const std::string> accepted) {
  const auto refuse_if = [&](bool differs, const char* what, const char* key,
                             const std::string& found, const std::string& expected) {
    const bool may_differ = std::ranges::find(accepted, key) != accepted.end();
    TRIB_REQUIRE(!differs || may_differ, .what = str("data: resumed run has another ", what),
                 .found = found, .expected = expected,
                 .fix = "resume with the data section of the first run",
                 .exit = ExitCode::kCheckpointRefused);
  };
  refuse_if(saved.seed != own.seed, "seed", "run.seed", str(own.seed), str(saved.seed));
  refuse_if(saved.held_out_fraction != own.held_out_fraction, "held_out_fraction",
            "data.held_out_fraction", str(own.held_out_fraction), str(saved.held_out_fraction));
  refuse_if(saved.sources.size() != own.sources.size() ||
                saved.cursors.size() != own.cursors.size() ||
                saved.left_out.size() != own.left_out.size(),
            "number of sources", "", str(own.sources.size()), str(saved.sources.size()));
  for (std::size_t i = 0; i < own.sources.size(); ++i) {
    refuse_if(saved.sources[i] != own.sources[i], "data set", "data.digest",
              describe(own.sources[i]), describe(saved.sources[i]));
  }
  refuse_if(saved.weights != own.weights || saved.start_steps != own.start_steps, "mixture",
            "data.sources", "other weights or start steps", "the saved ones");
  const std::int64_t drawn =
      std::accumulate(saved.cursors.begin(), saved.cursors.end(), std::int64_t{0});
  refuse_if(drawn != saved.next_index ||
                std::ranges::any_of(saved.cursors, [](std::int64_t cursor) { return cursor < 0; }),
            "cursor", "", str("cursors that sum up to ", drawn), str(saved.next_index));
}

}  // namespace tributary::data
