#include "mesh/launch/launch.h"

#include <charconv>
#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "core/launch_variables.h"

namespace tributary::mesh {
namespace {

/// Reads variables, and refuses one that must be a number and is none.
class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] bool has(const std::string& name) const { return lookup_(name).has_value(); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const {
    return lookup_(name).value_or(otherwise);
  }
  [[nodiscard]] int number(const std::string& name, int min) const {
    const std::string value = text(name, "");
    int number = 0;
    const char* end = value.data() + value.size();
    const auto [stopped, failure] = std::from_chars(value.data(), end, number);
    TRIB_REQUIRE(failure == std::errc{} && stopped == end && number >= min,
                 .what = "mesh: launch variable is no number", .where = name,
                 .found = escaped(value), .expected = str("a whole number from ", min));
    return number;
  }
  [[nodiscard]] int number(const std::string& name, int min, int otherwise) const {
    return has(name) ? number(name, min) : otherwise;
  }
  void require_partner(const std::string& name, const std::string& partner) const {
    TRIB_REQUIRE(has(partner), .what = "mesh: launch variable stands alone", .where = name,
                 .found = str(name, " = ", text(name, ""), " without ", partner),
                 .expected = "both, or none in a plain process",
                 .fix = str("set ", partner, ", or unset ", name));
  }

