#include "train/metrics/step_metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <c10/core/CachingDeviceAllocator.h>

#include "train/metrics/event_file.h"

namespace tributary::train {
namespace {

/// A value for the line, rounded to what is worth reading.
Json rounded(double value, double digits) {
  if (!std::isfinite(value)) return nullptr;
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// Null where there is no such value.
Json rounded(const std::optional<double>& value, double digits) {
  return value ? rounded(*value, digits) : Json(nullptr);
}

Json to_json(const BalanceMetrics& balance) {
  Json json{{"gap", rounded(balance.gap, 6)},
            {"planning", rounded(balance.planning, 6)},
            {"exposed", rounded(balance.exposed, 6)},
            {"repacked", balance.repacked}};
  for (const Imbalance& each : balance.imbalance) json[each.name] = rounded(each.ratio, 5);
  return json;
}

Json to_json(const FlowUse& use, double step_seconds) {
  Json json{{"objects", use.objects},
            {"bytes", use.bytes},
            {"encoded_here", use.encoded_here},
            {"gradients", use.gradients},
            {"gradients_here", use.gradients_here},
            {"starved", rounded(use.starved, 6)},
            {"encoding", rounded(use.encoding, 6)},
            {"repeated", use.repeated},
            {"out_of_turn", use.out_of_turn},
            {"encoders", use.encoders},
            {"pool_bytes", use.pool_bytes},
            {"joined", use.joined},
            {"left", use.left},
            {"lost", use.lost},
            {"made", use.made},
            {"encoder_seconds", rounded(use.encoder_seconds, 6)},
            {"encoder_busy", rounded(use.encoder_busy, 6)},
            {"encoder_blocked", rounded(use.encoder_blocked, 6)},
            {"encoder_rate", rounded(use.encoder_rate(), 3)},
            {"backbone_rate", rounded(use.backbone_rate(step_seconds), 3)}};
  if (use.wanted) json["wanted"] = *use.wanted;
  return json;
}

Json to_json(const std::vector<ModuleNorms>& norms) {
  Json json = Json::object();
  for (const ModuleNorms& each : norms) {
    json["gradient"][each.module] = finite(each.gradient);
    if (each.update) json["update"][each.module] = finite(*each.update);
    if (each.parameters) json["parameters"][each.module] = finite(*each.parameters);
  }
  return json;
}

}  // namespace

std::optional<double> FlowUse::encoder_rate() const {
  if (made == 0 || encoders == 0 || encoder_busy <= 0) return std::nullopt;
  return static_cast<double>(made * encoders) / encoder_busy;
}

std::optional<double> FlowUse::backbone_rate(double step_seconds) const {
  if (takers == 0 || needed <= 0) return std::nullopt;
  const double working = step_seconds - (starved + encoding) / static_cast<double>(takers);
  return working > 0 ? std::optional(needed / working) : std::nullopt;
}

PairSums& PairSums::operator+=(PairSums other) {
  pairs += other.pairs;
  const std::array<double*, 5> added = other.numbers();
  for (std::size_t i = 0; i < added.size(); ++i) *numbers()[i] += *added[i];
  return *this;
}

void add_pairs(const PairSums& sums, Json& line) {
  const auto mean = [&](double sum) { return finite(sum / static_cast<double>(sums.pairs)); };
  line["rewards"] = {{"chosen", mean(sums.chosen_reward)},
                     {"rejected", mean(sums.rejected_reward)},
                     {"accuracy", finite(sums.accuracy())},
                     {"margin", finite(sums.margin())}};
  line["log_probs"] = {{"chosen", mean(sums.chosen_log_prob)},
                       {"rejected", mean(sums.rejected_log_prob)}};
}

Json to_json(const StepMetrics& metrics, const std::vector<std::string>& sources) {
  Json line{{"step", metrics.step},
            {"loss", finite(metrics.loss)},
            {"learning_rate", metrics.learning_rate},
            {"grad_norm", finite(metrics.grad_norm)},
            {"tokens", metrics.tokens},
            {"target_tokens", metrics.target_tokens},
            {"samples", metrics.samples},
            {"microbatches", metrics.microbatches},
            {"media_decoded", metrics.media_decoded},
            {"tokens_per_second", rounded(metrics.tokens_per_second(), 1)},
            {"seconds",
             {{"data", rounded(metrics.seconds.data, 6)},
              {"forward", rounded(metrics.seconds.forward, 6)},
              {"backward", rounded(metrics.seconds.backward, 6)},
              {"optimizer", rounded(metrics.seconds.optimizer, 6)},
              {"other", rounded(metrics.seconds.other, 6)}}},
            {"waiting",
             {{"samples", rounded(metrics.waiting.samples, 6)},
              {"packing", rounded(metrics.waiting.packing, 6)}}},
            {"collectives",
             {{"calls", metrics.collectives.calls},
              {"bytes", metrics.collectives.bytes},
              {"seconds", rounded(metrics.collectives.seconds, 6)},
              {"waited", rounded(metrics.collectives.waited, 6)}}},
            {"loss_by_source", Json::object()},
            {"fill", rounded(metrics.fill, 5)},
            {"padding", rounded(metrics.padding, 5)},
            {"mfu", rounded(metrics.mfu_causal, 6)},
            {"mfu_causal", rounded(metrics.mfu_causal, 6)},
            {"mfu_full", rounded(metrics.mfu_full, 6)},
            {"hfu", rounded(metrics.hfu, 6)},
            {"bytes", metrics.peak_bytes},
            {"skipped", !metrics.skip_reason.empty()}};
  if (!metrics.norms.empty()) line["norms"] = to_json(metrics.norms);
  if (metrics.left_out > 0) line["left_out"] = metrics.left_out;
  if (metrics.feature_bytes > 0) line["feature_bytes"] = metrics.feature_bytes;
  if (metrics.flow) line["flow"] = to_json(*metrics.flow, metrics.seconds.sum());
  if (metrics.flow && !metrics.flow->reallocation.empty())
    line["reallocation"] = metrics.flow->reallocation;
  if (!metrics.pipeline.in_flight.empty())
    line["pipeline"] = {{"bubble", rounded(metrics.pipeline.bubble, 5)},
                        {"in_flight", metrics.pipeline.in_flight}};
  for (std::size_t i = 0; i < metrics.by_source.size(); ++i)
    if (metrics.by_source[i].targets > 0)
      line["loss_by_source"][sources[i]] = finite(metrics.by_source[i].mean());
  for (std::size_t i = 0; i < metrics.drawn.size(); ++i)
    if (const SourceDraw& each = metrics.drawn[i]; each.samples > 0)
      line["drawn"][sources[i]] = {{"samples", each.samples},
                                   {"tokens", each.tokens},
                                   {"target_tokens", each.target_tokens}};
  if (metrics.pairs.pairs > 0) add_pairs(metrics.pairs, line);
  if (metrics.balance.parts > 1) line["balance"] = to_json(metrics.balance);
  if (!metrics.skip_reason.empty()) {
    line["skip_reason"] = metrics.skip_reason;
    line["sample_ids"] = metrics.sample_keys;
  }
  return line;
}

void add_step(EventFile& events, const StepMetrics& metrics,
              const std::vector<std::string>& sources) {
  const auto scalar = [&](const std::string& tag, double value) {
    events.scalar(tag, metrics.step, value);
  };
  scalar("loss", metrics.loss);
  for (std::size_t i = 0; i < metrics.by_source.size(); ++i)
    if (metrics.by_source[i].targets > 0)
      scalar("loss_by_source/" + sources[i], metrics.by_source[i].mean());
  if (metrics.pairs.pairs > 0) {
    scalar("rewards/accuracy", metrics.pairs.accuracy());
    scalar("rewards/margin", metrics.pairs.margin());
  }
  scalar("learning_rate", metrics.learning_rate);
  scalar("grad_norm", metrics.grad_norm);
  for (const ModuleNorms& each : metrics.norms) {
    scalar("norms/gradient/" + each.module, each.gradient);
    if (!each.update || !each.parameters) continue;
    scalar("norms/update/" + each.module, *each.update);
    scalar("norms/update_ratio/" + each.module, *each.update / *each.parameters);
  }
  scalar("tokens_per_second", metrics.tokens_per_second());
  scalar("target_tokens", static_cast<double>(metrics.target_tokens));
  scalar("mfu_causal", metrics.mfu_causal);
  scalar("mfu_full", metrics.mfu_full);
  scalar("hfu", metrics.hfu);
  scalar("fill", metrics.fill);
  scalar("padding", metrics.padding);
  scalar("waiting/samples", metrics.waiting.samples);
  scalar("waiting/packing", metrics.waiting.packing);
  scalar("seconds/data", metrics.seconds.data);
  scalar("seconds/forward", metrics.seconds.forward);
  scalar("seconds/backward", metrics.seconds.backward);
  scalar("seconds/optimizer", metrics.seconds.optimizer);
}

std::int64_t peak_process_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::int64_t peak_bytes(c10::Device device) {
  if (device.is_cpu()) return peak_process_bytes();
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .allocated_bytes.at(all)
      .peak;
}

}  // namespace tributary::train
