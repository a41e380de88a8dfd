#include "train/start/agreement.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/json.h"

namespace tributary::train {
namespace {

using Facts = std::map<std::string, std::string>;

/// Whether a key names a path or device, which may differ between machines.
bool is_local(const std::string& key) {
  constexpr std::array<const char*, 5> kLocal{"dir", "device", "path", "held_out", "images"};
  return std::ranges::find(kLocal, key) != kLocal.end();
}

/// The lines of a configuration as the program writes it, by section and key.
Facts facts_of(const config::RunConfig& config) {
  Facts facts;
  std::istringstream lines(config::write_run_config(config));
  std::string section;
  std::map<std::string, int> seen;  // keys of lists come more than once
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" -");
    const std::size_t colon = line.find(':');
    if (first == std::string::npos || colon == std::string::npos || colon < first) continue;
    const std::string key = line.substr(first, colon - first);
    if (first == 0) section = key;
    if (is_local(key)) continue;
    const std::string name = str(section, ".", key);
    const int number = ++seen[name];
    facts[number == 1 ? name : str(name, " (", number, ")")] = line.substr(colon + 1);
  }
  return facts;
}

void require_equal(const std::vector<Facts>& all) {
  std::string differences;
  const auto value_on = [&](std::size_t rank, const std::string& key) {
    const auto entry = all[rank].find(key);
    return entry == all[rank].end() ? std::string("missing") : escaped(entry->second);
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    Facts either = all.front();
    either.insert(all[rank].begin(), all[rank].end());
    for (const auto& [key, value] : either) {
      const std::string own = value_on(rank, key);
      const std::string wanted = value_on(0, key);
      if (own != wanted)
        differences += str(differences.empty() ? "" : "; ", "rank ", rank, ": ", key, " is ", own,
                           ", on rank 0 ", wanted);
    }
  }
  TRIB_REQUIRE(differences.empty(), .what = "train: ranks disagree",
               .where = "before the first step", .found = differences,
               .expected = "one configuration, model and data set on all",
               .fix = "start every rank with the same file and the same folders");
}

Facts parse_facts(const std::string& text) {
  Facts facts;
  const Json json = parse_json(text, "facts of a rank");
  for (const auto& [key, value] : json.items())
    facts[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return facts;
}

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

void require_one_configuration(const mesh::Launch& launch, c10d::Store& store,
                               const config::RunConfig& config) {
  const auto key_of = [](int rank) { return str("configuration/", rank); };
  const std::string verdict = "configuration/equal";
  store.set(key_of(launch.rank), to_bytes(Json(facts_of(config)).dump()));
  if (launch.rank == 0) {
    std::vector<Facts> all;
    for (int rank = 0; rank < launch.world; ++rank) {
      const std::vector<std::uint8_t> bytes = store.get(key_of(rank));
      all.push_back(parse_facts({bytes.begin(), bytes.end()}));
    }
    require_equal(all);
    store.set(verdict, to_bytes("yes"));
  }
  (void)store.get(verdict);  // if rank 0 refuses, the watch ends this rank
}

void require_agreement(const Session& session) {
  const mesh::Group& world = session.mesh->world();
  if (world.is_single()) return;
  Json facts = session.identity;
  facts["compute threads"] = str(at::get_num_threads());
  if (const auto& stages = session.model->layout().stages) {
    std::string cut;
    for (int stage = 0; stage < stages->size(); ++stage) {
      const config::StageLayers& own = stages->layers[static_cast<std::size_t>(stage)];
      cut += str(" ", own.first, "+", own.layers, " on ", stages->holder(stage));
    }
    facts["layers of the stages"] = cut;
  }
  std::vector<Facts> all;
  for (const std::string& text : world.gather_text(facts.dump())) all.push_back(parse_facts(text));
  require_equal(all);
}

}  // namespace tributary::train
