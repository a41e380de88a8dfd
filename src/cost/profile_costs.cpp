#include "cost/profile_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "cost/adapter_cost.h"
#include "cost/convex_profile.h"
#include "cost/profile_columns.h"

namespace tributary::cost {
namespace {

using config::CollectiveOp;
using config::LayerKind;
using config::MeasuredCollective;

/// Small all-reduces of a step, as the trainer does them: two to agree on samples and targets of
/// the batch, one each for losses by source, the gradient norm and the metrics.
constexpr std::int64_t kSmallReductions = 5;
constexpr Bytes kSmallBytes{1024};

/// The points of one group size; empty for more ranks than were measured.
std::vector<MeasuredCollective> points_of(const config::Profile& profile, CollectiveOp op,
                                          std::int64_t ranks) {
  std::vector<MeasuredCollective> points;
  for (const config::CollectiveTable& table : profile.collectives)
    for (const MeasuredCollective& point : table.points)
      if (table.op == op && point.ranks == ranks) points.push_back(point);
  return points;
}

/// Linear between points and never decreasing; the first time below them, the last rate above.
Nanoseconds time_at(const std::vector<MeasuredCollective>& points, Bytes bytes) {
  double before_bytes = 0;
  double before = static_cast<double>(points.front().time.count);
  const auto at = static_cast<double>(bytes.count);
  for (const MeasuredCollective& point : points) {
    const auto size = static_cast<double>(point.bytes.count);
    const auto time = static_cast<double>(point.time.count);
    if (at <= size)
      return {std::llround(before + (time - before) * (at - before_bytes) / (size - before_bytes))};
    before_bytes = size;
    before = time;
  }
  return {std::llround(before * at / before_bytes)};
}

}  // namespace

std::string collective_name(CollectiveOp op) {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "broadcast",  "send"};
  return names[static_cast<std::size_t>(op)];
}

std::string layer_name(const config::LayerShape& shape) {
  switch (shape.kind) {
    case LayerKind::kEmbedding:
      return "embedding";
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
      return "patch_embedding";
    case LayerKind::kBlock:
      return shape.window > 0 ? "window_block" : "block";
    case LayerKind::kProjector:
      return "projector";
    case LayerKind::kHead:
      return "head";
  }
  return "block";
}

ProfileCosts::ProfileCosts(config::Profile profile, std::int64_t ranks, std::int64_t threads,
                           std::string where)
    : profile_(never_decreasing(std::move(profile))),
      where_(std::move(where)),
      ranks_(ranks),
      threads_(threads > 0 ? threads : std::max<std::int64_t>(1, profile_.cores / ranks)) {}

bool ProfileCosts::is_nearer(std::int64_t ranks, std::int64_t other) const {
  const auto distance = [this](std::int64_t of) {
    return std::pair(of > ranks_, std::abs(of - ranks_));
  };
  return distance(ranks) < distance(other);
}

const config::ProfileTable* ProfileCosts::find_table(const std::string& module,
                                                     const std::string& layer,
                                                     std::int64_t tp) const {
  const config::ProfileTable* found = nullptr;
  for (const config::ProfileTable& each : profile_.layers) {
    const bool fits = each.module == module && each.layer == layer && each.tp == tp &&
                      (each.threads == threads_ || each.threads == 0 || profile_.cores == 0);
    if (fits && (found == nullptr || is_nearer(each.ranks, found->ranks))) found = &each;
  }
  return found;
}

const config::ProfileTable& ProfileCosts::table(const std::string& module, const std::string& layer,
                                                std::int64_t tp) const {
  const config::ProfileTable* found = find_table(module, layer, tp);
  TRIB_REQUIRE(found != nullptr, .what = "cost: profile lacks a table",
               .where = str(where_, " layers"), .found = "no such measurement",
               .expected = str(module, ".", layer, ", tp ", tp, ", threads ", threads_),
               .fix = "measure it: tributary profile, with --ranks where ranks are too few");
  return *found;
}

LayerCost ProfileCosts::layer(const std::string& module, const config::LayerShape& shape,
                              const PassShape& pass, const LayerPlacement& placement,
                              Training training) const {
  const config::ProfileTable& measured = table(module, layer_name(shape), placement.tp);
  PassShape attends = pass;
  attends.squared_tokens = attended_pairs(shape, pass);
  LayerCost cost =
      layer_cost(measured, profile_.launch, attends, placement.optimizer_shards, training);
  // The table has the mean of its layers, of which some may have no adapter.
  cost.adapter_parameters = {
      std::llround(value_bytes() * adapters_of_rank(shape.adapter, placement.tp))};
  if (pass.tokens > 0 && placement.tp > 1 && layer_name(shape) != "patch_embedding") {
    const double rows = pass.tokens / static_cast<double>(std::max<std::int64_t>(1, shape.merge));
    cost.tp_all_reduce = {std::llround(value_bytes() * rows * static_cast<double>(shape.width))};
    cost.tp_all_reduces = shape.kind == LayerKind::kBlock ? 2 : 1;
  }
  return cost;
}

Nanoseconds ProfileCosts::collective(CollectiveOp op, const CommunicationGroup& group,
                                     Bytes bytes) const {
  const std::int64_t ranks = group.ranks;
  if (ranks <= 1 || bytes.count == 0) return {};
  const std::vector<MeasuredCollective> points = points_of(profile_, op, ranks);
  TRIB_REQUIRE(!points.empty(), .what = "cost: profile lacks a table",
               .where = str(where_, " collectives"), .found = "no such measurement",
               .expected = str(collective_name(op), " of ", ranks, " ranks"),
               .fix = str("measure it: tributary profile --ranks ", ranks));
  return time_at(points, bytes);
}

