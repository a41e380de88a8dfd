#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"

namespace tributary::config {

enum class DrawKind { kConstant, kUniform, kLogUniform, kLogNormal, kExponential };

/// How a size is drawn. `first` and `second` are: the constant, and nothing; min and max, also for
/// kLogUniform; median and sigma; min, and the mean of the excess over it.
struct Draw {
  DrawKind kind = DrawKind::kConstant;
  double first = 0;
  double second = 0;

  friend bool operator==(const Draw&, const Draw&) = default;
};

/// Samples of one kind: items (images or frames; clips in a model that encodes only sound), clips
/// of sound beside them, and text.
struct SampleClass {
  double weight = 1;
  Draw items = {};               // whole ones
  Draw patches = {};             // in each item
  double patches_per_token = 1;  // an item gives the backbone patches / this
  Draw clips = {};               // whole ones
  Draw frames = {};              // in each clip: positions of sound
  double frames_per_token = 1;   // a clip gives the backbone frames / this
  Draw text = {};                // tokens

  friend bool operator==(const SampleClass&, const SampleClass&) = default;
};

/// The samples that plans are simulated with; without classes, the reference mixture.
struct StudyData {
  std::vector<SampleClass> classes = {};
  std::int64_t max_tokens = 0;  // longer samples are cut; 0: no limit

  friend bool operator==(const StudyData&, const StudyData&) = default;
};

/// What the methods place. kPipeline: an encoder and a backbone, on devices of their own or
/// together. kSharing: a graph of modules that may share devices.
enum class StudyKind { kPipeline, kSharing };

/// How the methods of a setting train on processes of this machine: `compare --run`.
struct StudyRun {
  std::string config = {};               // path of a run configuration
  std::vector<std::string> values = {};  // key.path=value, in place of those of the file
  std::int64_t steps = 8;                // of each run
  std::int64_t warm_up_steps = 2;        // the first of them, which are not measured

  friend bool operator==(const StudyRun&, const StudyRun&) = default;
};

/// One row of a study: a model on a cluster.
struct StudySetting {
  std::string name = {};
  ModuleGraph model = {};
  std::vector<std::int64_t> module_tokens = {};  // sharing: [modules] in a sample
  Cluster cluster = {};
  std::int64_t devices = 1;
  std::int64_t global_samples = 1;
  std::int64_t batches = 2;
  std::int64_t seed = 1;
  StudyData data = {};
  std::vector<std::string> frozen = {};
  std::optional<RecomputePlan> recompute = {};  // null: the best for each method
  std::int64_t tp = 0;                          // pipeline: degrees of the backbone in the methods
  std::int64_t pp = 0;                          // of LoongForge, which publishes them; 0: the best
  std::int64_t ulysses = 1;                     // pipeline: ranks that share a sequence in `veomni`
  std::int64_t ep = 1;                          // and ranks that share its experts
  std::int64_t capacity_tokens = 0;             // of a packed sequence; 0: any microbatch
  std::optional<Bytes> memory = {};  // of a device; null: that of the cluster, less its reserve
  std::int64_t share_units = 10;     // sharing: parts that a device is cut into
  std::int64_t run_samples = 0;      // samples of a whole run, for kHours
  std::optional<StudyRun> run = {};  // pipeline: null: nothing of it runs on this machine
};

enum class FigureQuantity {
  kSpeedup,          // samples per second / those of `against`
  kHours,            // that run_samples samples take
  kMfu,              // model FLOPs / peak FLOPs of the devices
  kMfuGap,           // mfu of `against` - mfu of the method
  kIdleReduction,    // 1 - idle device time per sample / that of `against`
  kBubbleReduction,  // as kIdleReduction, for the time that stages wait within their pipeline
  kOccupancy,        // busy fraction of units and time, / that of `against` if given
  kMinOccupancy,     // as kOccupancy, of the least occupied device
};

/// A number that was published, or the ends of a range.
struct PublishedFigure {
  std::string where = {};  // table or figure
  FigureQuantity quantity = FigureQuantity::kSpeedup;
  std::string setting = {};
  std::string method = {};
  std::string against = {};                // method; empty: `method` itself
  std::string against_setting = {};        // empty: `setting` itself
  std::vector<std::string> settings = {};  // in place of `setting`: the mean over these
  double min = 0;
  double max = 0;
  std::optional<std::int64_t> digits = {};  // decimals that a range was printed with; null: exact

  [[nodiscard]] bool is_of_occupancy() const {
    return quantity == FigureQuantity::kOccupancy || quantity == FigureQuantity::kMinOccupancy;
  }
  [[nodiscard]] bool is_set_against() const { return !against.empty() || !against_setting.empty(); }
};

enum class RankedBy {
  kStep,       // the shortest first
  kMfu,        // the highest first
  kSpeedup,    // over `against`, the highest first
  kOccupancy,  // the highest first
};

/// A method in a setting; `against` is the method that it is compared with, if any.
struct RankedMethod {
  std::string setting = {};
  std::string method = {};
  std::string against = {};

  friend bool operator==(const RankedMethod&, const RankedMethod&) = default;
};

/// A published order, from the best to the worst: methods in one setting, settings of one method,
/// or speedups.
struct PublishedOrder {
  std::string where = {};
  RankedBy by = RankedBy::kStep;
  std::vector<RankedMethod> ranked = {};

  /// Whether methods of one setting are ranked; otherwise settings are.
  [[nodiscard]] bool is_of_one_setting() const {
    return std::ranges::all_of(
        ranked, [&](const RankedMethod& each) { return each.setting == ranked.front().setting; });
  }
};

/// A comparison of methods: docs/formats/study.md.
struct Study {
  std::string name = {};
  std::string source = {};
  std::string notes = {};  // unpublished inputs, and how they were chosen
  StudyKind kind = StudyKind::kPipeline;
  std::vector<std::string> methods = {};  // in this order; empty: all of the kind
  std::string against = {};               // the method that ratios are taken against
  std::vector<StudySetting> settings = {};
  std::vector<PublishedFigure> figures = {};
  std::vector<PublishedOrder> orders = {};
};

/// A method that studies may list.
struct StudyMethod {
  std::string name = {};
  bool in_all = true;            // whether it runs when a study lists no methods
  std::string former_name = {};  // name of the method in older studies
};

/// Lists the methods of a kind. A function, because only the room of the methods knows them.
using StudyMethods = std::function<std::vector<StudyMethod>(StudyKind)>;

inline constexpr std::string_view kStudyFormat = "tributary.study/1";

/// Reads a study and the models and clusters that it names, relative to its folder. Without
/// `methods`, the name of a method is only checked against the study's own list.
///
/// errors: Fault::kInput that lists everything wrong by file and key path, unknown keys and methods
///         with the nearest known one
[[nodiscard]] Study parse_study(std::string_view text, const std::string& where,
                                const StudyMethods& methods = {});
[[nodiscard]] Study read_study(const std::string& path, const StudyMethods& methods = {});

}  // namespace tributary::config
