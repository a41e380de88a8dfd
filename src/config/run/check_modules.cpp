#include <algorithm>

#include "config/family/known_modules.h"
#include "config/reading/ranges.h"
#include "config/run/key_checker.h"

namespace tributary::config {
namespace {

/// Checks the rules of a colocated module that encodes for the step after: its features must be
/// those that the step itself would make, and each must be used once.
void check_ahead(const RunConfig& config, const ModuleSection& module, KeyChecker& check) {
  if (!module.ahead || module.placement != Placement::kColocated) return;
  const auto require = [&](bool holds, const std::string& what, const std::string& found,
                           const std::string& expected) {
    check.require(holds, str("parallel.", module.module, ".ahead"),
                  {.what = what, .found = found, .expected = expected});
  };
  require(std::ranges::count(config.model.freeze, module.module) > 0,
          "config: module that trains cannot encode ahead", str(module.module, " trains"),
          str("false, or ", module.module, " in model.freeze"));
  require(!module.turns, "config: module that encodes ahead takes turns by itself", "turns true",
          "one of the two keys");
  require(!config.objective.compares_pairs(), "config: pairs are not encoded ahead",
          "objective.kind dpo, whose reference takes the features too", "false");
  require(!config.batch.correct_costs,
          "config: media of a step ahead are dealt before this one is measured",
          "batch.correct_costs true", "one of the two keys");
}

/// Checks what a module that trains beside the run cannot do.
void check_trained_beside(const RunConfig& config, const ModuleSection& module, KeyChecker& check) {
  const bool is_frozen =
      config.model.has_adapters() || std::ranges::count(config.model.freeze, module.module) > 0;
  if (module.placement != Placement::kFlow || is_frozen) return;
  check.require(
      !config.objective.compares_pairs(), str("parallel.", module.module, ".placement"),
      {.what = "config: module that trains has no placement flow for pairs",
       .found = "objective.kind dpo, whose reference takes features of other weights",
       .expected = str("inline, separate or colocated, or ", module.module, " in model.freeze")});
  check.require(config.pool.order == PoolOrder::kData, "pool.order",
                {.what = "config: module that trains beside the run has no order by arrival",
                 .found = str("pool.order arrival, and ", module.module, " trains"),
                 .expected = str("pool.order data, or ", module.module, " in model.freeze")});
  // Its encoders wait within each step, so that rates do not say how many a run needs.
  check.require(config.pool.max_encoders == 0, "pool.max_encoders",
                {.what = "config: module that trains beside the run has a fixed number of encoders",
                 .found = str(config.pool.min_encoders, " to ", config.pool.max_encoders,
                              " encoders, and ", module.module, " trains"),
                 .expected = str("one number, or ", module.module, " in model.freeze"),
                 .fix = "tributary launch --encoders N"});
  check.require(
      !config.pool.joins_devices(), "pool.engines",
      {.what = "config: tower that trains does not go from device to device",
       .found = str(module.module, " has placement flow, and trains"),
       .expected = str("pool.engines without cuda, or ", module.module, " in model.freeze")});
}

/// Checks the rules of one section `parallel.<module>` that depend on its placement.
void check_module(const ModuleSection& module, KeyChecker& check) {
  const std::string section = str("parallel.", module.module, ".");
  const auto refuse_unless = [&](bool holds, const std::string& key, const std::string& what,
                                 const std::string& value, const std::string& expected) {
    check.require(holds, section + key,
                  {.what = what, .found = str(key, " ", value), .expected = expected});
  };
  const bool on_host = module.features == FeatureMemory::kHost;
  const bool on_first = module.stages == BesideStages::kFirst;
  const bool flows = module.placement == Placement::kFlow;
  if (module.placement == Placement::kInline || flows) {
    const std::string what = flows ? "config: key has no effect on a module with placement flow"
                                   : "config: key has no effect on an inline module";
    const std::string expected = str(section, "placement separate or colocated, or no such key");
    refuse_unless(module.ranks.empty(), "ranks", what, write_ranks(module.ranks), expected);
    refuse_unless(module.dp_shard.is_auto(), "dp_shard", what, str(module.dp_shard.count),
                  expected);
    refuse_unless(module.dp_replicate == 1 || flows, "dp_replicate", what, str(module.dp_replicate),
                  expected);
    for (const auto& [key, value] : {std::pair{"pp", module.pp},
                                     {"cp", module.cp},
                                     {"ulysses", module.ulysses},
                                     {"tp", module.tp},
                                     {"passes", module.passes}})
      refuse_unless(value == 1, key, what, str(value), expected);
    refuse_unless(!on_host, "features", what, "host", expected);
    refuse_unless(!module.turns, "turns", what, "true", expected);
    refuse_unless(!module.ahead, "ahead", what, "true", expected);
    refuse_unless(!on_first, "stages", what, "first", expected);
  } else if (module.placement == Placement::kColocated) {
    refuse_unless(module.ranks.empty(), "ranks", "config: colocated module lists ranks",
                  write_ranks(module.ranks), "no such key: it runs on the ranks of the backbone");
    refuse_unless(module.pp == 1, "pp", "config: colocated module is cut into stages",
                  str(module.pp), "1: all ranks encode at the same time");
  } else {
    refuse_unless(module.passes == 1, "passes",
                  "config: only a colocated module has passes of its own", str(module.passes),
                  str("no such key, or ", section, "placement colocated"));
    refuse_unless(!module.turns, "turns", "config: only a colocated module takes turns", "true",
                  str("no such key, or ", section, "placement colocated"));
    refuse_unless(!module.ahead, "ahead", "config: only a colocated module encodes ahead", "true",
                  str("no such key, or ", section, "placement colocated"));
    refuse_unless(!on_host, "features", "config: only features of a colocated module wait on hosts",
                  "host", str("no such key, or ", section, "placement colocated"));
    refuse_unless(!on_first, "stages", "config: only a colocated module lies beside stages",
                  "first", str("no such key, or ", section, "placement colocated"));
  }
}

}  // namespace

void check_modules(const RunConfig& config, KeyChecker& check) {
  const std::int64_t stages = config.parallel.vision_stages;
  for (const ModuleSection& module : config.parallel.modules) {
    check_module(module, check);
    check_ahead(config, module, check);
    check_trained_beside(config, module, check);
    const bool is_placed_twice =
        module.module == kStagedModule && stages > 0 && module.placement != Placement::kInline;
    check.require(
        !is_placed_twice, "parallel.vision_stages",
        {.what = "config: module is placed in two ways",
         .found = str("vision_stages ", stages, ", and parallel.", module.module, ".placement"),
         .expected = "one of them",
         .fix = str("set parallel.vision_stages to 0, and parallel.", module.module, ".pp to ",
                    stages)});
  }
}

}  // namespace tributary::config
