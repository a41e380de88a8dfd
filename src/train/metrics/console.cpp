#include "train/metrics/console.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "core/text.h"

namespace tributary::train {
namespace {

constexpr double kSmoothing = 0.1;  // share of the newest step in the mean that gives the time left

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
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

std::string Console::describe(const StepMetrics& metrics) const {
  const double left = static_cast<double>(steps_ - metrics.step) * step_seconds_;
  std::string line =
      print("step %*lld/%lld  loss %.4f  lr %.2e  norm %.2f  %.0f tokens/s  %s left",
            static_cast<int>(str(steps_).size()), static_cast<long long>(metrics.step),
            static_cast<long long>(steps_), metrics.loss, metrics.learning_rate, metrics.grad_norm,
            metrics.tokens_per_second(), describe_seconds(left).c_str());
  if (!metrics.skip_reason.empty()) line += "  SKIPPED: " + metrics.skip_reason;
  return line;
}

void Console::show(const StepMetrics& metrics) {
  const double seconds = metrics.seconds.sum();
  step_seconds_ =
      steps_seen_ == 0 ? seconds : (1 - kSmoothing) * step_seconds_ + kSmoothing * seconds;
  ++steps_seen_;
  if (is_terminal_) {
    out_ << "\r\x1b[K" << describe(metrics) << std::flush;
    line_open_ = true;
    if (metrics.step == steps_ || !metrics.skip_reason.empty()) say("");
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
