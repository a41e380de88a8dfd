#include "mesh/health/root_cause.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <tuple>

#include "core/error.h"
#include "core/exit_code.h"

namespace tributary::mesh {

const Failure& choose_root_cause(std::span<const Failure> failures) {
  TRIB_CHECK(!failures.empty(), .what = "mesh: no failure to choose from");
  return *std::min_element(
      failures.begin(), failures.end(), [](const Failure& one, const Failure& other) {
        const auto order = [](const Failure& failure) {
          return std::tuple(cause_order(static_cast<int>(failure.code)), !failure.is_seen,
                            failure.at_seconds, failure.rank);
        };
        return order(one) < order(other);
      });
}

std::string in_seconds(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << seconds << " s";
  return std::move(text).str();
}

std::string describe_lost(int rank, const std::string& host, double silent_seconds,
                          const Beat& last, const std::string& why) {
  return str("resource error: mesh: rank lost: rank ", rank, " on ", host, ", last heartbeat ",
             in_seconds(silent_seconds), " ago in section ", name_of(last.section), " of step ",
             last.step, ", ", why);
}

}  // namespace tributary::mesh
