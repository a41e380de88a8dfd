#include "mesh/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "core/error.h"

namespace tributary::mesh {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

Launch read(const Environment& environment) {
  return read_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_of(const Environment& environment) {
  try {
    (void)read(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
  return "accepted";
}

const Environment kTorchrun{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "1"},
                            {"MASTER_ADDR", "node-a"},
                            {"MASTER_PORT", "29501"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_RUN_ID", "none"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kSlurm{{"SLURM_PROCID", "5"},
                         {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                         {"MASTER_ADDR", "node-a"},
                         {"MASTER_PORT", "29500"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"MASTER_ADDR", "node-a"},           {"MASTER_PORT", "29500"}};

/// The environment with one variable set, or removed when the value is empty.
Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment.erase(name);
  if (!value.empty()) environment[name] = value;
  return environment;
}

TEST(ReadLaunch, APlainProcessIsAWorldOfOne) {
  const Launch launch = read({});
  EXPECT_EQ(launch.world, 1);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.launcher, "none");
}

TEST(ReadLaunch, TakesTheVariablesOfTorchrun) {
  const Launch launch = read(kTorchrun);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 4);
  EXPECT_EQ(launch.node, 1);
  EXPECT_EQ(launch.master_address, "node-a");
  EXPECT_EQ(launch.master_port, 29501);
  EXPECT_EQ(launch.attempt, "2");
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_TRUE(launch.store_is_served);
}

TEST(ReadLaunch, TakesTheVariablesOfAPyTorchJob) {
  const Launch launch = read({{"RANK", "1"},
                              {"WORLD_SIZE", "3"},
                              {"MASTER_ADDR", "job-master-0"},
                              {"MASTER_PORT", "23456"}});
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world, 3);
  EXPECT_EQ(launch.local_world, 1);
  EXPECT_EQ(launch.node, 1);
  EXPECT_FALSE(launch.store_is_served);
  EXPECT_EQ(launch.launcher, "environment");
}

TEST(ReadLaunch, TakesTheVariablesOfSlurm) {
  const Launch launch = read(kSlurm);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 7);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.node, 2);
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(launch.launcher, "slurm");
}

TEST(ReadLaunch, TheLastNodeOfSlurmMayHaveFewerTasks) {
  const Launch launch = read(with(with(kSlurm, "SLURM_NODEID", "3"), "SLURM_LOCALID", "0"));
  EXPECT_EQ(launch.local_world, 1);
}

TEST(ReadLaunch, ABatchScriptOfSlurmIsNoStep) {
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).world, 1);
}

TEST(ReadLaunch, TakesTheVariablesOfOpenMpi) {
  const Launch launch = read(kOpenMpi);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.node, 1);
  EXPECT_EQ(launch.launcher, "open mpi");
}

TEST(ReadLaunch, TakesOurOwnLauncherBeforeTheOneAroundIt) {
  Environment environment = kSlurm;
  environment.insert({{"TRIB_RANK", "0"},
                      {"TRIB_WORLD_SIZE", "2"},
                      {"TRIB_STORE_PORT", "4711"},
                      {"TRIB_STORE_DESCRIPTOR", "9"},
                      {"TRIB_ATTEMPT", "3"}});
  const Launch launch = read(environment);
  EXPECT_EQ(launch.world, 2);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.master_address, "127.0.0.1");
  EXPECT_EQ(launch.master_port, 4711);
  EXPECT_EQ(launch.listen_descriptor, 9);
  EXPECT_EQ(launch.attempt, "3");
  EXPECT_EQ(launch.launcher, "tributary");
}

TEST(ReadLaunch, RefusesAVariableWithoutItsPartner) {
  EXPECT_THAT(refusal_of({{"RANK", "1"}}),
              AllOf(HasSubstr("launch variable stands alone"), HasSubstr("RANK = 1"),
                    HasSubstr("set WORLD_SIZE, or unset RANK")));
  EXPECT_THAT(refusal_of({{"WORLD_SIZE", "2"}}), HasSubstr("set RANK, or unset WORLD_SIZE"));
  EXPECT_THAT(refusal_of({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("set OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal_of(with(kTorchrun, "LOCAL_WORLD_SIZE", "")),
              HasSubstr("set LOCAL_WORLD_SIZE, or unset LOCAL_RANK"));
}

TEST(ReadLaunch, RefusesWhatIsNoNumber) {
  for (const char* value : {"five", "5x", "-1", "5.0", "99999999999"})
    EXPECT_THAT(refusal_of(with(kTorchrun, "RANK", value)),
                AllOf(HasSubstr("launch variable is no number"), HasSubstr("where: RANK"),
                      HasSubstr(value), HasSubstr("a whole number from 0")));
  EXPECT_THAT(refusal_of(with(kTorchrun, "WORLD_SIZE", "0")), HasSubstr("from 1"));
  for (const char* tasks : {"x", "2(x", "2(x3)1", "2;1", "0"})
    EXPECT_THAT(refusal_of(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", tasks)),
                AllOf(HasSubstr("launch variable is no list of tasks"), HasSubstr(tasks),
                      HasSubstr("2(x3),1")));
}

TEST(ReadLaunch, RefusesRanksOutsideTheWorld) {
  EXPECT_THAT(refusal_of(with(kTorchrun, "RANK", "8")),
              AllOf(HasSubstr("rank is outside the world"), HasSubstr("torchrun"),
                    HasSubstr("rank 8"), HasSubstr("0 to 7")));
  EXPECT_THAT(
      refusal_of(with(kTorchrun, "LOCAL_RANK", "4")),
      AllOf(HasSubstr("local rank is outside the machine"), HasSubstr("local rank 4 of 4")));
  EXPECT_THAT(refusal_of(with(kSlurm, "SLURM_NODEID", "4")),
              AllOf(HasSubstr("node is outside the list of tasks"), HasSubstr("0 to 3")));
}

TEST(ReadLaunch, SaysWhatToSetWhenTheStoreHasNoAddress) {
  EXPECT_THAT(refusal_of(with(kSlurm, "MASTER_ADDR", "")),
              AllOf(HasSubstr("address of rank 0 is not set"), HasSubstr("where: MASTER_ADDR"),
                    HasSubstr("slurm, world of 7"), HasSubstr("scontrol show hostnames")));
  EXPECT_THAT(refusal_of(with(kOpenMpi, "MASTER_PORT", "")),
              AllOf(HasSubstr("where: MASTER_PORT"), HasSubstr("mpirun -x MASTER_ADDR")));
  EXPECT_THAT(refusal_of(with(kTorchrun, "MASTER_ADDR", "")), HasSubstr("on every rank"));
  EXPECT_THAT(refusal_of(with(kTorchrun, "MASTER_PORT", "70000")),
              AllOf(HasSubstr("port is out of range"), HasSubstr("70000")));
}

}  // namespace
}  // namespace tributary::mesh
