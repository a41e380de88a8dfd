#include "simulate/program/plan_network.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "cost/collective_cost.h"

namespace tributary::simulate {
namespace {

/// The ports of lanes, created when the first message needs one.
class Ports {
 public:
  explicit Ports(Network& network) : network_(network) {}
  int port(int lane, std::size_t level, bool is_exit, double bytes_per_ns) {
    const auto [found, is_new] =
        index_.try_emplace({lane, level, is_exit}, static_cast<int>(network_.bytes_per_ns.size()));
    if (is_new) network_.bytes_per_ns.push_back(bytes_per_ns);
    return found->second;
  }

 private:
  Network& network_;
  std::map<std::tuple<int, std::size_t, bool>, int> index_;
};

/// The first rank of each lane.
std::vector<std::int64_t> first_ranks(const config::Plan& plan, const StepProgram& program) {
  std::vector<std::int64_t> ranks;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const schedule::Lane of = program.map().at(lane);
    const config::ModulePlan& module = *plan.find(program.pipeline().modules[of.module].name);
    const std::int64_t replica = of.replica;
    const std::int64_t index = rank_of(module.mesh, {.pp = of.stage,
                                                     .dp_replicate = replica / module.mesh.dp_shard,
                                                     .dp_shard = replica % module.mesh.dp_shard});
    ranks.push_back(module.ranks[index]);
  }
  return ranks;
}

/// The number of ranks that share one list; bytes of a lane are counted per rank.
std::int64_t ranks_of_lane(const config::Plan& plan, const StepProgram& program, int module) {
  const config::MeshShape& mesh = plan.find(program.pipeline().modules[module].name)->mesh;
  return mesh.cp * mesh.ulysses * mesh.tp;
}

bool is_in_pool(const config::Plan& plan, const StepProgram& program, const Channel& channel) {
  if (channel.op != schedule::Op::kSendFeatures) return false;
  const schedule::PipelineEdge& edge = program.pipeline().edges[channel.edge];
  return plan.find(program.pipeline().modules[edge.from].name)->placement ==
         config::Placement::kFlow;
}

/// The ends of features' routes to or from a colocated module. A folded lane exchanges with all
/// ranks that the other end represents, not only those of its own number.
class SharedRanks {
 public:
  SharedRanks(const config::Plan& plan, const StepProgram& program, const ReplicaFolding& folding)
      : plan_(plan), program_(program), folding_(folding) {}

  [[nodiscard]] bool has_lane_of(const Channel& channel) const {
    return program_.map().is_of_colocated(channel.edge);
  }
  [[nodiscard]] std::size_t level(const config::Cluster& cluster,
                                  const std::vector<std::int64_t>& ranks,
                                  const Channel& channel) const {
    if (!has_lane_of(channel) || !is_folded(channel))
      return cost::level_between(cluster, ranks[channel.from], ranks[channel.to]);
    const std::vector<std::int64_t>& all = plan_.find(config::kBackboneModule)->ranks;
    return cost::level_between(cluster, all.front(), all.back());
  }
  /// Whether all features stay on the ranks that computed them.
  [[nodiscard]] bool stays(const Channel& channel) const {
    if (!has_lane_of(channel)) return false;
    const schedule::Pipeline& pipeline = program_.pipeline();
    const schedule::PipelineEdge& edge = pipeline.edges[channel.edge];
    const auto replicas = [&](int module) {
      return pipeline.modules[module].replicas * folding_.stands_for[module];
    };
    return replicas(edge.from) == 1 && replicas(edge.to) == 1 &&
           pipeline.modules[edge.to].stages == 1;
  }
  /// A backbone lane whose ports the colocated end of a channel uses, and the fraction of the
  /// lane's ranks at that end.
  struct Part {
    int lane = 0;
    double share = 1;
  };
  [[nodiscard]] std::vector<Part> beside(int lane) const {
    std::vector<Part> parts;
    const schedule::PipelineMap& map = program_.map();
    if (!map.is_colocated(lane)) return parts;
    const int module = map.at(lane).module;
    const double share = static_cast<double>(ranks_of_lane(plan_, program_, module)) /
                         static_cast<double>(ranks_of_lane(plan_, program_, map.flow().back()));
    for (const int other : map.lanes_beside(lane, map.flow().back()))
      parts.push_back(
          {.lane = other, .share = folding_.stands_for[module] > 1 ? 1 : std::min(1.0, share)});
    return parts;
  }

 private:
  [[nodiscard]] bool is_folded(const Channel& channel) const {
    const schedule::PipelineEdge& edge = program_.pipeline().edges[channel.edge];
    return folding_.stands_for[edge.from] > 1 || folding_.stands_for[edge.to] > 1;
  }

