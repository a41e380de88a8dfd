#include "train/checkpoint/compatibility.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "config/run/adapter.h"
#include "config/run/objective.h"
#include "core/error.h"
#include "core/join.h"

namespace tributary::train {
namespace {

std::string name_of(config::Packing packing) {
  switch (packing) {
    case config::Packing::kNone:
      return "none";
    case config::Packing::kOnlineBestFit:
      return "online_best_fit";
    case config::Packing::kBestFitDecreasing:
    case config::Packing::kLevel:  // the number of microbatches of a step may change
      return "best_fit_decreasing";
  }
  return "";
}

/// How records become samples, where the source says so.
std::string describe_reading(const config::SourceSection& source) {
  return str(source.format == "auto" ? "" : " as " + source.format,
             source.question.empty() ? "" : " asking " + escaped(source.question));
}

}  // namespace

std::string exact(double value) {
  std::array<char, 40> text{};
  (void)std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

RunIdentity describe_identity(const config::RunConfig& config) {
  std::string mixture;
  for (const config::SourceSection& source : config.data.sources)
    mixture += str(mixture.empty() ? "" : " ", source.name, ":", exact(source.weight),
                   " from step ", source.start_step, describe_reading(source));
  if (config.data.weigh_by == config::WeighBy::kTokens) mixture += ", weights of tokens";
  // Longer samples are refused, so the limit in force decides what is trained on.
  const std::int64_t longest =
      config.data.max_tokens > 0 ? config.data.max_tokens : config.batch.capacity_tokens.count;
  RunIdentity identity{
      {"run.seed", str(config.run.seed)},
      {"model.dtype", config.model.dtype == config::Dtype::kFloat32 ? "float32" : "bfloat16"},
      {"model.freeze", join(config.model.freeze, " ")},
      {"model.mrope", config.model.mrope == config::MropeMode::kOfficial ? "official" : "hf5"},
      {"data.sources", mixture},
      {"data.held_out_fraction", exact(config.data.held_out_fraction)},
      {"data.min_pixels", str(config.data.min_pixels)},
      {"data.max_pixels", str(config.data.max_pixels)},
      {"data.max_tokens", str(longest)},
      {"data.system_prompt", config.data.system_prompt},
      {"data.train_on_newline", config.data.train_on_newline ? "true" : "false"},
      {"batch.global_samples", str(config.batch.global_samples)},
      {"batch.packing", name_of(config.batch.packing)},
  };
  if (config.model.has_adapters())
    identity["adapter"] = config::describe_adapter(config.model.adapter);
  if (config.objective.compares_pairs())
    identity["objective"] = config::describe_objective(config.objective);
  // Whether long samples are left out or refused changes nothing of what is trained on.
  if (config.data.too_long == config::TooLong::kTruncate) identity["data.too_long"] = "truncate";
  return identity;
}

void check_identity(const RunIdentity& saved, const RunIdentity& current,
                    std::span<const std::string> accepted) {
  std::set<std::string> keys;
  for (const auto& [key, value] : saved) keys.insert(key);
  for (const auto& [key, value] : current) keys.insert(key);
  const auto value_in = [](const RunIdentity& identity, const std::string& key) {
    const auto found = identity.find(key);
    return found == identity.end() ? std::string("(none)") : escaped(found->second);
  };
  for (const std::string& key : accepted)
    TRIB_REQUIRE(keys.contains(key), .what = "train: accepted change is of no known key",
                 .where = "--accept-change", .found = escaped(key),
                 .expected = "one of " + join(keys));
  std::string differing;
  for (const std::string& key : keys) {
    const std::string before = value_in(saved, key);
    const std::string now = value_in(current, key);
    if (before == now || std::find(accepted.begin(), accepted.end(), key) != accepted.end())
      continue;
    differing += str(differing.empty() ? "" : ", ", key, " was ", before, ", is ", now);
  }
  TRIB_REQUIRE(differing.empty(), .what = "checkpoint: the configuration has changed",
               .found = differing, .expected = "the same values as when the checkpoint was saved",
               .fix =
                   "restore them, or pass --accept-change=KEY for each that is meant, or begin "
                   "a new run in another run.dir",
               .exit = ExitCode::kCheckpointRefused);
}

}  // namespace tributary::train
