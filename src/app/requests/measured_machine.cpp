#include "app/requests/measured_machine.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/error.h"
#include "core/join.h"
#include "cost/profile_costs.h"

namespace tributary::app {
namespace {

/// Refuses a number of threads on a CPU that no step of the profile was measured with.
void check_threads(const config::Profile& profile, const std::string& profile_name,
                   std::int64_t ranks, std::int64_t given, std::int64_t threads, Caller caller) {
  if (profile.cores == 0 || profile.steps.empty()) return;
  std::set<std::int64_t> measured;
  for (const config::MeasuredStep& step : profile.steps) measured.insert(step.threads);
  if (measured.contains(threads)) return;
  TRIB_RAISE(Fault::kInput, .what = "app: steps on so many threads were not measured",
             .where = argument_name(caller, "threads"),
             .found = str(threads, " of each rank",
                          given > 0 ? ""
                                    : str(": an equal part of ", profile.cores, " cores for ",
                                          ranks, ranks == 1 ? " rank" : " ranks")),
             .expected = str(join(measured), ", as in ", profile_name),
             .fix = str("give ", argument_name(caller, "threads"), " ", *measured.begin(),
                        ", or measure: tributary profile with run.threads=", threads));
}

/// Whether the model's name ends in a space and a digest of `digits` hexadecimal digits.
bool has_digest(const std::string& model, std::size_t digits) {
  return model.size() > digits && model[model.size() - digits - 1] == ' ' &&
         model.find_first_not_of("0123456789abcdef", model.size() - digits) == std::string::npos;
}

}  // namespace

MeasuredMachine measured_machine(const config::Profile& profile, const std::string& profile_name,
                                 std::int64_t ranks, std::int64_t threads,
                                 const std::optional<config::Cluster>& cluster, Caller caller) {
  const auto costs =
      std::make_shared<const cost::ProfileCosts>(profile, ranks, threads, profile_name);
  check_threads(profile, profile_name, ranks, threads, costs->threads(), caller);
  if (!cluster) return {cost::cluster_of(profile, ranks, profile_name), costs};
  config::Cluster machine = cost::cluster_of(profile, /*ranks=*/1, profile_name);
  machine.name = str(profile.device, " with the links of ", cluster->name);
  machine.devices = cluster->devices;
  machine.levels = cluster->levels;
  machine.device.memory = cluster->device.memory;
  machine.device.reserve = cluster->device.reserve;
  return {std::move(machine), costs};
}

std::string note_on_noise(const config::Profile& profile, const std::string& profile_name) {
  constexpr double kUsable = 0.1;
  if (profile.noise <= kUsable) return {};
  return str(
      "noise ", std::llround(100 * profile.noise), " %: runs of one point differ by so much, ",
      "and above some 10 % a plan or a simulation by this profile is of little use; end what "
      "else computes on the machine, remove ",
      profile_name, ", whose points are kept, and measure again");
}

void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model) {
  std::ifstream file(std::filesystem::path(model) / "config.json", std::ios::binary);
  if (!file) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string digest = config::model_digest(text);
  if (!has_digest(profile.model, digest.size())) return;
  TRIB_REQUIRE(profile.model.ends_with(digest), .what = "app: profile is of another model",
               .where = profile_name + " model", .found = profile.model,
               .expected = str("a name and ", digest, ", of ", model, "/config.json"),
               .fix = "measure this one: tributary profile");
}

}  // namespace tributary::app
