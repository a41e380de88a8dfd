#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "data/loader/loader.h"

namespace tributary::data {
namespace {

constexpr const char* kFormat = "tributary.loader/1";

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

Json to_json(const LoaderState& state) {
  Json sources = Json::array();
  for (const SourceDigest& source : state.sources)
    sources.push_back({{"name", source.name},
                       {"bytes", source.bytes},
                       {"records", source.records},
                       {"content", source.content},
                       {"images", source.images}});
  Json quarantined = Json::array();
  for (const RecordId& id : state.quarantined)
    quarantined.push_back(Json::array({id.source, id.record}));
  return {{"format", kFormat},
          {"seed", state.seed},
          {"held_out_fraction", state.held_out_fraction},
          {"sources", sources},
          {"weights", state.weights},
          {"start_steps", state.start_steps},
          {"next_index", state.next_index},
          {"cursors", state.cursors},
          {"quarantined", quarantined},
          {"bad", state.bad},
          {"left_out", state.left_out},
          {"carried", state.carried}};
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
  using Pair = std::array<std::int64_t, 2>;
  for (const Pair& id : read<std::vector<Pair>>(json, "quarantined", where))
    state.quarantined.push_back({id[0], id[1]});
  state.bad = read<std::map<std::string, std::int64_t>>(json, "bad", where);
  state.left_out = read<std::vector<std::int64_t>>(json, "left_out", where);
  state.carried = read<std::vector<std::int64_t>>(json, "carried", where);
  return state;
}

}  // namespace tributary::data