  const config::Plan& plan_;
  const StepProgram& program_;
  const ReplicaFolding& folding_;
};

/// Lets lanes on one node share its cores. Each rank computes with an equal part of them as
/// threads, at least one.
void share_cores(const config::Plan& plan, const config::Cluster& cluster,
                 const StepProgram& program, const ReplicaFolding& folding,
                 const std::vector<std::int64_t>& ranks, std::int64_t threads_of_rank,
                 Network& network) {
  if (cluster.cores <= 0) return;
  network.cores = static_cast<double>(cluster.cores);
  std::map<int, std::int64_t> on_machine;
  const std::vector<std::int64_t> of_lane = ranks_of_lanes(plan, program, folding);
  for (int lane = 0; lane < program.lanes(); ++lane) {
    network.machine.push_back(static_cast<int>(ranks[lane] / cluster.devices_per_node()));
    if (!program.map().is_colocated(lane))  // its ranks count with their other lane
      on_machine[network.machine.back()] += of_lane[lane];
  }
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const schedule::PipelineMap& map = program.map();
    const int counted =
        map.is_colocated(lane) ? map.lanes_beside(lane, map.flow().back()).front() : lane;
    const std::int64_t part =
        std::max<std::int64_t>(1, cluster.cores / on_machine.at(network.machine[counted]));
    const std::int64_t threads = threads_of_rank > 0 ? threads_of_rank : part;
    network.threads.push_back(static_cast<double>(of_lane[lane] * threads));
  }
}

}  // namespace

std::vector<std::int64_t> ranks_of_lanes(const config::Plan& plan, const StepProgram& program,
                                         const ReplicaFolding& folding) {
  std::vector<std::int64_t> ranks;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    ranks.push_back(ranks_of_lane(plan, program, module) * folding.stands_for[module]);
  }
  return ranks;
}

Network network_of(const config::Plan& plan, const config::Cluster& cluster,
                   const StepProgram& program, const ReplicaFolding& folding,
                   const NetworkOptions& options) {
  std::int64_t max = -1;
  for (const config::ModulePlan& module : plan.modules)
    for (const std::int64_t rank : module.ranks) max = std::max(max, rank);
  TRIB_REQUIRE(max < cluster.devices, .what = "simulate: cluster is too small for the plan",
               .where = str("cluster ", cluster.name, " devices"),
               .found = str(cluster.devices, " devices"), .expected = str("at least ", max + 1));
  TRIB_REQUIRE(!cluster.levels.empty(), .what = "simulate: cluster has no links",
               .where = "cluster.levels", .expected = "at least one level");
  const std::vector<std::int64_t> ranks = first_ranks(plan, program);
  Network network;
  network.overlap_slowdown = options.share_links ? cluster.device.overlap_slowdown : 1;
  share_cores(plan, cluster, program, folding, ranks, options.threads, network);
  Ports ports(network);
  const SharedRanks shared(plan, program, folding);
  for (const Channel& channel : program.channels()) {
    if (shared.stays(channel) || channel.op == schedule::Op::kSendTurn) {
      network.routes.emplace_back();
      continue;
    }
    const std::size_t level = shared.level(cluster, ranks, channel);
    const config::LinkLevel& link = cluster.levels[level];
    TRIB_REQUIRE(std::isfinite(link.bytes_per_s) && link.bytes_per_s > 0,
                 .what = "simulate: link has no bandwidth",
                 .where = str("cluster.levels.", level, ".bytes_per_s"),
                 .found = str(link.bytes_per_s), .expected = "a finite number above 0");
    const double rate = link.bytes_per_s / 1e9;
    // A folded replica exchanges features with all replicas that its partner represents. Bytes are
    // counted for a rank that gives features, also those of the gradients that come back to it.
    double entries = 1;
    std::int64_t messages = 1;
    if (channel.edge >= 0) {
      const schedule::PipelineEdge& edge = program.pipeline().edges[channel.edge];
      const auto givers = std::int64_t{folding.stands_for[edge.from]};
      const auto takers = std::int64_t{folding.stands_for[edge.to]};
      entries = static_cast<double>(givers * ranks_of_lane(plan, program, edge.from)) /
                static_cast<double>(takers * ranks_of_lane(plan, program, edge.to));
      messages = std::max(givers * program.pipeline().modules[edge.from].replicas,
                          takers * program.pipeline().modules[edge.to].replicas);
    }
    const bool comes_back = channel.op == schedule::Op::kSendFeatureGradients;
    Route route{.latency = {std::llround(1e9 * link.message_start_s) * messages},
                .bytes_per_ns = rate / std::max(1.0, entries)};
    if (is_in_pool(plan, program, channel))
      route.capacity =
          program.comes_in_whole_batches(channel) ? channel.messages : options.pool_microbatches;
    if (options.share_links) {
      route.links = {
          {.link = ports.port(channel.from, level, true, rate), .weight = comes_back ? entries : 1},
          {.link = ports.port(channel.to, level, false, rate), .weight = comes_back ? 1 : entries}};
      if (shared.has_lane_of(channel))
        for (const auto& [lane, share] : shared.beside(comes_back ? channel.to : channel.from))
          route.links.push_back(
              {.link = ports.port(lane, level, !comes_back, rate), .weight = share});
    }
    network.routes.push_back(std::move(route));
  }
  return network;
}

}  // namespace tributary::simulate
