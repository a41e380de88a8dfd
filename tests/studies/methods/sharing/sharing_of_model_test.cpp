#include "studies/methods/sharing/sharing_of_model.h"

#include <algorithm>
#include <bit>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cost/collective_cost.h"
#include "cost/module_cost.h"
#include "studies/methods/sharing/sharing_baselines.h"
#include "tests/cost/small_plans.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

config::ModuleGraph three_modules() {
  const auto module = [](const char* name, std::int64_t layers, std::int64_t width) {
    const config::LayerShape block{.width = width,
                                   .heads = width / 64,
                                   .kv_heads = width / 64,
                                   .head_width = 64,
                                   .mlp_width = 4 * width,
                                   .mlp_matrices = 2};
    return config::ModuleNode{.name = name, .layers = {{.shape = block, .layers = layers}}};
  };
  return {.name = "three",
          .modules = {module("vision", 4, 1024), module("text", 2, 512), module("all", 6, 1024)},
          .edges = {{"vision", "all"}, {"text", "all"}}};
}

SharingSetting setting_of(std::int64_t devices) {
  return {.devices = devices, .global_samples = 16, .tokens = {512, 256, 768}};
}

/// The backbone of the three modules with two samples on each of eight devices.
cost::ModuleCost backbone_on_eight(const config::Cluster& cluster) {
  return cost::module_cost(cluster, three_modules().modules[2],
                           {.tokens = 2 * 768, .squared_tokens = 2.0 * 768 * 768, .sequences = 2},
                           {.placement = {.optimizer_shards = 8},
                            .recompute = config::RecomputePlan::kNone,
                            .upstream_trains = true});
}

TEST(SharingOfModel, WholeDevicesTakeTheTimeOfTheirParts) {
  const config::Cluster cluster = cost::small_cluster(8);
  const config::ModuleGraph model = three_modules();
  const plan::SharingProblem problem = sharing_of_model(model, cluster, setting_of(8));
  ASSERT_EQ(problem.modules.size(), 3U);
  EXPECT_EQ(problem.widths(), 4);
  EXPECT_THAT(problem.modules[2].after, testing::ElementsAre(0, 1));
  // Two samples on each of eight devices: compute, what backward does not hide, the optimizer.
  const cost::ModuleCost cost = backbone_on_eight(cluster);
  const Nanoseconds reduction = cost::collective_cost(cluster, config::CollectiveOp::kAllReduce,
                                                      cost::group_of(8, 1, 4), cost.reduced)
                                    .time;
  const Nanoseconds expected =
      cost.time() + std::max(Nanoseconds{}, reduction - cost.backward) +
      cost::optimizer_time(cluster.device, double(cost.parameters.count) / 16);
  EXPECT_EQ(problem.time(2, 3, problem.units), expected);
}

TEST(SharingOfModel, KeepsStateAndActivationsOnEachDevice) {
  const config::Cluster cluster = cost::small_cluster(8);
  const config::ModuleGraph model = three_modules();
  const plan::SharingProblem problem = sharing_of_model(model, cluster, setting_of(8));
  EXPECT_EQ(problem.memory, cluster.device.memory - cluster.device.reserve);
  const cost::ModuleCost cost = backbone_on_eight(cluster);
  const Bytes held = cost.parameters + cost.reduced + cost.optimizer + cost.kept;
  EXPECT_EQ(problem.modules[2].resident[3], held);
  EXPECT_EQ(problem.modules[2].memory[3], held + cost.transient);
  for (const plan::SharedModule& module : problem.modules)
    for (std::size_t width = 1; width < module.memory.size(); ++width)
      EXPECT_LT(module.memory[width], module.memory[width - 1]) << module.name;
  SharingSetting recomputed = setting_of(8);
  recomputed.recompute = config::RecomputePlan::kFull;
  recomputed.memory = Bytes{1000};
  const plan::SharingProblem less = sharing_of_model(model, cluster, recomputed);
  EXPECT_EQ(less.memory, Bytes{1000});
  EXPECT_LT(less.modules[2].resident[0], problem.modules[2].resident[0]);
  EXPECT_GT(less.time(2, 0, 10), problem.time(2, 0, 10));
}

