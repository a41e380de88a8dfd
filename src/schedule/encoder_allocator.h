#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tributary::schedule {

/// How many encoders a run may have beside it, and how its rates are measured.
struct EncoderRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
  double window_seconds = 10;       // of steps between two decisions; at least eight steps
  std::int64_t settling_steps = 3;  // after encoders have come or gone; they count nowhere
  std::int64_t takers = 1;          // ranks that take features
  std::int64_t readers = 1;         // of them take each object
};

/// What one step showed. Counts and seconds are sums over ranks or encoders, without those of the
/// steps before.
struct FlowRates {
  double seconds = 0;             // of the step
  double starved = 0;             // [s] that ranks waited for features
  double encoding = 0;            // [s] that they encoded
  std::int64_t taken = 0;         // objects that encoders gave them
  std::int64_t encoded_here = 0;  // that they made
  std::int64_t made = 0;          // objects that encoders made
  double busy = 0;                // [s] that this took
  std::int64_t encoders = 0;      // that are there at the end of the step
  bool changed = false;           // some came or went
};

/// Another number of encoders, and why.
struct EncoderChange {
  std::int64_t wanted = 0;
  std::string reason = {};
};

/// Decides between steps how many encoders a run wants, only by measured rates.
///
/// The load of a window is the busy time of encoders by the time that the ranks computed. Where
/// ranks lacked features for over 2 % of the window, at least one more is wanted, and enough for
/// 1.1 times the load: encoders keep pace when they are 10 % faster than the backbone. Encoders had
/// no idle time then, so the number that would have made the objects of the window in the computed
/// time counts too. Down to 1.3 times the load, they are withdrawn after two such windows in a row.
/// Each withdrawal that had to be taken back doubles this number of windows, so that a mixture that
/// goes up and down keeps what it needs at its highest. A number at which ranks lacked features is
/// not gone back to before the load has fallen by a quarter.
///
/// A window begins anew when encoders come or go, and lasts until some have told of their work.
/// While one is missing, no more are wanted for ten windows: another may take its place.
class EncoderAllocator {
 public:
  /// `wanted`: those that the run starts with.
  ///
  /// errors: Fault::kBug when they lie outside of the range
  EncoderAllocator(const EncoderRange& range, std::int64_t wanted);

  /// Null: their number stays.
  [[nodiscard]] std::optional<EncoderChange> after_step(const FlowRates& step);
  [[nodiscard]] std::int64_t wanted() const { return wanted_; }

 private:
  struct Window {
    std::int64_t steps = 0;
    FlowRates sum = {};
  };
  /// The rates of a window.
  struct Judged {
    double lacking = 0;  // share of the ranks' time
    double load = 0;     // encoders that would be busy all the time that the backbone computes
    double needed = 0;   // likewise, or more where ranks waited for those that there were
  };
  struct TooFew {
    std::int64_t encoders = 0;
    double load = 0;
  };

  /// Whether the encoders are there that the last decision asked for, or do not come.
  [[nodiscard]] bool has_arrived(const FlowRates& step);
  [[nodiscard]] Judged judge();
  [[nodiscard]] std::optional<EncoderChange> decide(const Judged& judged);
  [[nodiscard]] std::int64_t fewer_for(double load) const;
  /// Changes the number from the `found` ones to those that the work needs.
  [[nodiscard]] std::optional<EncoderChange> change_to(std::int64_t needed, std::int64_t found,
                                                       const Judged& judged);

  const EncoderRange range_;
  std::int64_t wanted_;
  std::int64_t settling_;  // steps that do not count yet
  Window window_;
  double object_seconds_ = 0;             // that an encoder needs for one; of the last window
  std::optional<std::int64_t> expected_;  // encoders, after a decision
  double waited_ = 0;                     // [s] for them
  double missing_ = 0;                    // [s] in which ranks lacked features, for want of some
  std::int64_t calm_windows_ = 0;         // in a row, for which fewer would do
  std::int64_t calm_needed_ = 0;          // the most of them
  std::int64_t patience_ = 2;             // calm windows before encoders are withdrawn
  bool has_withdrawn_ = false;            // the last change
  std::optional<TooFew> too_few_ = {};    // the last number at which ranks lacked features
};

}  // namespace tributary::schedule
