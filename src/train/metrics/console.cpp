#include "train/metrics/console.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <ostream>
#include <vector>

#include "core/text.h"

namespace tributary::train {
namespace {

constexpr std::size_t kRecentSteps = 50;
constexpr double kMaxOfMedian = 4;  // a longer step counts as this much for the time left

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

/// Prints a number without the sign that a NaN may have.
std::string unsigned_nan(const char* format, double value) {
  return std::isnan(value) ? "nan" : print(format, value);
}

std::string describe_pairs(const PairSums& pairs) {
  return pairs.pairs == 0 ? ""
                          : print("  accuracy %.2f  margin %.3f", pairs.accuracy(), pairs.margin());
}

}  // namespace

std::string describe_seconds(double seconds) {
  const auto whole = static_cast<long>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return print("%ld s", whole);
  if (whole < 3600) return print("%ld min %02ld s", whole / 60, whole % 60);
  return print("%ld h %02ld min", whole / 3600, whole % 3600 / 60);
}

Console::Console(std::ostream& out, bool is_terminal, std::int64_t steps, std::int64_t every)
    : out_(out), is_terminal_(is_terminal), steps_(steps), every_(every) {}

Console::Recent Console::look_back() const {
  Recent recent;
  double losses = 0;
  double tokens = 0;
  std::vector<double> times;
  for (const Step& step : steps_back_) {
    tokens += step.tokens;
    times.push_back(step.seconds);
    if (!std::isfinite(step.loss)) continue;
    recent.loss += step.loss;
    ++losses;
  }
  recent.loss /= losses;
  recent.tokens_per_second = tokens / std::accumulate(times.begin(), times.end(), 0.0);
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  const double max = kMaxOfMedian * *middle;
  for (const double time : times) recent.step_seconds += std::min(time, max);
  recent.step_seconds /= static_cast<double>(times.size());
  return recent;
}

std::string Console::describe(const StepMetrics& metrics) const {
  const Recent recent = look_back();
  const double left = static_cast<double>(steps_ - metrics.step) * recent.step_seconds;
  std::string line =
      print("step %*lld/%lld  loss %s (last %zu: %s)%s  lr %.2e  norm %s  %.0f tokens/s  %s left",
            static_cast<int>(str(steps_).size()), static_cast<long long>(metrics.step),
            static_cast<long long>(steps_), unsigned_nan("%.4f", metrics.loss).c_str(),
            steps_back_.size(), unsigned_nan("%.4f", recent.loss).c_str(),
            describe_pairs(metrics.pairs).c_str(), metrics.learning_rate,
            unsigned_nan("%.2f", metrics.grad_norm).c_str(), recent.tokens_per_second,
            describe_seconds(left).c_str());
  if (!metrics.skip_reason.empty()) line += "  SKIPPED: " + metrics.skip_reason;
  return line;
}

void Console::show(const StepMetrics& metrics) {
  steps_back_.push_back({.loss = metrics.skip_reason.empty() ? metrics.loss : NAN,
                         .tokens = static_cast<double>(metrics.tokens),
                         .seconds = metrics.seconds.sum()});
  if (steps_back_.size() > kRecentSteps) steps_back_.pop_front();
  ++steps_seen_;
  if (is_terminal_) {
    out_ << "\r\x1b[K" << describe(metrics) << std::flush;
    line_open_ = true;
    if (metrics.step % every_ == 0 || metrics.step == steps_ || !metrics.skip_reason.empty())
      say("");
    return;
  }
  const bool due = steps_seen_ == 1 || metrics.step % every_ == 0 || metrics.step == steps_ ||
                   !metrics.skip_reason.empty();
  if (due) out_ << describe(metrics) << std::endl;
}

void Console::say(const std::string& line) {
  if (line_open_) out_ << "\n";
  line_open_ = false;
  if (!line.empty()) out_ << line << std::endl;
}

}  // namespace tributary::train
