#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/file/given_file.h"
#include "core/join.h"
#include "core/nearest_name.h"
#include "simulate/simai/simai_workload.h"
#include "simulate/simai/workload_text.h"

namespace tributary::simulate {
namespace {

using config::CollectiveOp;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxRows = 10'000'000;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMaxPasses = 1 << 22;  // forwards of all chunks of all stages
constexpr std::string_view kKind = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";

/// A degree of the header. All are required.
struct Degree {
  const char* key;
  std::int64_t SimaiWorkload::*value;
};
constexpr std::array kDegrees{Degree{"model_parallel_NPU_group", &SimaiWorkload::tensor},
                              Degree{"ep", &SimaiWorkload::expert},
                              Degree{"pp", &SimaiWorkload::stages},
                              Degree{"vpp", &SimaiWorkload::chunks},
                              Degree{"ga", &SimaiWorkload::microbatches},
                              Degree{"all_gpus", &SimaiWorkload::ranks}};
constexpr const char* kMessage = "pp_comm";
constexpr std::array kRecompute{"checkpoints", "checkpoint_initiates"};

/// Reads the first line: a kind, then keys and values.
class HeaderReader {
 public:
  HeaderReader(const WorkloadText& text, SimaiWorkload& workload)
      : text_(text), workload_(workload) {}

  void read() {
    const bool is_known = !text_.fields().empty() && text_.at(0).text == kKind;
    TRIB_REQUIRE(is_known, .what = "simulate: not a workload of a transformer",
                 .where = text_.where(),
                 .found = text_.fields().empty() ? "an empty line" : escaped(text_.at(0).text),
                 .expected = str(kKind, ", then degrees"),
                 .fix = "docs/formats/simai_workload.md says which files can be read");
    for (std::size_t field = 1; field < text_.fields().size(); field += 2) read_key(field);
    for (const Degree& degree : kDegrees) require_key(degree.key, "");
    if (workload_.stages > 1) require_key(kMessage, " where pp is above 1");
    check_degrees();
    if (workload_.stages == 1) workload_.chunks = 1;
  }

 private:
  [[nodiscard]] static std::string key_of(std::string_view word) {
    if (word.ends_with(':')) word.remove_suffix(1);
    return std::string(word);
  }
  [[nodiscard]] std::size_t field_of(std::string_view key) const {
    const auto found = std::find_if(found_.begin(), found_.end(), [&](std::size_t field) {
      return key_of(text_.at(field).text) == key;
    });
    return found == found_.end() ? 0 : *found;
  }

  void read_key(std::size_t field) {
    const std::string key = key_of(text_.at(field).text);
    TRIB_REQUIRE(field_of(key) == 0, .what = "simulate: header of a workload has a key twice",
                 .where = text_.where(field), .found = escaped(key));
    TRIB_REQUIRE(field + 1 < text_.fields().size(),
                 .what = "simulate: header of a workload is cut off", .where = text_.where(field),
                 .found = str(escaped(key), " without a value"), .expected = "keys and values");
    const auto degree = std::find_if(kDegrees.begin(), kDegrees.end(),
                                     [&](const Degree& each) { return key == each.key; });
    if (degree != kDegrees.end()) {
      workload_.*(degree->value) = text_.whole(field + 1, key, 1, kMaxRanks);
    } else if (key == kMessage) {
      workload_.message = {text_.whole(field + 1, key, 0, kMaxBytes)};
    } else {
      read_recompute(field, key);
    }
    found_.push_back(field);
  }

  void read_recompute(std::size_t field, const std::string& key) const {
    const bool is_known = std::find(kRecompute.begin(), kRecompute.end(), key) != kRecompute.end();
    if (!is_known) refuse_key(field, key);
    TRIB_REQUIRE(text_.whole(field + 1, key, 0, kMaxRows) == 0,
                 .what = "simulate: layers that are computed again are not read from a workload",
                 .where = text_.where(field + 1), .found = escaped(text_.at(field + 1).text),
                 .expected = "0, as AICB writes it",
                 .fix = "add the forward that runs again to the input gradient of its row");
  }

