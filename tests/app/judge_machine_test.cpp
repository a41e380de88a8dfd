#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/doctor/machine_facts.h"

namespace tributary::app {
namespace {

using ::testing::HasSubstr;
using Kind = Finding::Kind;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// The facts of a machine without faults: one device, TensorBoard, enough room for everything.
MachineFacts sound_machine() {
  MachineFacts facts;
  facts.build.has_cuda_engine = true;
  facts.cores = facts.usable_cores = 8;
  facts.memory_bytes = facts.free_memory_bytes = 16 * kGiB;
  facts.folder = "/home/ada";
  facts.folder_is_writable = true;
  facts.free_disk_bytes = 20 * kGiB;
  facts.free_shared_memory_bytes = 2 * kGiB;
  facts.open_files = facts.max_open_files = 1024;
  facts.has_nvidia_driver = true;
  facts.has_tensorboard = true;
  facts.engine = EngineFacts{};
  facts.engine->devices = {"cuda:0 NVIDIA H200"};
  return facts;
}

/// Expects one finding for a machine with one fault.
void expect_finding(const MachineFacts& facts, Kind kind, const std::string& topic,
                    const std::string& reason, const std::string& fix) {
  const std::vector<Finding> findings = judge_machine(facts);
  ASSERT_EQ(findings.size(), 1U) << topic;
  EXPECT_EQ(findings[0].kind, kind);
  EXPECT_EQ(findings[0].topic, topic);
  EXPECT_THAT(findings[0].reason, HasSubstr(reason));
  EXPECT_THAT(findings[0].fix, HasSubstr(fix));
}

TEST(JudgeMachine, FindsNothingOnASoundOne) { EXPECT_TRUE(judge_machine(sound_machine()).empty()); }

TEST(JudgeMachine, NamesALowLimitOfOpenFiles) {
  MachineFacts facts = sound_machine();
  facts.open_files = 255;
  expect_finding(facts, Kind::kProblem, "open files", "the limit is 255, a run needs 256",
                 "ulimit -n 1024");
}

TEST(JudgeMachine, AdvisesThreadsWhereOthersUseTheCores) {
  MachineFacts facts = sound_machine();
  facts.load = 4.3;
  EXPECT_TRUE(judge_machine(facts).empty());
  facts.load = 5.2;
  expect_finding(facts, Kind::kLimit, "full speed", "other programs want 5 of 8 cores",
                 "set run.threads to what is left, 3");
  facts.load = 20;
  expect_finding(facts, Kind::kLimit, "full speed", "want 20 of 8 cores", "what is left, 1");
}

TEST(JudgeMachine, CountsTheMemoryThatALimitLeaves) {
  MachineFacts facts = sound_machine();
  facts.tightest_memory = "left of ulimit -v";
  facts.usable_memory_bytes = kGiB / 2;
  expect_finding(facts, Kind::kProblem, "memory", "512 MiB are left of ulimit -v", "");
}

TEST(JudgeMachine, ReadsOmpNumThreadsAsOpenMpDoes) {
  for (const char* text : {"1", "8", " 4", "4,2", "2 "}) {
    MachineFacts facts = sound_machine();
    facts.omp_num_threads = text;
    EXPECT_TRUE(judge_machine(facts).empty()) << text;
  }
  for (const char* text : {"", "many", "0", "-2", "3x", "99999999999"}) {
    MachineFacts facts = sound_machine();
    facts.omp_num_threads = text;
    expect_finding(facts, Kind::kProblem, "threads", "is no number of threads", "1 to 8");
  }
  MachineFacts facts = sound_machine();
  facts.omp_num_threads = "9";
  expect_finding(facts, Kind::kLimit, "full speed", "\"9\" on 8 cores", "set it to 8");
}

TEST(JudgeMachine, NamesWhatThereIsTooLittleOf) {
  MachineFacts facts = sound_machine();
  facts.free_memory_bytes = kGiB - 1;
  expect_finding(facts, Kind::kProblem, "memory", "1023 MiB are free", "end other programs");
  facts = sound_machine();
  facts.free_disk_bytes = 0;
  expect_finding(facts, Kind::kProblem, "disk", "0 MiB are free in /home/ada", "run.dir");
  facts = sound_machine();
  facts.folder_is_writable = false;
  expect_finding(facts, Kind::kProblem, "disk", "no right to write in /home/ada", "run.dir");
  facts = sound_machine();
  facts.free_shared_memory_bytes = 0;
  expect_finding(facts, Kind::kLimit, "several processes that share memory", "/dev/shm",
                 "--shm-size");
  facts = sound_machine();
  facts.has_tensorboard = false;
  expect_finding(facts, Kind::kLimit, "looking at TensorBoard files", "on PATH",
                 "pip install tensorboard");
}

TEST(JudgeMachine, SaysWhyThereIsNoCudaDevice) {
  MachineFacts facts = sound_machine();
  facts.engine->devices.clear();
  facts.engine->device_state = "0 devices";
  const auto reasons = [](const MachineFacts& machine) {
    std::string all;
    for (const Finding& finding : judge_machine(machine))
      all += finding.topic + "|" + finding.reason + "|" + finding.fix + "\n";
    return all;
  };
  EXPECT_THAT(reasons(facts), HasSubstr("run.device: cuda|0 devices|"));
  EXPECT_THAT(reasons(facts), HasSubstr("bfloat16|only on a CUDA device; this CPU has no bf16"));
  facts.cpu_has_bf16 = true;
  EXPECT_THAT(reasons(facts), HasSubstr("on this CPU f32 is used all the same"));
  facts.build.has_cuda_engine = false;
  EXPECT_THAT(reasons(facts), HasSubstr("cuda|this build has no CUDA engine|make cuda"));
  facts.has_nvidia_driver = false;
  EXPECT_THAT(reasons(facts), HasSubstr("cuda|no NVIDIA driver is present, and this build has no"));
  facts.build.has_cuda_engine = true;
  EXPECT_THAT(reasons(facts), HasSubstr("no device is present: no NVIDIA driver"));
}

TEST(JudgeMachine, PutsAnEngineThatDoesNotLoadFirst) {
  MachineFacts facts = sound_machine();
  facts.has_tensorboard = false;
  facts.engine.reset();
  facts.engine_failure = "libtorch_cpu.so: cannot open";
  const std::vector<Finding> findings = judge_machine(facts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].kind, Kind::kProblem);
  EXPECT_EQ(findings[0].reason, "libtorch_cpu.so: cannot open");
}

}  // namespace
}  // namespace tributary::app
