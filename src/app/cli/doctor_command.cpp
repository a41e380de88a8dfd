#include <iomanip>
#include <iostream>
#include <sstream>

#include "app/cli/commands.h"
#include "app/doctor/machine_facts.h"
#include "core/error.h"

namespace tributary::app {
namespace {

std::string gib(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1)
       << static_cast<double>(bytes) / static_cast<double>(std::uint64_t{1} << 30) << " GiB";
  return text.str();
}

void print(const std::string& topic, const std::string& found) {
  std::cout << topic << std::string(topic.size() < 15 ? 15 - topic.size() : 1, ' ') << found
            << "\n";
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

void print_facts(const MachineFacts& facts) {
  const BuildFacts& build = facts.build;
  print("tributary", str(build.version, ", commit ", build.commit, ", preset ", build.preset));
  print("compiler", build.compiler);
  print("libraries", build.libraries);
  print("libtorch", facts.engine ? facts.engine->torch_version : "not loaded");
  print("system", facts.system);
  print("cpu", str(facts.cpu, facts.cpu_has_bf16 ? ", with bf16" : ", without bf16"));
  std::ostringstream load;
  load << std::fixed << std::setprecision(1) << facts.load;
  print("cores", str(facts.usable_cores, " usable of ", facts.cores, "; load of the last minute ",
                     load.str()));
  print("threads", describe_threads(facts));
  print("devices", describe_devices(facts));
  print("memory", str(gib(facts.free_memory_bytes), " free of ", gib(facts.memory_bytes)));
  print("disk", str(gib(facts.free_disk_bytes), " free in ", facts.folder));
  print("shared memory", str(gib(facts.free_shared_memory_bytes), " free in /dev/shm"));
  print("open files",
        str("at most ", facts.open_files, " (ulimit -n; hard limit ", facts.most_open_files, ")"));
  if (facts.engine) std::cout << "\n" << facts.engine->parallel_info;
}

/// Returns whether there is one.
bool print_findings(const std::string& title, const std::vector<Finding>& findings,
                    Finding::Kind kind) {
  bool any = false;
  for (const Finding& finding : findings) {
    if (finding.kind != kind) continue;
    if (!any) std::cout << "\n" << title << "\n";
    any = true;
    std::cout << "  " << finding.topic << ": " << finding.reason
              << (finding.fix.empty() ? "" : "; fix: " + finding.fix) << "\n";
  }
  return any;
}

ExitCode run_doctor() {
  const MachineFacts facts = examine_machine();
  const std::vector<Finding> findings = judge_machine(facts);
  print_facts(facts);
  const bool sick = print_findings("problems", findings, Finding::Kind::kProblem);
  print_findings("what would not work here", findings, Finding::Kind::kLimit);
  std::cout << (sick ? "\nnot fit to train: see the problems above\n" : "\nfit to train\n");
  return sick ? ExitCode::kResource : ExitCode::kDone;
}

}  // namespace

Run declare_doctor(Verb& verb) {
  verb.example("tributary doctor");
  return run_doctor;
}

}  // namespace tributary::app
