#include "train/profile/profile_ledger.h"

#include <algorithm>
#include <iomanip>
#include <tuple>

#include "core/error.h"
#include "core/text.h"
#include "train/profile/layer_times.h"

namespace tributary::train {
namespace {

void require_same(const char* key, const std::string& found, const std::string& expected,
                  const std::string& where) {
  TRIB_REQUIRE(found == expected, .what = "train: profile is of something else",
               .where = str(where, " ", key), .found = escaped(found),
               .expected = escaped(expected), .fix = "give another file to -o, or remove this one");
}

bool are_alike(const config::ProfileTable& a, const config::ProfileTable& b) {
  return std::tie(a.module, a.layer, a.dtype, a.tp, a.ranks, a.threads, a.share_percent) ==
         std::tie(b.module, b.layer, b.dtype, b.tp, b.ranks, b.threads, b.share_percent);
}

bool has_same_cut(const auto& a, const auto& b) {
  return std::tie(a.tp, a.ranks, a.threads) == std::tie(b.tp, b.ranks, b.threads);
}

std::string percent(double share) {
  return str(std::fixed, std::setprecision(1), 100 * share, " %");
}
std::string in_ms(Nanoseconds time) {
  return str(std::fixed, std::setprecision(3), 1e-6 * static_cast<double>(time.count), " ms");
}

}  // namespace

void require_identity(config::Profile& profile, const ProfileIdentity& identity,
                      const std::string& where) {
  if (profile.model.empty()) {
    profile.model = identity.model;
    profile.device = identity.device;
    profile.libraries = identity.libraries;
    profile.adapter = identity.adapter;
    profile.cores = identity.cores;
    return;
  }
  require_same("model", profile.model, identity.model, where);
  require_same("device", profile.device, identity.device, where);
  require_same("libraries", profile.libraries, identity.libraries, where);
  require_same("adapter", profile.adapter, identity.adapter, where);
  require_same("cores", str(profile.cores), str(identity.cores), where);
}

bool has_pass(const config::Profile& profile, const config::MeasuredPass& pass) {
  return std::ranges::any_of(profile.passes, [&](const config::MeasuredPass& each) {
    return std::tie(each.ranks, each.tp, each.threads, each.capacity) ==
           std::tie(pass.ranks, pass.tp, pass.threads, pass.capacity);
  });
}

bool has_step(const config::Profile& profile, std::int64_t ranks, std::int64_t threads) {
  return std::ranges::any_of(profile.steps, [&](const config::MeasuredStep& each) {
    return each.ranks == ranks && each.threads == threads;
  });
}

bool has_collective(const config::Profile& profile, config::CollectiveOp op, std::int64_t ranks,
                    Bytes bytes) {
  for (const config::CollectiveTable& table : profile.collectives)
    for (const config::MeasuredCollective& point : table.points)
      if (table.op == op && point.ranks == ranks && point.bytes == bytes) return true;
  return false;
}

void add_point(config::Profile& profile, const config::ProfileTable& like,
               const config::ProfilePoint& point) {
  auto table = std::ranges::find_if(
      profile.layers, [&](const config::ProfileTable& each) { return are_alike(each, like); });
  if (table == profile.layers.end()) {
    profile.layers.push_back(like);
    profile.layers.back().points.clear();
    table = profile.layers.end() - 1;
  }
  const auto place = std::ranges::find_if(
      table->points, [&](const auto& each) { return each.tokens >= point.tokens; });
  if (place != table->points.end() && place->tokens == point.tokens)
    *place = point;
  else
    table->points.insert(place, point);
}

bool add_attention(config::Profile& profile, const config::ProfileTable& like,
                   const config::MeasuredAttention& point) {
  const auto table = std::ranges::find_if(
      profile.layers, [&](const config::ProfileTable& each) { return are_alike(each, like); });
  if (table == profile.layers.end()) return false;
  const auto key = [](const config::MeasuredAttention& each) {
    return std::tuple(each.attended, each.tokens);
  };
  const auto place = std::ranges::find_if(
      table->attention, [&](const auto& each) { return key(each) >= key(point); });
  if (place != table->attention.end() && key(*place) == key(point))
    *place = point;
  else
    table->attention.insert(place, point);
  return true;
}

bool has_attention(const config::Profile& profile, const config::ProfileTable& like) {
  return std::ranges::any_of(profile.layers, [&](const config::ProfileTable& each) {
    return has_same_cut(each, like) && !each.attention.empty();
  });
}

bool drop_joint_attention(config::Profile& profile) {
  std::vector<config::ProfileTable> joint;
  for (const config::ProfileTable& each : profile.layers)
    if (each.layer.ends_with("block") && each.attention.empty()) joint.push_back(each);
  const auto is_joint = [&](const auto& each) {
    return std::ranges::any_of(joint, [&](const auto& other) { return has_same_cut(each, other); });
  };
  std::erase_if(profile.layers, is_joint);
  std::erase_if(profile.passes, is_joint);
  return !joint.empty();
}

void add_collective(config::Profile& profile, config::CollectiveOp op,
                    const config::MeasuredCollective& point) {
  auto table =
      std::ranges::find_if(profile.collectives, [&](const auto& each) { return each.op == op; });
  if (table == profile.collectives.end()) {
    profile.collectives.push_back({.op = op, .points = {}});
    table = profile.collectives.end() - 1;
  }
  const auto key = [](const config::MeasuredCollective& each) {
    return std::tuple(each.ranks, each.bytes);
  };
  const auto place = std::ranges::find_if(
      table->points, [&](const auto& each) { return key(each) >= key(point); });
  if (place != table->points.end() && key(*place) == key(point))
    *place = point;
  else
    table->points.insert(place, point);
}

void summarise_noise(config::Profile& profile) {
  std::vector<double> spreads;
  for (const config::ProfileTable& table : profile.layers)
    for (const config::ProfilePoint& point : table.points) spreads.push_back(point.spread);
  for (const config::CollectiveTable& table : profile.collectives)
    for (const config::MeasuredCollective& point : table.points) spreads.push_back(point.spread);
  for (const config::MeasuredStep& step : profile.steps) spreads.push_back(step.spread);
  profile.noise = spreads.empty() ? 0 : spread_of(std::move(spreads)).median;
}

std::string describe(const config::MeasuredPass& pass) {
  return str("microbatches of ", pass.capacity, ", ", pass.ranks,
             pass.ranks == 1 ? " rank, tp " : " ranks, tp ", pass.tp, ", ", pass.threads,
             " threads: forward ", in_ms(pass.forward), ", backward ", in_ms(pass.backward),
             ", spread ", percent(pass.spread));
}

std::string describe(const config::MeasuredStep& step) {
  return str("a step of ", step.ranks, step.ranks == 1 ? " rank on " : " ranks, each on ",
             step.threads, step.threads == 1 ? " thread" : " threads",
             ", beside its passes: ", in_ms(step.step), ", update ", in_ms(step.optimizer),
             ", spread ", percent(step.spread));
}

std::string describe_noise(const config::Profile& profile) {
  return str("noise ", percent(profile.noise),
             ": median over all points of (largest - least) / median");
}

}  // namespace tributary::train