TEST(SharingOfModel, FrozenModulesHaveNoGradientsAndNoState) {
  const config::ModuleGraph model = three_modules();
  const config::Cluster cluster = cost::small_cluster(8);
  const auto frozen = [&](std::vector<std::string> names) {
    SharingSetting setting = setting_of(8);
    setting.frozen = std::move(names);
    return std::pair(sharing_of_model(model, cluster, setting),
                     sharing_flops(model, cluster, setting));
  };
  const auto [all, all_flops] = frozen({});
  const auto [encoders, encoder_flops] = frozen({"vision", "text"});
  const auto [backbone, backbone_flops] = frozen({"all"});
  const auto [none, none_flops] = frozen({"vision", "text", "all"});
  // With nothing in front of it that trains, a module runs forward alone and keeps its weights.
  const cost::ModuleCost forward =
      cost::module_cost(cluster, model.modules[0],
                        {.tokens = 2 * 512, .squared_tokens = 2.0 * 512 * 512, .sequences = 2},
                        {.placement = {.optimizer_shards = 8}, .trains = false});
  EXPECT_EQ(encoders.time(0, 3, 10), forward.forward);
  EXPECT_EQ(encoders.modules[0].resident[3], forward.parameters);
  // A frozen backbone still passes gradients on to encoders that train.
  EXPECT_LT(backbone.time(2, 3, 10), all.time(2, 3, 10));
  EXPECT_GT(backbone.time(2, 3, 10), none.time(2, 3, 10));
  EXPECT_LT(backbone.modules[2].resident[3], all.modules[2].resident[3]);
  EXPECT_GT(all_flops, encoder_flops);
  EXPECT_GT(all_flops, backbone_flops);
  EXPECT_GT(backbone_flops, none_flops);
}

TEST(SharingOfModel, ModulesOfAllStagesFitADeviceTogether) {
  const config::ModuleGraph model = three_modules();
  SharingSetting setting = setting_of(1);
  const plan::SharingProblem free = sharing_of_model(model, cost::small_cluster(8), setting);
  Bytes together;
  Bytes largest;
  for (const plan::SharedModule& module : free.modules) {
    together += module.memory[0];
    largest = std::max(largest, module.memory[0]);
  }
  // Enough for any module alone, but not for what all leave on the only device.
  setting.memory = largest;
  const plan::SharingProblem tight = sharing_of_model(model, cost::small_cluster(8), setting);
  setting.memory = together;
  const plan::SharingProblem wide = sharing_of_model(model, cost::small_cluster(8), setting);
  for (const SharingBaseline& baseline : sharing_baselines()) {
    SCOPED_TRACE(baseline.name);
    const plan::Certificate refused = baseline.solve(tight).certificate;
    EXPECT_EQ(refused.status, plan::Status::kInfeasible);
    EXPECT_THAT(refused.limit, HasSubstr("memory: the modules of all stages take"));
    EXPECT_NE(baseline.solve(wide).certificate.status, plan::Status::kInfeasible);
  }
}

TEST(SharingOfModel, PartsOfADeviceAreSlowerButNeverMoreThanTheirShare) {
  const plan::SharingProblem problem =
      sharing_of_model(three_modules(), cost::small_cluster(8), setting_of(1));
  for (std::int64_t module = 0; module < 3; ++module) {
    const double whole = double(problem.time(module, 0, 10).count);
    for (std::int64_t share = 1; share < 10; ++share) {
      const double part = double(problem.time(module, 0, share).count);
      EXPECT_GT(part, double(problem.time(module, 0, share + 1).count));
      // Host time and the ramp of small products are not divided.
      EXPECT_LE(part, whole * 10 / double(share) * 1.001);
    }
  }
}