  void refuse_key(std::size_t field, const std::string& key) const {
    std::vector<std::string> known{kMessage};
    for (const Degree& degree : kDegrees) known.emplace_back(degree.key);
    known.insert(known.end(), kRecompute.begin(), kRecompute.end());
    const std::string near = nearest_name(key, known);
    TRIB_RAISE(Fault::kInput, .what = "simulate: header of a workload has an unknown key",
               .where = text_.where(field), .found = escaped(key), .expected = join(known),
               .fix = near.empty() ? std::string() : str("did you mean ", near, "?"));
  }

  void require_key(std::string_view key, std::string_view when) const {
    TRIB_REQUIRE(field_of(key) != 0, .what = "simulate: header of a workload lacks a key",
                 .where = text_.where(), .found = str("no ", key, ":"),
                 .expected = str(key, ": and its value", when),
                 .fix = "add it, or write the file with a newer AICB");
  }

  void check_degrees() const {
    const auto at = [&](std::string_view key) { return text_.where(field_of(key) + 1); };
    const auto& [tensor, expert, stages] =
        std::tie(workload_.tensor, workload_.expert, workload_.stages);
    TRIB_REQUIRE(workload_.ranks % (tensor * stages) == 0,
                 .what = "simulate: degrees of a workload do not multiply to its ranks",
                 .where = at("all_gpus"), .found = str(workload_.ranks),
                 .expected = str("a multiple of model_parallel_NPU_group ", tensor, " x pp ",
                                 stages, " = ", tensor * stages));
    TRIB_REQUIRE(workload_.data() % expert == 0,
                 .what = "simulate: experts of a workload do not divide over its replicas",
                 .where = at("ep"), .found = str(expert),
                 .expected = str("a divisor of all_gpus / (model_parallel_NPU_group x pp) = ",
                                 workload_.data()));
    if (stages == 1) return;
    TRIB_REQUIRE(
        workload_.chunks == 1 || workload_.microbatches % stages == 0,
        .what = "simulate: microbatches of a workload do not fill its interleaved pipeline",
        .where = at("ga"), .found = str(workload_.microbatches),
        .expected = str("a multiple of pp ", stages),
        .fix = "or write vpp: 1, a pipeline that is not interleaved");
    TRIB_REQUIRE(workload_.message.count > 0,
                 .what = "simulate: pp_comm of a workload cannot be used", .where = at(kMessage),
                 .found = "0", .expected = "the bytes that go from stage to stage, above 0");
    const double passes = static_cast<double>(stages) * static_cast<double>(workload_.chunks) *
                          static_cast<double>(workload_.microbatches);
    TRIB_REQUIRE(passes <= kMaxPasses, .what = "simulate: workload has too many passes",
                 .where = at("ga"), .found = str("pp x vpp x ga = ", passes),
                 .expected = str("at most ", kMaxPasses));
  }

  const WorkloadText& text_;
  SimaiWorkload& workload_;
  std::vector<std::size_t> found_;  // fields with keys
};

struct CollectiveName {
  std::string_view name;
  CollectiveOp op;
};
constexpr std::array kCollectives{CollectiveName{"ALLREDUCE", CollectiveOp::kAllReduce},
                                  CollectiveName{"ALLGATHER", CollectiveOp::kAllGather},
                                  CollectiveName{"REDUCESCATTER", CollectiveOp::kReduceScatter},
                                  CollectiveName{"ALLTOALL", CollectiveOp::kAllToAll}};

/// Reads rows, one for each line.
class RowReader {
 public:
  explicit RowReader(const WorkloadText& text) : text_(text) {}

  [[nodiscard]] WorkloadRow read() const {
    constexpr std::size_t kFields = 12;
    TRIB_REQUIRE(text_.fields().size() == kFields,
                 .what = "simulate: row of a workload is not whole", .where = text_.where(),
                 .found = str(text_.fields().size(), " fields"),
                 .expected =
                     "12: name, dependency, three times (time, collective, bytes), "
                     "process time");
    (void)text_.whole(1, "dependency", -1, kMaxRows);
    WorkloadRow row{.name = std::string(text_.at(0).text)};
    row.forward = read_pass(2, "forward time", WorkloadGroup::kTensor);
    row.input_gradient = read_pass(5, "input gradient time", WorkloadGroup::kTensor);
    row.weight_gradient = read_pass(8, "weight gradient time", WorkloadGroup::kData);
    row.process = text_.time(11, "process time");
    return row;
  }