 private:
  const Lookup& lookup_;
};

/// The names of variables under a family of launchers.
struct Names {
  std::string launcher;
  std::string rank, world, local_rank, local_world;
};

const Names kTributary{"tributary", kRankVariable, kWorldVariable, kRankVariable, kWorldVariable};
const Names kTorch{"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
const Names kOpenMpi{"open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};

Launch read_ranks(const Variables& variables, const Names& names) {
  variables.require_partner(variables.has(names.rank) ? names.rank : names.world,
                            variables.has(names.rank) ? names.world : names.rank);
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = variables.number(names.rank, 0);
  launch.world = variables.number(names.world, 1);
  if (variables.has(names.local_rank) != variables.has(names.local_world))
    variables.require_partner(
        variables.has(names.local_rank) ? names.local_rank : names.local_world,
        variables.has(names.local_rank) ? names.local_world : names.local_rank);
  launch.local_rank = variables.number(names.local_rank, 0, 0);
  launch.local_world = variables.number(names.local_world, 1, 1);
  launch.node = launch.rank / launch.local_world;
  return launch;
}

void check_ranks(const Launch& launch) {
  TRIB_REQUIRE(launch.rank < launch.world, .what = "mesh: rank is outside the world",
               .where = launch.launcher, .found = str("rank ", launch.rank),
               .expected = str("0 to ", launch.world - 1, " in a world of ", launch.world));
  TRIB_REQUIRE(launch.local_rank < launch.local_world && launch.local_world <= launch.world,
               .what = "mesh: local rank is outside the machine", .where = launch.launcher,
               .found = str("local rank ", launch.local_rank, " of ", launch.local_world),
               .expected = str("a rank below the processes of the machine, which are at most the ",
                               launch.world, " of the world"));
}

/// The store is at MASTER_ADDR and MASTER_PORT under every launcher but our own.
void read_store(const Variables& variables, const std::string& fix, Launch& launch) {
  if (launch.world == 1) return;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    TRIB_REQUIRE(!variables.text(name, "").empty(), .what = "mesh: address of rank 0 is not set",
                 .where = name, .found = str(launch.launcher, ", world of ", launch.world),
                 .expected = "host and port on which rank 0 serves the store", .fix = fix);
  launch.master_address = variables.text("MASTER_ADDR", "");
  launch.master_port = variables.number("MASTER_PORT", 1);
  TRIB_REQUIRE(launch.master_port < 65536, .what = "mesh: port is out of range",
               .where = "MASTER_PORT", .found = str(launch.master_port), .expected = "1 to 65535");
}

Launch read_tributary(const Variables& variables) {
  Launch launch = read_ranks(variables, kTributary);
  launch.master_address = "127.0.0.1";
  launch.attempt = variables.text(kAttemptVariable, "0");
  if (launch.world == 1) return launch;
  launch.master_port = variables.number(kStorePortVariable, 1);
  launch.listen_descriptor = variables.number(kStoreDescriptorVariable, 0, -1);
  return launch;
}

Launch read_torch(const Variables& variables) {
  Launch launch = read_ranks(variables, kTorch);
  launch.node = variables.number("GROUP_RANK", 0, launch.node);
  launch.attempt = variables.text("TORCHELASTIC_RESTART_COUNT", "0");
  if (variables.has("TORCHELASTIC_RUN_ID")) launch.launcher = "torchrun";
  launch.store_is_served = variables.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  read_store(variables, "set MASTER_ADDR and MASTER_PORT on every rank", launch);
  return launch;
}

Launch read_open_mpi(const Variables& variables) {
  Launch launch = read_ranks(variables, kOpenMpi);
  read_store(variables, "mpirun -x MASTER_ADDR=<host of rank 0> -x MASTER_PORT=29500 ...", launch);
  return launch;
}

/// `2`, `2(x3)`, `2,1`: tasks of each node.
std::vector<int> read_tasks_per_node(const std::string& text) {
  std::vector<int> tasks;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [stopped, failure] = std::from_chars(at, end, value);
    TRIB_REQUIRE(failure == std::errc{} && value > 0 && value < (1 << 20),
                 .what = "mesh: launch variable is no list of tasks",
                 .where = "SLURM_STEP_TASKS_PER_NODE", .found = escaped(text),
                 .expected = "as in 2(x3),1");
    at = stopped;
    return value;
  };
  while (at < end) {
    const int count = number();
    int nodes = 1;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      at += 2;
      nodes = number();
      if (at < end && *at == ')') ++at;
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
    if (at < end && *at != ',') {
      at = end + 1;  // anything else between two items
    } else if (at < end) {
      ++at;
    }
  }
  TRIB_REQUIRE(at == end, .what = "mesh: launch variable is no list of tasks",
               .where = "SLURM_STEP_TASKS_PER_NODE", .found = escaped(text),
               .expected = "as in 2(x3),1");
  return tasks;
}

Launch read_slurm(const Variables& variables) {
  Launch launch;
  launch.launcher = "slurm";
  launch.rank = variables.number("SLURM_PROCID", 0);
  launch.world = variables.number("SLURM_STEP_NUM_TASKS", 1);
  launch.local_rank = variables.number("SLURM_LOCALID", 0, 0);
  launch.node = variables.number("SLURM_NODEID", 0, 0);
  const std::vector<int> tasks =
      read_tasks_per_node(variables.text("SLURM_STEP_TASKS_PER_NODE", "1"));
  TRIB_REQUIRE(static_cast<std::size_t>(launch.node) < tasks.size(),
               .what = "mesh: node is outside the list of tasks", .where = "SLURM_NODEID",
               .found = str(launch.node), .expected = str("0 to ", tasks.size() - 1));
  launch.local_world = tasks[static_cast<std::size_t>(launch.node)];
  launch.attempt = variables.text("SLURM_RESTART_COUNT", "0");
  read_store(variables,
             "in the batch script: export MASTER_ADDR=$(scontrol show hostnames "
             "\"$SLURM_JOB_NODELIST\" | head -n 1) MASTER_PORT=29500",
             launch);
  return launch;
}

}  // namespace

Launch read_launch(const Lookup& lookup) {
  const Variables variables(lookup);
  const auto names = [&](const Names& each) {
    return variables.has(each.rank) || variables.has(each.world);
  };
  Launch launch;
  if (names(kTributary)) {
    launch = read_tributary(variables);
  } else if (names(kTorch)) {
    launch = read_torch(variables);
  } else if (names(kOpenMpi)) {
    launch = read_open_mpi(variables);
  } else if (variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NUM_TASKS")) {
    // The batch script itself has SLURM_PROCID too; only a job step has both.
    launch = read_slurm(variables);
  }
  check_ranks(launch);
  return launch;
}

Launch read_launch() {
  return read_launch([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace tributary::mesh
