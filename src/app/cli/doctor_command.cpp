#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli/commands.h"
#include "app/doctor/machine_facts.h"
#include "app/terminal/show_error.h"
#include "core/error.h"
#include "core/json.h"

namespace tributary::app {
namespace {

std::string gib(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1)
       << static_cast<double>(bytes) / static_cast<double>(std::uint64_t{1} << 30) << " GiB";
  return text.str();
}

std::string describe_threads(const MachineFacts& facts) {
  const std::string asked = facts.omp_num_threads
                                ? "OMP_NUM_THREADS=" + escaped(*facts.omp_num_threads)
                                : std::string("OMP_NUM_THREADS is not set");
  return facts.engine ? str(facts.engine->threads, " for computing (run.threads); ", asked) : asked;
}

std::string describe_devices(const MachineFacts& facts) {
  std::string all = "cpu";
  if (!facts.engine) return all + " (the engine does not load)";
  for (const std::string& device : facts.engine->devices) all += "; " + device;
  return all + " (" + facts.engine->device_state + ")";
}

std::string describe_memory(const MachineFacts& facts) {
  std::string text = str(gib(facts.free_memory_bytes), " free of ", gib(facts.memory_bytes));
  if (!facts.tightest_memory.empty())
    text += str("; ", gib(facts.usable_memory_bytes), " ", facts.tightest_memory);
  return text;
}

/// The facts as pairs of topic and text, in the order in which they are printed.
std::vector<std::pair<std::string, std::string>> list_facts(const MachineFacts& facts) {
  const BuildFacts& build = facts.build;
  std::ostringstream load;
  load << std::fixed << std::setprecision(1) << facts.load;
  return {{"tributary", str(build.version, ", commit ", build.commit, ", preset ", build.preset)},
          {"compiler", build.compiler},
          {"libraries", build.libraries},
          {"libtorch", facts.engine ? facts.engine->torch_version : "not loaded"},
          {"system", facts.system},
          {"cpu", str(facts.cpu, facts.cpu_has_bf16 ? ", with bf16" : ", without bf16")},
          {"cores", str(facts.usable_cores, " usable of ", facts.cores,
                        "; load of the last minute ", load.str())},
          {"threads", describe_threads(facts)},
          {"devices", describe_devices(facts)},
          {"memory", describe_memory(facts)},
          {"disk", str(gib(facts.free_disk_bytes), " free in ", facts.folder)},
          {"shared memory", str(gib(facts.free_shared_memory_bytes), " free in /dev/shm")},
          {"open files", str("at most ", facts.open_files, " (ulimit -n; hard limit ",
                             facts.max_open_files, ")")}};
}

void print_facts(const MachineFacts& facts) {
  for (const auto& [topic, found] : list_facts(facts))
    std::cout << topic << std::string(topic.size() < 15 ? 15 - topic.size() : 1, ' ') << found
              << "\n";
  if (facts.engine && is_verbose()) std::cout << "\n" << facts.engine->parallel_info;
}

void print_findings(const std::string& title, const std::vector<Finding>& findings,
                    Finding::Kind kind) {
  bool any = false;
  for (const Finding& finding : findings) {
    if (finding.kind != kind) continue;
    if (!any) std::cout << "\n" << title << "\n";
    any = true;
    std::cout << "  " << finding.topic << ": " << finding.reason
              << (finding.fix.empty() ? "" : "; fix: " + finding.fix) << "\n";
  }
}

bool is_sick(const std::vector<Finding>& findings) {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.kind == Finding::Kind::kProblem; });
}

void print_json(const MachineFacts& facts, const std::vector<Finding>& findings) {
  Json answer{{"fit", !is_sick(findings)}, {"problems", Json::array()}, {"limits", Json::array()}};
  for (const auto& [topic, found] : list_facts(facts)) answer["facts"][topic] = found;
  if (facts.engine) answer["parallel"] = facts.engine->parallel_info;
  for (const Finding& finding : findings)
    answer[finding.kind == Finding::Kind::kProblem ? "problems" : "limits"].push_back(
        {{"topic", finding.topic}, {"reason", finding.reason}, {"fix", finding.fix}});
  std::cout << answer.dump(1) << "\n";
}

ExitCode run_doctor(bool as_json) {
  const MachineFacts facts = examine_machine();
  const std::vector<Finding> findings = judge_machine(facts);
  if (as_json) {
    print_json(facts, findings);
  } else {
    print_facts(facts);
    print_findings("problems", findings, Finding::Kind::kProblem);
    print_findings("what would not work here", findings, Finding::Kind::kLimit);
    std::cout << (is_sick(findings) ? "\nnot fit to train: see the problems above\n"
                                    : "\nfit to train\n");
  }
  return is_sick(findings) ? ExitCode::kResource : ExitCode::kDone;
}

}  // namespace

Run declare_doctor(Verb& verb) {
  const auto as_json = std::make_shared<bool>(false);
  verb.flag("--json", *as_json, "print one JSON object");
  verb.example("tributary doctor\n  tributary doctor --verbose");
  return [as_json] { return run_doctor(*as_json); };
}

}  // namespace tributary::app