 private:
  [[nodiscard]] WorkloadPass read_pass(std::size_t field, std::string_view name,
                                       WorkloadGroup plain) const {
    WorkloadPass pass{.compute = text_.time(field, name)};
    pass.collective = read_collective(field + 1, plain);
    const std::int64_t bytes = text_.whole(field + 2, "bytes of a collective", 0, kMaxBytes);
    if (pass.collective) pass.collective->bytes = {bytes};
    return pass;
  }

  [[nodiscard]] std::optional<WorkloadCollective> read_collective(std::size_t field,
                                                                  WorkloadGroup plain) const {
    const std::string_view text = text_.at(field).text;
    if (text == "NONE") return std::nullopt;
    for (const CollectiveName& each : kCollectives) {
      if (!text.starts_with(each.name)) continue;
      const std::string_view suffix = text.substr(each.name.size());
      if (suffix.empty()) return WorkloadCollective{.op = each.op, .group = plain};
      if (suffix == "_EP")
        return WorkloadCollective{.op = each.op, .group = WorkloadGroup::kExpert};
      if (suffix == "_DP_EP")
        return WorkloadCollective{.op = each.op, .group = WorkloadGroup::kExpertData};
    }
    TRIB_RAISE(Fault::kInput, .what = "simulate: collective of a workload is unknown",
               .where = text_.where(field), .found = escaped(text),
               .expected =
                   "NONE, or ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL, alone or with "
                   "_EP or _DP_EP");
  }

  const WorkloadText& text_;
};

std::int64_t read_count(WorkloadText& text) {
  TRIB_REQUIRE(text.next_line() && !text.fields().empty(),
               .what = "simulate: workload does not say its rows", .where = text.where(),
               .found = "nothing", .expected = "their number, alone in line 2");
  TRIB_REQUIRE(text.fields().size() == 1, .what = "simulate: workload does not say its rows",
               .where = text.where(), .found = str(text.fields().size(), " fields"),
               .expected = "their number, alone in line 2");
  return text.whole(0, "number of rows", 1, kMaxRows);
}

/// Reads rows until the end of the file; blank lines may follow them.
void read_rows(WorkloadText& text, std::int64_t count, SimaiWorkload& workload) {
  workload.rows.reserve(static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 20)));
  const RowReader reader(text);
  double time = 0;
  while (text.next_line()) {
    if (text.fields().empty()) continue;
    const bool is_next = text.line() == line_of_row(std::ssize(workload.rows));
    TRIB_REQUIRE(is_next, .what = "simulate: blank line between rows of a workload",
                 .where = text.where(), .fix = "remove those above it");
    TRIB_REQUIRE(std::ssize(workload.rows) < count,
                 .what = "simulate: workload has another number of rows than it says",
                 .where = text.where(), .found = "one more row",
                 .expected = str(count, " rows, as line 2 says"));
    const WorkloadRow& row = workload.rows.emplace_back(reader.read());
    time += static_cast<double>(row.forward.compute.count + row.input_gradient.compute.count +
                                row.weight_gradient.compute.count);
    TRIB_REQUIRE(time <= static_cast<double>(kMaxWorkloadTime),
                 .what = "simulate: rows of a workload take too long", .where = text.where(),
                 .found = str(time, " ns up to here"),
                 .expected = str("at most ", kMaxWorkloadTime, " ns"));
  }
  TRIB_REQUIRE(std::ssize(workload.rows) == count,
               .what = "simulate: workload has another number of rows than it says",
               .where = text.where(), .found = str(workload.rows.size(), " rows to the end"),
               .expected = str(count, ", as line 2 says"), .fix = "the file may be cut off");
}

}  // namespace

SimaiWorkload parse_simai_workload(std::string_view text, const std::string& path) {
  TRIB_REQUIRE(text.size() <= kMaxFileBytes, .what = "simulate: workload is too large",
               .where = path, .expected = str("at most ", kMaxFileBytes, " bytes"));
  SimaiWorkload workload{.path = path};
  WorkloadText lines(text, path);
  (void)lines.next_line();
  HeaderReader(lines, workload).read();
  read_rows(lines, read_count(lines), workload);
  find_microbatches(workload);
  return workload;
}

SimaiWorkload read_simai_workload(const std::string& path) {
  return parse_simai_workload(
      read_given_file(path, kMaxFileBytes,
                      {.what = "simulate: workload cannot be read",
                       .expected = "a workload of SimAI, docs/formats/simai_workload.md"}),
      path);
}

}  // namespace tributary::simulate