TEST(SharingOfModel, PartsDrawTheMemoryThroughTheCache) {
  // A module that only moves bytes: next to no arithmetic, no host time.
  config::Cluster cluster = cost::small_cluster(8);
  cluster.device.matrix_flops_per_s = 1e18;
  cluster.device.matrix_ramp_flops = 0;
  cluster.device.launch_s = 0;
  const double kernels = cluster.device.memory_bytes_per_s * cluster.device.memory_share;
  const auto share_of = [](const plan::SharingProblem& problem, std::int64_t units) {
    return double(problem.time(0, 0, problem.units).count) /
           double(problem.time(0, 0, units).count);
  };
  const plan::SharingProblem divided = sharing_of_model(three_modules(), cluster, setting_of(1));
  EXPECT_EQ(divided.interference.form, plan::Interference::Form::kNone);
  EXPECT_NEAR(share_of(divided, 3), 0.3, 1e-3);
  cluster.device.cache_bytes_per_s = 2 * kernels;
  const plan::SharingProblem shared = sharing_of_model(three_modules(), cluster, setting_of(1));
  EXPECT_EQ(shared.interference,
            (plan::Interference{plan::Interference::Form::kPairwise, 0, 0, 1}));
  EXPECT_NEAR(share_of(shared, 3), 0.6, 1e-3);
  EXPECT_NEAR(share_of(shared, 5), 1, 1e-3);
  // It takes what its units draw of the memory, at most what kernels reach.
  const double reached = cluster.device.memory_share;
  EXPECT_NEAR(shared.bandwidth(0, 0, 3), 0.6 * reached, 0.01);
  EXPECT_NEAR(shared.bandwidth(0, 0, 5), reached, 0.01);
  EXPECT_NEAR(shared.bandwidth(0, 0, 10), reached, 0.01);
}

TEST(SharingOfModel, DoesNotDivideSamples) {
  const plan::SharingProblem problem =
      sharing_of_model(three_modules(), cost::small_cluster(8), setting_of(8));
  for (const plan::SharedModule& module : problem.modules) {
    ASSERT_EQ(module.whole.size(), 8U);
    for (const std::int64_t devices : {1, 2, 4, 8})
      EXPECT_EQ(module.whole[devices - 1],
                module.times[(std::bit_width(std::uint64_t(devices)) - 1) * 10 + 9]);
    // Seven devices have three samples on some, as six have; eight have two.
    EXPECT_GT(module.whole[6].count, module.whole[7].count);
  }
  EXPECT_EQ(problem.modules[2].layers, 6);
}

TEST(SharingOfModel, IsBusyUnlessItWaitsForTheHostAReductionOrAnotherDevice) {
  config::Cluster cluster = cost::small_cluster(8);
  const auto busy_of = [&](std::int64_t devices, std::int64_t samples) {
    SharingSetting setting = setting_of(8);
    setting.global_samples = samples;
    return sharing_of_model(three_modules(), cluster, setting).modules[2].whole_busy[devices - 1];
  };
  cluster.device.launch_s = 0;
  EXPECT_NEAR(busy_of(1, 16), 1, 1e-9);
  EXPECT_NEAR(busy_of(8, 16), 1, 1e-9);  // backward hides the reduction
  cluster.levels[1].bytes_per_s = 1e9;
  const cost::ModuleCost cost = backbone_on_eight(cluster);
  const Nanoseconds reduction = cost::collective_cost(cluster, config::CollectiveOp::kAllReduce,
                                                      cost::group_of(8, 1, 4), cost.reduced)
                                    .time;
  const Nanoseconds kernels =
      cost.time() + cost::optimizer_time(cluster.device, double(cost.parameters.count) / 16);
  ASSERT_GT(reduction, cost.backward);
  EXPECT_NEAR(busy_of(8, 16),
              double(kernels.count) / double((kernels + reduction - cost.backward).count), 1e-9);
  cluster.levels[1].bytes_per_s = 1e12;
  // Seven devices with three samples on two of them, two on the others.
  EXPECT_NEAR(busy_of(7, 16), (2 * 3 + 5 * 2) / (7 * 3.0), 0.03);
  EXPECT_NEAR(busy_of(8, 4), 0.5, 0.05);  // half of the devices only update their weights
  EXPECT_GT(busy_of(8, 4), 0.5);
  // 6 blocks take some 58 kernels each, and nothing else takes time.
  cluster.device.launch_s = 1;
  EXPECT_LT(busy_of(8, 16), 1e-3);
  EXPECT_GT(busy_of(8, 16), 0);
}

