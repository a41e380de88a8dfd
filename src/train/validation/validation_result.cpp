#include "train/validation/validation_result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace tributary::train {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string describe_pairs(const ValidationResult& result) {
  const PairSums all = result.sum_pairs();
  std::array<char, 100> line{};
  std::snprintf(line.data(), line.size(), "loss %.4f, accuracy %.1f %% of %lld pairs, margin %.3f",
                result.mean_loss(), 100 * all.accuracy(), static_cast<long long>(all.pairs),
                all.margin());
  return str(line.data(),
             result.refused > 0 ? str("; ", result.refused, " bad ones left out") : "");
}

}  // namespace

PairSums ValidationResult::sum_pairs(int source) const {
  PairSums all;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (source < 0 || static_cast<std::size_t>(source) == i) all += pairs[i];
  return all;
}

std::int64_t ValidationResult::count(int source) const {
  if (!pairs.empty()) return sum_pairs(source).pairs;
  return std::count_if(predictions.begin(), predictions.end(),
                       [&](const Prediction& p) { return source < 0 || p.source == source; });
}

std::int64_t ValidationResult::count_cut() const {
  return std::ranges::count_if(predictions, &Prediction::cut);
}

double ValidationResult::mean_loss() const {
  SourceLoss all;
  for (const SourceLoss& one : loss) all += one;
  return all.targets == 0 ? std::numeric_limits<double>::quiet_NaN() : all.mean();
}

double ValidationResult::accuracy(int source) const {
  if (!pairs.empty()) return sum_pairs(source).accuracy();
  const auto right = std::count_if(
      predictions.begin(), predictions.end(),
      [&](const Prediction& p) { return (source < 0 || p.source == source) && p.correct(); });
  return share(right, count(source));
}

double ValidationResult::blind_accuracy(int source) const {
  const auto right = std::count_if(
      predictions.begin(), predictions.end(),
      [&](const Prediction& p) { return (source < 0 || p.source == source) && p.blind_correct(); });
  return share(right, count(source));
}

double ValidationResult::mean_score(std::size_t metric, int source) const {
  double sum = 0;
  std::int64_t scored = 0;
  for (const Prediction& prediction : predictions) {
    if (source >= 0 && prediction.source != source) continue;
    sum += prediction.scores.at(metric);
    ++scored;
  }
  return scored == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(scored);
}

Json scores_json(const ValidationResult& result, const std::vector<std::string>& sources) {
  Json scores = Json::object();
  for (std::size_t metric = 0; metric < result.metrics.size(); ++metric) {
    Json& by_source = scores[result.metrics[metric]] = Json::object();
    if (!result.predictions.empty()) by_source["overall"] = result.mean_score(metric);
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (const int source = static_cast<int>(i); result.count(source) > 0)
        by_source[sources[i]] = result.mean_score(metric, source);
  }
  return scores;
}

Json prediction_json(const ValidationResult& result, const Prediction& prediction,
                     const std::vector<std::string>& sources) {
  Json line{{"source", sources.at(static_cast<std::size_t>(prediction.source))},
            {"key", prediction.key},
            {"question", prediction.question},
            {"answer", prediction.answer},
            {"expected", prediction.expected},
            {"references", prediction.references},
            {"correct", prediction.correct()},
            {"cut", prediction.cut},
            {"prompt_tokens", prediction.prompt_tokens},
            {"answer_tokens", prediction.answer_tokens},
            {"pictures", prediction.picture_count}};
  for (std::size_t metric = 0; metric < result.metrics.size(); ++metric)
    line["scores"][result.metrics[metric]] = prediction.scores.at(metric);
  if (prediction.blind_answer) {
    line["blind_answer"] = *prediction.blind_answer;
    line["blind_correct"] = prediction.blind_correct();
  }
  return line;
}

Json to_json(const ValidationResult& result, std::int64_t step,
             const std::vector<std::string>& sources) {
  const auto finite = [](double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  };
  Json line{{"step", step},
            {"loss", finite(result.mean_loss())},
            {"loss_by_source", Json::object()},
            {"accuracy", {{"overall", finite(result.accuracy())}}},
            {"samples", Json::object()},
            {"refused", result.refused},
            {"cut", result.count_cut()},
            {"max_new_tokens", result.max_new_tokens}};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const int source = static_cast<int>(i);
    if (result.loss[i].targets > 0)
      line["loss_by_source"][sources[i]] = finite(result.loss[i].mean());
    if (result.count(source) == 0) continue;
    line["accuracy"][sources[i]] = result.accuracy(source);
    line["samples"][sources[i]] = result.count(source);
  }
  if (!result.metrics.empty()) line["scores"] = scores_json(result, sources);
  if (!result.pairs.empty()) add_pairs(result.sum_pairs(), line);
  return line;
}

std::string describe(const ValidationResult& result) {
  if (result.count() > 0 && !result.pairs.empty()) return describe_pairs(result);
  if (result.count() == 0)
    return result.refused == 0
               ? "no sample is held out, so no accuracy is measured"
               : str("none of ", result.refused, " held-out samples could be used: all are bad");
  std::array<char, 100> line{};
  std::snprintf(line.data(), line.size(), "loss %.4f, exact match %.1f %% of %zu",
                result.mean_loss(), 100 * result.accuracy(), result.predictions.size());
  std::string text = line.data();
  for (std::size_t metric = 0; metric < result.metrics.size(); ++metric) {
    std::snprintf(line.data(), line.size(), " %.3f", result.mean_score(metric));
    text += str(", ", result.metrics[metric], line.data());
  }
  if (result.refused > 0) text += str("; ", result.refused, " bad ones left out");
  if (result.count_cut() > 0)
    text +=
        str("; ", result.count_cut(), " of ", result.predictions.size(), " answers were cut at ",
            result.max_new_tokens, " tokens (validation.max_new_tokens)");
  return text;
}

std::string draw_table(const ValidationResult& result, const std::vector<std::string>& sources) {
  std::size_t width = std::string("overall").size();
  for (const std::string& source : sources) width = std::max(width, source.size());
  const bool blind = !result.predictions.empty() && result.predictions.front().blind_answer;
  constexpr int kScoreWidth = 12;  // of the longest name
  std::string table;
  const auto add = [&](const std::string& name, int source) {
    std::array<char, 200> line{};
    const long count = static_cast<long>(result.count(source));
    std::snprintf(line.data(), line.size(), "%-*s  %7ld  %9.1f %%", static_cast<int>(width),
                  name.c_str(), count, 100 * result.accuracy(source));
    table += line.data();
    if (blind) {
      std::snprintf(line.data(), line.size(), "  %9.1f %%", 100 * result.blind_accuracy(source));
      table += line.data();
    }
    for (std::size_t metric = 0; metric < result.metrics.size(); ++metric) {
      std::snprintf(line.data(), line.size(), "  %*.3f", kScoreWidth,
                    result.mean_score(metric, source));
      table += line.data();
    }
    table += "\n";
  };
  table += std::string("source") + std::string(width - 4, ' ') +
           (result.pairs.empty() ? "samples  exact match" : "  pairs     accuracy") +
           (blind ? "  without pixels" : "");
  for (const std::string& metric : result.metrics)
    table += str("  ", std::string(kScoreWidth - metric.size(), ' '), metric);
  table += "\n";
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (result.count(static_cast<int>(i)) > 0) add(sources[i], static_cast<int>(i));
  add("overall", -1);
  return table;
}

}  // namespace tributary::train