const config::MeasuredStep& ProfileCosts::measured_step() const {
  const config::MeasuredStep* found = nullptr;
  for (const config::MeasuredStep& each : profile_.steps) {
    if (each.threads != threads_ && profile_.cores > 0) continue;
    if (found == nullptr || is_nearer(each.ranks, found->ranks)) found = &each;
  }
  TRIB_REQUIRE(found != nullptr, .what = "cost: profile lacks a step",
               .where = str(where_, " steps"), .found = "no such measurement",
               .expected = str("a step on ", threads_, " threads"),
               .fix = "measure it: tributary profile");
  return *found;
}

/// Time of an update in proportion to the measured one.
Nanoseconds ProfileCosts::optimizer(double parameters) const {
  const config::MeasuredStep& step = measured_step();
  if (step.parameters == 0) return {};
  return {std::llround(static_cast<double>(step.optimizer.count) * parameters /
                       static_cast<double>(step.parameters))};
}

Nanoseconds ProfileCosts::microbatch(bool /*has_loss*/) const { return measured_step().microbatch; }

Nanoseconds ProfileCosts::step(const CommunicationGroup& /*ranks*/) const {
  const Nanoseconds small = collective(CollectiveOp::kAllReduce, {.ranks = ranks_}, kSmallBytes);
  return measured_step().step + small * kSmallReductions;
}

Bytes ProfileCosts::process() const { return measured_step().process; }

double ProfileCosts::value_bytes() const {
  const bool is_float =
      !profile_.layers.empty() && profile_.layers.front().dtype == config::Dtype::kFloat32;
  return is_float ? 4 : 2;
}

bool ProfileCosts::has_layer(const std::string& module, const config::LayerShape& shape,
                             std::int64_t tp) const {
  return find_table(module, layer_name(shape), tp) != nullptr;
}

bool ProfileCosts::has_collective(CollectiveOp op, std::int64_t ranks) const {
  return ranks <= 1 || !points_of(profile_, op, ranks).empty();
}

std::int64_t ProfileCosts::measured_tokens(const std::string& module,
                                           const config::LayerShape& shape, std::int64_t tp) const {
  const config::ProfileTable* found = find_table(module, layer_name(shape), tp);
  return found == nullptr || found->points.empty() ? 0 : found->points.back().tokens.count;
}

double ProfileCosts::measured_attended(const std::string& module, const config::LayerShape& shape,
                                       std::int64_t tp) const {
  const config::ProfileTable* found = find_table(module, layer_name(shape), tp);
  if (found == nullptr || found->attention.empty()) return std::numeric_limits<double>::infinity();
  return found->attention.back().attended;
}

std::int64_t ProfileCosts::measured_bytes(CollectiveOp op, std::int64_t ranks) const {
  const std::vector<MeasuredCollective> points = points_of(profile_, op, ranks);
  return points.empty() ? 0 : points.back().bytes.count;
}

std::string ProfileCosts::degrees() const {
  std::set<std::int64_t> tp;
  for (const config::ProfileTable& each : profile_.layers)
    if (find_table(each.module, each.layer, each.tp) != nullptr) tp.insert(each.tp);
  std::string text = "tp";
  for (const std::int64_t degree : tp) text += str(degree == *tp.begin() ? " " : ", ", degree);
  text += str(" on ", threads_, threads_ == 1 ? " thread" : " threads");
  for (const config::CollectiveTable& table : profile_.collectives) {
    std::set<std::int64_t> ranks;
    for (const MeasuredCollective& point : table.points) ranks.insert(point.ranks);
    text += str("; ", collective_name(table.op), " of");
    for (const std::int64_t each : ranks) text += str(each == *ranks.begin() ? " " : ", ", each);
  }
  return text;
}

std::shared_ptr<const CostSource> ProfileCosts::convex() const {
  return std::make_shared<const ProfileCosts>(convex_below(profile_), ranks_, threads_, where_);
}

config::Cluster cluster_of(const config::Profile& profile, std::int64_t ranks,
                           const std::string& where) {
  config::Cluster cluster{.name = profile.device, .origin = str("measured: ", where)};
  cluster.devices = ranks;
  cluster.cores = profile.cores;
  cluster.device.name = profile.device;
  cluster.device.matrix_flops_per_s = std::max(1e6, profile.flops_per_s);
  cluster.device.memory_bytes_per_s = 1e6;  // unused: measured costs need no roofline
  cluster.device.memory = {profile.cores > 0 ? profile.memory.count / ranks : profile.memory.count};
  cluster.device.overlap_slowdown = 1;
  config::LinkLevel level{.name = "machine", .ranks = ranks, .bytes_per_s = 1e9};
  if (ranks > 1) {
    std::int64_t measured = 0;  // the nearest measured number of processes
    for (const config::CollectiveTable& table : profile.collectives)
      for (const MeasuredCollective& point : table.points)
        if (table.op == CollectiveOp::kSend && point.ranks <= ranks)
          measured = std::max(measured, point.ranks);
    const std::vector<MeasuredCollective> sends = points_of(profile, CollectiveOp::kSend, measured);
    TRIB_REQUIRE(sends.size() >= 2, .what = "cost: profile lacks a table",
                 .where = str(where, " collectives"), .found = str(sends.size(), " points"),
                 .expected = str("messages between ", ranks, " ranks"),
                 .fix = str("measure them: tributary profile --ranks ", ranks));
    level.message_start_s = seconds_of(sends.front().time);
    const double more = static_cast<double>(sends.back().time.count - sends.front().time.count);
    level.bytes_per_s = 1e9 * static_cast<double>(sends.back().bytes.count) / std::max(1.0, more);
  }
  cluster.levels = {level};
  return cluster;
}

}  // namespace tributary::cost