TEST(SharingOfModel, IsBusierOnAPartOfADevice) {
  const plan::SharingProblem problem =
      sharing_of_model(three_modules(), cost::small_cluster(8), setting_of(8));
  for (std::int64_t module = 0; module < 3; ++module) {
    for (std::int64_t width = 0; width < problem.widths(); ++width) {
      for (std::int64_t share = 1; share < problem.units; ++share)
        EXPECT_GT(problem.busy(module, width, share), problem.busy(module, width, share + 1));
      EXPECT_EQ(problem.busy(module, width, problem.units),
                problem.modules[module].whole_busy[(std::int64_t{1} << width) - 1]);
    }
  }
}

TEST(SharingOfModel, ServesEveryMethod) {
  const plan::SharingProblem problem =
      sharing_of_model(three_modules(), cost::small_cluster(8), setting_of(8));
  Nanoseconds exact;
  for (const SharingBaseline& baseline : sharing_baselines()) {
    const SharingAnswer answer = baseline.solve(problem);
    EXPECT_NE(answer.certificate.status, plan::Status::kInfeasible) << baseline.name;
    if (baseline.name == "exact") exact = answer.certificate.value;
  }
  EXPECT_GT(exact.count, 0);
  EXPECT_LE(exact, solve_mosaic(problem).certificate.value);
  EXPECT_LE(exact, solve_temporal(problem).certificate.value);
}

TEST(SharingOfModel, CountsModelFlops) {
  // Forward and both gradients; attention over the full square halved by causality, three passes.
  const config::ModuleGraph model = three_modules();
  double expected = 0;
  const double tokens[] = {512, 256, 768};
  for (std::size_t module = 0; module < 3; ++module) {
    const config::LayerRun& run = model.modules[module].layers[0];
    const cost::LayerFlops flops =
        cost::count_layer_flops(run.shape, {.tokens = 16 * tokens[module],
                                            .squared_tokens = 16 * tokens[module] * tokens[module],
                                            .sequences = 16});
    // The first block too differentiates its products, for the norms in front of them.
    expected += static_cast<double>(run.layers) * 3 * (flops.linear + flops.attention / 2);
  }
  EXPECT_NEAR(sharing_flops(model, cost::small_cluster(8), setting_of(8)), expected,
              1e-6 * expected);
}

TEST(SharingOfModel, NamesWhatCannotBeUsed) {
  const auto refuses = [](auto change, const char* words) {
    config::ModuleGraph model = three_modules();
    SharingSetting setting = setting_of(8);
    change(model, setting);
    EXPECT_THAT([&] { (void)sharing_of_model(model, cost::small_cluster(8), setting); },
                ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](auto&, SharingSetting& s) { s.devices = 6; }, "where: devices; found: 6");
  refuses(
      [](auto&, SharingSetting& s) {
        s.name = "three nodes";
        s.devices = 3;
      },
      "where: setting three nodes devices; found: 3");
  refuses(
      [](config::ModuleGraph& m, SharingSetting& s) {
        m.modules.resize(21, m.modules[0]);
        s.tokens.resize(21, 512);
      },
      "where: modules of the model; found: 21; expected: 1 to 20");
  refuses([](auto&, SharingSetting& s) { s.units = 101; }, "where: share_units; found: 101");
  refuses([](auto&, SharingSetting& s) { s.tokens.pop_back(); }, "found: 2; expected: 3");
  refuses([](auto&, SharingSetting& s) { s.global_samples = 0; }, "where: global_samples");
  refuses([](config::ModuleGraph& m, auto&) { std::swap(m.modules[0], m.modules[2]); },
          "stands before one that it depends on");
}

}  // namespace
}  // namespace tributary::studies
