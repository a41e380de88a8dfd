#include "studies/dflop/problem_3d.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "core/units.h"

namespace tributary::studies {
namespace {

void check_positive(double value, const std::string& where) {
  TRIB_REQUIRE(std::isfinite(value) && value > 0, .what = "studies: value cannot be used",
               .where = where, .found = str(value), .expected = "a number above 0");
}

void check_module(const ModuleCosts& module) {
  TRIB_REQUIRE(module.layers >= 1, .what = "studies: module without layers", .where = module.name,
               .found = str(module.layers));
  TRIB_REQUIRE(!module.degrees.empty(), .what = "studies: module without a profiled degree",
               .where = module.name, .expected = "costs for one tp or more");
  check_positive(module.sample_flops, module.name + ".sample_flops");
  check_positive(module.sample_shape, module.name + ".sample_shape");
  std::int64_t last = 0;
  for (const DegreeCosts& costs : module.degrees) {
    TRIB_REQUIRE(costs.tp > last, .what = "studies: degrees do not ascend", .where = module.name,
                 .found = str("tp ", costs.tp, " after ", last));
    last = costs.tp;
    check_positive(costs.throughput.peak(), str(module.name, ".throughput at tp ", costs.tp));
    check_positive(costs.state_bytes, str(module.name, ".state_bytes at tp ", costs.tp));
    check_positive(costs.activation_bytes, str(module.name, ".activation_bytes at tp ", costs.tp));
  }
}

double stage_seconds(const ModuleCosts& module, const Degrees& degrees, double samples) {
  const double shape = module.sample_shape * samples;
  return module.sample_flops * samples /
         (costs_at(module, degrees.tp).throughput.at(shape) *
          static_cast<double>(degrees.tp * degrees.pp));
}

}  // namespace

std::string to_text(const Degrees& degrees) {
  return str("tp ", degrees.tp, ", pp ", degrees.pp, ", dp ", degrees.dp);
}

std::string microbatches_text(std::int64_t microbatches) {
  return str(microbatches, microbatches == 1 ? " microbatch" : " microbatches");
}

std::string describe(const Plan3d& plan) {
  return str("encoder ", to_text(plan.encoder), "; backbone ", to_text(plan.backbone), ", ",
             microbatches_text(plan.microbatches));
}

void check_problem(const Problem3d& problem) {
  check_module(problem.encoder);
  check_module(problem.backbone);
  TRIB_REQUIRE(problem.devices >= 1 && problem.devices <= (1 << 20),
               .what = "studies: value cannot be used", .where = "devices",
               .found = str(problem.devices), .expected = "1 to 1048576");
  TRIB_REQUIRE(problem.global_samples >= 1 && problem.global_samples <= (1 << 30),
               .what = "studies: value cannot be used", .where = "global_samples",
               .found = str(problem.global_samples), .expected = "1 to 2^30");
  check_positive(problem.memory_bytes, "memory_bytes");
}

const DegreeCosts& costs_at(const ModuleCosts& module, std::int64_t tp) {
  for (const DegreeCosts& costs : module.degrees) {
    if (costs.tp == tp) return costs;
  }
  TRIB_RAISE(Fault::kBug, .what = "studies: degree was not profiled", .where = module.name,
             .found = str("tp ", tp));
}

double device_bytes(const ModuleCosts& module, const Degrees& degrees, double depth, double shape) {
  const DegreeCosts& costs = costs_at(module, degrees.tp);
  const auto layers = static_cast<double>((module.layers + degrees.pp - 1) / degrees.pp);
  const double held = 1 - module.sharded_share * (1 - 1 / static_cast<double>(degrees.dp));
  return costs.state_bytes * held / static_cast<double>(degrees.pp) +
         shape * (depth * layers * costs.activation_bytes + costs.transient_bytes);
}

double step_seconds(const Problem3d& problem, const Plan3d& plan) {
  const auto samples = [&](const Degrees& degrees) {
    return static_cast<double>(problem.global_samples) /
           static_cast<double>(plan.microbatches * degrees.dp);
  };
  const double stage =
      std::max(stage_seconds(problem.encoder, plan.encoder, samples(plan.encoder)),
               stage_seconds(problem.backbone, plan.backbone, samples(plan.backbone)));
  return static_cast<double>(plan.microbatches + plan.encoder.pp + plan.backbone.pp - 1) * stage;
}

std::vector<Degrees> list_degrees(const ModuleCosts& module, std::int64_t devices,
                                  std::int64_t global_samples) {
  std::vector<Degrees> found;
  for (std::int64_t pp = 1; pp <= std::min(module.layers, devices); ++pp) {
    if (devices % pp != 0) continue;
    for (const DegreeCosts& costs : module.degrees) {
      const std::int64_t rest = devices / pp;
      if (rest % costs.tp != 0 || rest / costs.tp > global_samples) continue;
      found.push_back({costs.tp, pp, rest / costs.tp});
    }
  }
  return found;
}

bool is_valid(const Problem3d& problem, const Plan3d& plan) {
  const auto fits = [&](const ModuleCosts& module, const Degrees& degrees, std::int64_t depth) {
    if (degrees.pp < 1 || degrees.pp > module.layers || degrees.dp < 1 ||
        degrees.dp > problem.global_samples) {
      return false;
    }
    const double samples = static_cast<double>(problem.global_samples) /
                           static_cast<double>(plan.microbatches * degrees.dp);
    return device_bytes(module, degrees, double(depth), module.sample_shape * samples) <=
           problem.memory_bytes;
  };
  return plan.encoder.devices() + plan.backbone.devices() == problem.devices &&
         plan.microbatches >= 1 && plan.microbatches * plan.backbone.dp <= problem.global_samples &&
         fits(problem.encoder, plan.encoder, plan.encoder.pp + plan.backbone.pp) &&
         fits(problem.backbone, plan.backbone, plan.backbone.pp);
}

std::string fullest_of(const ModuleCosts& module, std::int64_t stages) {
  return str(stages > 1 ? "the first stage of " : "", module.name);
}

MemoryNeed need_of(const Problem3d& problem, const Plan3d& plan) {
  const auto bytes = [&](const ModuleCosts& module, const Degrees& degrees, std::int64_t depth) {
    const double samples = double(problem.global_samples) / double(plan.microbatches * degrees.dp);
    return device_bytes(module, degrees, double(depth), module.sample_shape * samples);
  };
  const double encoder = bytes(problem.encoder, plan.encoder, plan.encoder.pp + plan.backbone.pp);
  const double backbone = bytes(problem.backbone, plan.backbone, plan.backbone.pp);
  return {std::max(encoder, backbone), describe(plan),
          encoder > backbone ? fullest_of(problem.encoder, plan.encoder.pp)
                             : fullest_of(problem.backbone, plan.backbone.pp)};
}

std::string explain_shortage(const MemoryNeed& min, double held) {
  const Bytes needed{std::llround(min.bytes)};
  const Bytes limit{std::llround(held)};
  return str("memory: ", min.plan, " needs the least, ", needed, " on a device of ", min.of, ", ",
             needed - limit, " above the ", limit, " that a plan may hold");
}

}  // namespace tributary::studies
