#include "schedule/encoder_allocator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/error.h"

namespace tributary::schedule {
namespace {

constexpr std::int64_t kFewestSteps = 8;
constexpr double kMaxLacking = 0.02;
constexpr double kFaster = 1.1;   // encoders than the backbone, where they keep pace
constexpr double kSpare = 1.3;    // likewise, so that the others may go
constexpr double kFallen = 0.75;  // of the work at which a number was too few
constexpr std::int64_t kMaxPatience = 64;
constexpr double kMaxWindows = 10;  // for which a decision waits for its encoders

std::int64_t count_for(double load) {
  constexpr double kRounding = 1e-9;
  return static_cast<std::int64_t>(std::ceil(std::min(load, 1e6) - kRounding));
}

std::string with_one_digit(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

}  // namespace

EncoderAllocator::EncoderAllocator(const EncoderRange& range, std::int64_t wanted)
    : range_(range), wanted_(wanted), settling_(range.settling_steps) {
  TRIB_CHECK(range.min <= wanted && wanted <= range.max && range.takers > 0 && range.readers > 0,
             .what = "schedule: number of encoders outside of its range", .found = str(wanted),
             .expected = str(range.min, " to ", range.max));
}

bool EncoderAllocator::has_arrived(const FlowRates& step) {
  if (!expected_) return true;
  waited_ += step.seconds;
  const bool is_there = has_withdrawn_ ? step.encoders <= *expected_ : step.encoders >= *expected_;
  if (!is_there && waited_ < kMaxWindows * range_.window_seconds) return false;
  expected_.reset();
  return true;
}

std::optional<EncoderChange> EncoderAllocator::after_step(const FlowRates& step) {
  if (step.changed) {
    window_ = {};
    settling_ = range_.settling_steps;
    calm_windows_ = 0;
  }
  if (!has_arrived(step)) return std::nullopt;
  if (settling_ > 0) {
    --settling_;
    return std::nullopt;
  }
  FlowRates& sum = window_.sum;
  ++window_.steps;
  for (double FlowRates::*seconds :
       {&FlowRates::seconds, &FlowRates::starved, &FlowRates::encoding, &FlowRates::busy})
    sum.*seconds += step.*seconds;
  for (std::int64_t FlowRates::*count :
       {&FlowRates::taken, &FlowRates::encoded_here, &FlowRates::made})
    sum.*count += step.*count;
  sum.encoders = step.encoders;
  const bool is_known = sum.taken == 0 || sum.made > 0 || sum.encoded_here > 0;
  if (window_.steps < kFewestSteps || sum.seconds < range_.window_seconds || !is_known)
    return std::nullopt;
  std::optional<EncoderChange> change = decide(judge());
  window_ = {};
  return change;
}

EncoderAllocator::Judged EncoderAllocator::judge() {
  const FlowRates& sum = window_.sum;
  // Encoders tell both numbers in one message, so their ratio is right however late they do.
  if (sum.made > 0)
    object_seconds_ = sum.busy / static_cast<double>(sum.made);
  else if (sum.encoded_here > 0)
    object_seconds_ = sum.encoding / static_cast<double>(sum.encoded_here);
  const double lacking = (sum.starved + sum.encoding) / static_cast<double>(range_.takers);
  const double computed = std::max(sum.seconds - lacking, 1e-3 * sum.seconds);
  const auto objects = static_cast<double>(sum.taken + sum.encoded_here);
  const double load = object_seconds_ * objects / static_cast<double>(range_.readers) / computed;
  const double share = lacking / sum.seconds;
  const bool waited = share > kMaxLacking && sum.taken > 0;
  const double given = waited ? static_cast<double>(sum.encoders) * sum.seconds / computed *
                                    objects / static_cast<double>(sum.taken)
                              : 0;
  return {.lacking = share, .load = load, .needed = std::max(load, given)};
}

std::int64_t EncoderAllocator::fewer_for(double load) const {
  const std::int64_t fewer = count_for(kSpare * load);
  const bool were_too_few =
      too_few_ && fewer <= too_few_->encoders && load > kFallen * too_few_->load;
  return were_too_few ? too_few_->encoders + 1 : fewer;
}

std::optional<EncoderChange> EncoderAllocator::decide(const Judged& judged) {
  const std::int64_t found = window_.sum.encoders;
  if (judged.lacking > kMaxLacking) {
    calm_windows_ = 0;
    too_few_ = {.encoders = found, .load = judged.load};
    missing_ = found < wanted_ ? missing_ + window_.sum.seconds : 0;
    if (found < wanted_ && missing_ < kMaxWindows * range_.window_seconds) return std::nullopt;
    missing_ = 0;
    return change_to(std::max(count_for(kFaster * judged.needed), found + 1), found, judged);
  }
  const std::int64_t fewer = std::max(fewer_for(judged.load), range_.min);
  if (fewer >= found) {
    calm_windows_ = 0;
    return std::nullopt;
  }
  calm_needed_ = calm_windows_++ == 0 ? fewer : std::max(calm_needed_, fewer);
  if (calm_windows_ < patience_) return std::nullopt;
  calm_windows_ = 0;
  return change_to(calm_needed_, found, judged);
}

std::optional<EncoderChange> EncoderAllocator::change_to(std::int64_t needed, std::int64_t found,
                                                         const Judged& judged) {
  const std::int64_t wanted = std::clamp(wanted_ + needed - found, range_.min, range_.max);
  if (wanted == wanted_) return std::nullopt;
  const bool withdraws = wanted < wanted_;
  if (std::exchange(has_withdrawn_, withdraws) && !withdraws)
    patience_ = std::min(2 * patience_, kMaxPatience);
  expected_ = found + wanted - wanted_;
  waited_ = 0;
  wanted_ = wanted;
  return EncoderChange{
      .wanted = wanted,
      .reason = str("ranks lacked features for ", with_one_digit(1e2 * judged.lacking),
                    " % of the last ", with_one_digit(window_.sum.seconds), " s; their work keeps ",
                    with_one_digit(judged.needed), " encoders busy")};
}

}  // namespace tributary::schedule
