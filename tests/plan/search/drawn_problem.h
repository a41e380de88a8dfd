#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/text.h"
#include "cost/stages/place_layers.h"
#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// Draws models of every kind that docs/formats/module_graph.md allows in front of a backbone, with
/// clusters and samples: windows of both kinds, experts, latents, tied heads, towers of images and
/// of sound, frozen modules, uneven widths, media that some samples lack.
class DrawnProblem {
 public:
  explicit DrawnProblem(std::uint64_t seed) : random_(seed, "drawn_problem") {}

  PlanningProblem draw() {
    PlanningProblem problem{.model = draw_model(), .cluster = draw_cluster(), .batches = {}};
    const std::int64_t devices[] = {1, 1, 2, 2, 3, 4, 6, 8, 16};
    problem.devices = pick(devices);
    problem.cluster.devices = std::max<std::int64_t>(problem.devices, problem.cluster.devices);
    draw_batches(problem);
    for (const config::ModuleNode& module : problem.model.modules)
      if (chance(4)) problem.frozen.push_back(module.name);
    if (problem.frozen.size() == problem.model.modules.size()) problem.frozen.clear();
    draw_space(problem.space);
    if (chance(6)) problem.execution.attention = cost::AttentionCore::kScores;
    if (chance(4)) problem.execution.reduce_dtype = config::ReduceDtype::kSame;
    if (chance(6)) problem.execution.shard = config::Shard::kOptimizer;
    if (chance(6)) problem.execution.release = config::Release::kAfterForward;
    if (chance(6)) problem.execution.sequence_parallel = false;
    problem.threads = problem.cluster.cores > 0 ? random_.between(0, 3) : 0;
    return problem;
  }

 private:
  bool chance(std::uint64_t in) { return random_.below(in) == 0; }
  template <std::size_t n>
  std::int64_t pick(const std::int64_t (&values)[n]) {
    return values[random_.below(n)];
  }
  /// As many small numbers as large ones.
  std::int64_t spread(std::int64_t min, std::int64_t max) {
    const double low = std::log(static_cast<double>(min));
    const double high = std::log(static_cast<double>(max));
    return static_cast<std::int64_t>(std::exp(low + random_.uniform() * (high - low)));
  }

