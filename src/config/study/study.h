#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/cluster/cluster.h"
#include "config/plan/plan.h"

namespace tributary::config {

enum class DrawKind { kConstant, kUniform, kLogUniform, kLogNormal, kExponential };

/// How a size is drawn: a constant; between two numbers, or between their logarithms; by median and
/// sigma; by least number and mean above it.
struct Draw {
  DrawKind kind = DrawKind::kConstant;
  double first = 0;
  double second = 0;

  friend bool operator==(const Draw&, const Draw&) = default;
};

/// Samples of one kind: some items (images, frames; clips of a model that encodes sound alone),
/// clips of sound beside them, and text.
struct SampleClass {
  double weight = 1;
  Draw items = {};               // whole ones
  Draw patches = {};             // of an item
  double patches_per_token = 1;  // an item gives the backbone patches / this
  Draw clips = {};               // whole ones
  Draw frames = {};              // of a clip: positions of sound
  double frames_per_token = 1;   // a clip gives the backbone frames / this
  Draw text = {};                // tokens

  friend bool operator==(const SampleClass&, const SampleClass&) = default;
};

/// Samples that plans are judged by. Without classes: the reference mixture.
struct StudyData {
  std::vector<SampleClass> classes = {};
  std::int64_t most_tokens = 0;  // longer samples are cut; 0: no limit

  friend bool operator==(const StudyData&, const StudyData&) = default;
};

/// What the methods place: an encoder and a backbone on devices of their own or together, or a
/// graph of modules that may share devices.
enum class StudyKind { kPipeline, kSharing };

/// One row of a study: a model on a cluster.
struct StudySetting {
  std::string name = {};
  ModuleGraph model = {};
  std::vector<std::int64_t> module_tokens = {};  // sharing: [modules] of a sample
  Cluster cluster = {};
  std::int64_t devices = 1;
  std::int64_t global_samples = 1;
  std::int64_t batches = 2;
  std::int64_t seed = 1;
  StudyData data = {};
  std::vector<std::string> frozen = {};
  std::optional<RecomputePlan> recompute = {};  // none: what is best for each method
  std::int64_t tp = 0;                          // pipeline: of the backbone in the methods of
  std::int64_t pp = 0;                          // LoongForge, which gives them; 0: the best
  std::int64_t ulysses = 1;                     // pipeline: ranks of a sequence in `veomni`
  std::int64_t ep = 1;                          // and that share its experts
  std::int64_t capacity_tokens = 0;             // of a packed sequence; 0: any microbatch
  std::optional<Bytes> memory = {};  // of a device; none: the cluster's, after its reserve
  std::int64_t share_units = 10;     // sharing: parts that a device is cut into
  std::int64_t run_samples = 0;      // of a whole run, for `hours`
};

enum class FigureQuantity {
  kSpeedup,          // samples a second, over those of `against`
  kHours,            // of run_samples samples
  kMfu,              // model FLOPs over those of the devices at their peak
  kMfuGap,           // mfu of `against` less that of the method
  kIdleReduction,    // 1 - idle device time of a sample over that of `against`
  kBubbleReduction,  // the same of what stages wait while their pipeline runs
  kOccupancy,        // part of units and time that has work; over that of `against`, where given
  kLeastOccupancy,   // the same of the least occupied device
};

/// A number that was published, or the ends of a range.
struct PublishedFigure {
  std::string where = {};  // table or figure
  FigureQuantity quantity = FigureQuantity::kSpeedup;
  std::string setting = {};
  std::string method = {};
  std::string against = {};                // a method; empty: the same
  std::string against_setting = {};        // empty: the same
  std::vector<std::string> settings = {};  // in place of `setting`: the mean over these
  double least = 0;
  double most = 0;
  std::optional<std::int64_t> digits = {};  // decimals that a range is printed with; none: exact

  [[nodiscard]] bool is_of_occupancy() const {
    return quantity == FigureQuantity::kOccupancy || quantity == FigureQuantity::kLeastOccupancy;
  }
  [[nodiscard]] bool is_set_against() const { return !against.empty() || !against_setting.empty(); }
};

enum class RankedBy {
  kStep,       // the shortest first
  kMfu,        // the highest first
  kSpeedup,    // over `against`, the largest first
  kOccupancy,  // the highest first
};

/// A method in a setting, where it is set against another one.
struct RankedMethod {
  std::string setting = {};
  std::string method = {};
  std::string against = {};

  friend bool operator==(const RankedMethod&, const RankedMethod&) = default;
};

/// From the best to the worst, as published: methods of a setting, settings of a method, or
/// speedups.
struct PublishedOrder {
  std::string where = {};
  RankedBy by = RankedBy::kStep;
  std::vector<RankedMethod> ranked = {};

  /// Else it is of settings.
  [[nodiscard]] bool is_of_one_setting() const {
    return std::ranges::all_of(
        ranked, [&](const RankedMethod& each) { return each.setting == ranked.front().setting; });
  }
};

/// Methods side by side: docs/formats/study.md.
struct Study {
  std::string name = {};
  std::string source = {};
  std::string notes = {};  // inputs that no one published, and how they were chosen
  StudyKind kind = StudyKind::kPipeline;
  std::vector<std::string> methods = {};  // as they are listed; empty: all of the kind
  std::string against = {};               // the method that ratios are taken against
  std::vector<StudySetting> settings = {};
  std::vector<PublishedFigure> figures = {};
  std::vector<PublishedOrder> orders = {};
};

/// A name that studies may list.
struct StudyMethod {
  std::string name = {};
  bool in_all = true;            // runs where a study lists no methods
  std::string former_name = {};  // older studies may call it so
};

/// All methods of a kind; what they are is known where they are.
using StudyMethods = std::function<std::vector<StudyMethod>(StudyKind)>;

inline constexpr std::string_view kStudyFormat = "tributary.study/1";

/// Reads a study and the models and clusters that it names, relative to its folder. Without
/// `methods` a name of a method is only held against the study's own list.
///
/// errors: Fault::kInput that lists everything wrong by file and key path, unknown keys and methods
///         with the nearest known one
[[nodiscard]] Study parse_study(std::string_view text, const std::string& where,
                                const StudyMethods& methods = {});
[[nodiscard]] Study read_study(const std::string& path, const StudyMethods& methods = {});

}  // namespace tributary::config
