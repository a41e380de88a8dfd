#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/units.h"

namespace tributary::config {

/// The streams of a lane; each is drawn on a line of its own.
enum class TraceStream { kCompute, kMessages, kReduction };

struct TraceSpan {
  std::int64_t lane = 0;
  TraceStream stream = TraceStream::kCompute;
  std::string name = {};  // `F0.3`
  std::string kind = {};  // forward, backward, weight, transfer, reduction, optimizer
  Nanoseconds start = {};
  Nanoseconds duration = {};
  bool critical = false;  // on the critical path of the step

  friend bool operator==(const TraceSpan&, const TraceSpan&) = default;
};

using NamedTimes = std::map<std::string, Nanoseconds>;
using NamedShares = std::map<std::string, double>;
using NamedBytes = std::map<std::string, Bytes>;

/// Ranks that do the same work: their times and their peak memory.
struct TraceLane {
  std::string name = {};
  std::string module = {};
  std::int64_t ranks = 1;
  Nanoseconds busy = {};
  Nanoseconds communication = {};
  Nanoseconds idle = {};
  NamedTimes uses = {};  // busy, communication and idle by cause; add up to the shown step
  Bytes peak = {};
  NamedBytes peak_parts = {};                              // add up to the peak
  std::vector<std::pair<Nanoseconds, Bytes>> memory = {};  // after each change

  friend bool operator==(const TraceLane&, const TraceLane&) = default;
};

/// A table of a measured profile that was asked for a size above its largest point.
struct BeyondGrid {
  std::string table = {};     // `backbone.block tp 1`, `all_reduce of 2 ranks`
  std::string unit = {};      // tokens (in a tower, patches), B
  std::int64_t measured = 0;  // largest size
  std::int64_t asked = 0;     // largest size

  friend bool operator==(const BeyondGrid&, const BeyondGrid&) = default;
};

/// The JSON of a BeyondGrid in all files that hold one: docs/formats/trace.md.
template <class BasicJson>
void to_json(BasicJson& json, const BeyondGrid& beyond) {
  json = {{"table", beyond.table},
          {"unit", beyond.unit},
          {"measured", beyond.measured},
          {"asked", beyond.asked}};
}

struct TraceSummary {
  std::string source = "simulated";  // or measured
  std::string plan = {};
  std::string plan_digest = {};  // of plan_digest(); empty: unknown
  std::string cluster = {};
  std::int64_t steps = 1;
  Nanoseconds step = {};          // mean of the steps
  Nanoseconds planned_step = {};  // prediction of the plan; 0: it has none
  std::string samples = {};       // which sizes they had
  NamedTimes distribution = {};   // keys: mean, deviation, min, median, percentile_95, max
  Nanoseconds lower_bound = {};
  std::int64_t ranks = 0;
  double idle_share = 0;
  double mfu = 0;
  std::string mfu_formula = {};
  NamedShares utilisation = {};    // keys: mfu_full, hfu, and those without frozen modules
  NamedTimes critical_path = {};   // by kind; adds up to the shown step
  std::string out_of_memory = {};  // empty when the plan fits
  std::vector<BeyondGrid> beyond_grid = {};  // of a measured profile
  bool unsettled = false;                    // work done ahead still changed after the warm-up
  std::int64_t failures = 0;
  double goodput = 1;
  std::vector<std::string> unknown = {};  // those of kTraceUnknowns that the input does not give

  /// The duration of the step that the trace shows: the median of several steps.
  [[nodiscard]] Nanoseconds shown_step() const;
  [[nodiscard]] bool knows(std::string_view figure) const;
  friend bool operator==(const TraceSummary&, const TraceSummary&) = default;
};

/// Figures that may be unknown; they are 0 in the structs and missing in the file.
inline constexpr std::array<std::string_view, 2> kTraceUnknowns{"memory", "mfu"};

/// A timeline of one step: docs/formats/trace.md.
struct Trace {
  TraceSummary summary;
  std::vector<TraceLane> lanes;
  std::vector<TraceSpan> spans;  // of the first lanes, ascending by lane and start

  friend bool operator==(const Trace&, const Trace&) = default;
};

inline constexpr std::string_view kTraceFormat = "tributary.trace/1";

/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] Trace parse_trace(std::string_view text, const std::string& where);
[[nodiscard]] Trace read_trace(const std::string& path);

/// JSON of the Chrome trace format, which Perfetto opens; reads back to the same trace.
[[nodiscard]] std::string write_trace(const Trace& trace);

/// Writes only the summary block.
[[nodiscard]] std::string write_summary(const Trace& trace);

}  // namespace tributary::config