  void draw_attention(config::LayerShape& block) {
    const std::int64_t heads[] = {1, 2, 3, 4, 6, 8, 8, 12, 16, 16};
    const std::int64_t head_widths[] = {32, 64, 64, 80, 128};
    block.heads = pick(heads);
    block.head_width = pick(head_widths);
    std::vector<std::int64_t> divisors;
    for (std::int64_t each = 1; each <= block.heads; ++each)
      if (block.heads % each == 0) divisors.push_back(each);
    block.kv_heads = chance(2) ? block.heads : divisors[random_.below(divisors.size())];
    if (chance(6)) block.value_width = block.head_width / 2;
    if (chance(6)) {
      block.kv_heads = block.heads;
      block.kv_rank = 64 * random_.between(1, 4);
      block.query_rank = chance(2) ? 128 * random_.between(1, 4) : 0;
      block.rope_width = chance(2) ? block.head_width / 2 : 0;
    }
  }
  void draw_mlp(config::LayerShape& block, bool may_have_experts) {
    block.mlp_width = 8 * spread(16, 1024);
    block.mlp_matrices = random_.between(2, 3);
    if (!may_have_experts || !chance(4)) return;
    const std::int64_t experts[] = {2, 4, 8, 16, 64};
    block.experts = pick(experts);
    block.experts_per_token = random_.between(1, std::min<std::int64_t>(block.experts, 6));
    block.mlp_width = 8 * spread(8, 128);
    block.shared_mlp_width = chance(2) ? 8 * spread(8, 128) : 0;
  }
  config::LayerShape draw_block(std::int64_t width, bool is_causal, bool may_have_experts) {
    config::LayerShape block{
        .kind = config::LayerKind::kBlock, .input_width = width, .width = width};
    draw_attention(block);
    draw_mlp(block, may_have_experts);
    block.causal = chance(6) != is_causal;
    if (chance(2)) block.window = spread(16, 8192);
    return block;
  }
  /// Blocks of one kind, of two kinds in turns, or one kind after another.
  void add_blocks(config::ModuleNode& module, std::int64_t width, bool is_causal, std::int64_t max,
                  bool may_have_experts = true) {
    const config::LayerShape first = draw_block(width, is_causal, may_have_experts);
    config::LayerShape second = chance(2) ? first : draw_block(width, is_causal, may_have_experts);
    if (chance(2)) second.window = first.window == 0 ? spread(16, 8192) : 0;
    const std::int64_t blocks = random_.between(1, max);
    const std::uint64_t way = random_.below(3);
    const std::int64_t period = random_.between(2, 4);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const bool is_second = way == 0   ? false
                             : way == 1 ? block % period == period - 1
                                        : 2 * block >= blocks;
      module.add(is_second ? second : first);
    }
  }

  config::ModuleNode draw_backbone(std::int64_t width) {
    config::ModuleNode backbone{.name = "backbone"};
    config::LayerShape table{.kind = config::LayerKind::kEmbedding,
                             .input_width = width,
                             .width = width,
                             .vocab = spread(500, 150'000)};
    backbone.add(table);
    add_blocks(backbone, width, /*is_causal=*/true, 8);
    table.kind = config::LayerKind::kHead;
    table.tied = chance(3);
    backbone.add(table);
    return backbone;
  }
  config::ModuleNode draw_tower(const std::string& name, std::int64_t width, bool hears) {
    config::ModuleNode tower{.name = name};
    config::LayerShape first{
        .kind = hears ? config::LayerKind::kConvolution : config::LayerKind::kPatchEmbedding,
        .input_width = 16 * random_.between(5, 80),
        .width = width};
    if (hears) first.uses = random_.between(1, 4);
    tower.add(first);
    if (hears && chance(2)) {
      first.input_width = 3 * width;
      first.uses = random_.between(1, 2);
      tower.add(first);
    }
    add_blocks(tower, width, /*is_causal=*/false, 6);
    return tower;
  }
  config::ModuleNode draw_projector(const std::string& name, std::int64_t in, std::int64_t out) {
    const std::int64_t merges[] = {1, 2, 4, 4};
    config::LayerShape projector{.kind = config::LayerKind::kProjector,
                                 .input_width = in,
                                 .width = out,
                                 .hidden_width = chance(2) ? 64 * random_.between(1, 16) : 0,
                                 .merge = pick(merges)};
    config::ModuleNode module{.name = name};
    module.add(projector, chance(4) ? 2 : 1);  // more of them lie beside the first
    return module;
  }

  config::ModuleGraph draw_model() {
    const std::int64_t widths[] = {128, 192, 256, 512, 768, 1024, 1000};
    const std::int64_t width = pick(widths);
    config::ModuleGraph model{.name = "drawn"};
    model.modules.push_back(draw_backbone(width));
    const std::uint64_t kind = random_.below(6);  // 0 and 1: text alone
    if (kind >= 2) add_tower(model, "vision", width, kind == 2);
    if (kind >= 4) add_tower(model, "audio", width, kind == 5);
    std::sort(model.modules.begin(), model.modules.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    // What a file may not hold is refused here.
    return config::parse_module_graph(config::write_module_graph(model), "drawn");
  }
  /// A tower with its projector, and perhaps a second module with blocks between them.
  void add_tower(config::ModuleGraph& model, const std::string& name, std::int64_t out,
                 bool hears) {
    const std::int64_t widths[] = {64, 128, 256, 384, 640};
    const std::int64_t width = pick(widths);
    model.modules.push_back(draw_tower(name, width, hears));
    std::string last = name;
    if (chance(5)) {
      config::ModuleNode behind{.name = name + "_behind"};
      add_blocks(behind, width, /*is_causal=*/false, 3);
      model.modules.push_back(behind);
      model.edges.push_back({last, behind.name});
      last = behind.name;
    }
    if (width == out && chance(2)) {  // features of the backbone's width need no projector
      model.edges.push_back({last, "backbone"});
      return;
    }
    const std::string projector = name + "_projector";
    model.modules.push_back(draw_projector(projector, width, out));
    model.edges.push_back({last, projector});
    model.edges.push_back({projector, "backbone"});
  }

  config::Cluster draw_cluster() {
    config::Cluster cluster{.name = "drawn", .devices = 16};
    config::DeviceModel& device = cluster.device;
    device.name = "drawn";
    device.matrix_flops_per_s = 1e12 * static_cast<double>(spread(1, 1000));
    device.memory_bytes_per_s = 1e10 * static_cast<double>(spread(5, 400));
    device.memory = {spread(200, 40'000) << 20};
    device.reserve = {chance(2) ? 0 : device.memory.count / 20};
    device.matrix_ramp_flops = chance(3) ? 0 : 1e6 * static_cast<double>(spread(1, 5000));
    device.launch_s = chance(3) ? 0 : 1e-6 * static_cast<double>(spread(1, 200));
    device.launch_blend = 1 + 3 * random_.uniform();
    device.microbatch_s = chance(2) ? 0 : 1e-6 * static_cast<double>(spread(1, 20'000));
    device.misaligned_share = 0.2 + 0.8 * random_.uniform();
    device.overlap_slowdown = 1 + random_.uniform();
    const std::int64_t nodes[] = {1, 2, 4, 8, 16};
    const std::int64_t in_node = pick(nodes);
    for (const std::int64_t ranks : {in_node, std::int64_t{16}}) {
      if (!cluster.levels.empty() && ranks == in_node) break;
      config::LinkLevel level{.name = str("level ", cluster.levels.size()), .ranks = ranks};
      level.bytes_per_s = 1e8 * static_cast<double>(spread(1, 4000));
      level.message_start_s = 1e-7 * static_cast<double>(spread(1, 500));
      level.start_s = chance(2) ? 0 : 1e-7 * static_cast<double>(spread(1, 1000));
      level.hop_s = chance(2) ? 0 : 1e-7 * static_cast<double>(spread(1, 200));
      cluster.levels.push_back(level);
    }
    if (chance(8)) cluster.cores = random_.between(1, 8);
    return cluster;
  }

  struct Mix {
    std::int64_t max_tokens = 0;
    bool is_equal = false;
    std::uint64_t media_in = 1;     // one of so many samples has a medium
    bool are_tokens_apart = false;  // texts are long, samples with media short
  };
  std::int64_t draw_units(std::int64_t items) {
    const std::int64_t units = 4 * spread(4, 1500);
    return items * units;
  }
  simulate::SampleSize draw_sample(const Mix& mix, bool has_patches, bool has_frames) {
    simulate::SampleSize sample{.tokens = spread(8, mix.max_tokens)};
    if (has_patches && chance(mix.media_in))
      sample.patches = draw_units(sample.items = random_.between(1, 6));
    if (has_frames && chance(mix.media_in))
      sample.frames = draw_units(sample.clips = random_.between(1, 2));
    if (mix.are_tokens_apart)
      sample.tokens = sample.encoded() > 0 ? std::min<std::int64_t>(sample.tokens, 64)
                                           : std::max(sample.tokens, mix.max_tokens / 2);
    return sample;
  }
  void draw_batches(PlanningProblem& problem) {
    const std::int64_t lengths[] = {64, 1000, 4000, 4000, 32'000};
    const Mix mix{.max_tokens = pick(lengths),
                  .is_equal = chance(4),
                  .media_in = static_cast<std::uint64_t>(random_.between(1, 4)),
                  .are_tokens_apart = chance(5)};
    const bool has_encoder = problem.model.modules.size() > 1;
    const bool has_both = cost::has_both_media(problem.model);
    const std::int64_t batches = random_.between(1, 3);
    const std::int64_t samples = std::max<std::int64_t>(1, spread(1, 40));
    const simulate::SampleSize first = draw_sample(mix, has_encoder, has_both);
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::vector<simulate::SampleSize>& sizes = problem.batches.emplace_back();
      for (std::int64_t i = 0; i < samples; ++i)
        sizes.push_back(mix.is_equal ? first : draw_sample(mix, has_encoder, has_both));
    }
  }
  void draw_space(PlanSpace& space) {
    using config::Placement;
    if (chance(4)) space.placements = {Placement::kInline};
    if (chance(6)) space.placements = {Placement::kInline, Placement::kSeparate};
    if (chance(4)) space.recompute = {config::RecomputePlan::kNone};
    if (chance(4)) space.max_ep = 1;
    if (chance(4)) space.long_sample = 0;
    if (chance(3)) space.schedules = {config::PipelineOrder::k1f1b};
  }

  RandomStream random_;
};

}  // namespace tributary::plan
