#include "simulate/program/step_load.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tributary::simulate {

std::vector<double> rates_alone(const Network& network) {
  std::vector<double> rates;
  rates.reserve(network.routes.size());
  for (const Route& route : network.routes) {
    double& rate = rates.emplace_back(route.bytes_per_ns);
    for (const LinkUse& use : route.links)
      rate = std::min(rate, network.bytes_per_ns[use.link] / use.weight);
  }
  return rates;
}

namespace {

void check_size(std::size_t found, std::size_t expected, const char* what) {
  TRIB_CHECK(found == expected, .what = "simulate: load does not fit the program", .where = what,
             .found = str(found), .expected = str(expected));
}

void check_times(const std::vector<Nanoseconds>& times, const char* key,
                 const StepProgram& program) {
  for (std::size_t action = 0; action < times.size(); ++action)
    TRIB_REQUIRE(times[action].count >= 0, .what = "simulate: action takes less than no time",
                 .where = str(key, " of ", describe(program, static_cast<int>(action))),
                 .found = str(times[action]), .expected = "0 ns or above");
}

void check_route(const Route& route, const Network& network, int channel) {
  TRIB_REQUIRE(std::isfinite(route.bytes_per_ns) && route.bytes_per_ns >= 0 &&
                   route.latency.count >= 0 && route.capacity >= 0,
               .what = "simulate: route cannot be used", .where = str("channel ", channel),
               .found = str(route.bytes_per_ns, " bytes/ns, ", route.latency),
               .expected = "finite numbers, 0 or above");
  for (const LinkUse& use : route.links)
    TRIB_REQUIRE(use.link >= 0 && use.link < std::ssize(network.bytes_per_ns) &&
                     std::isfinite(use.weight) && use.weight > 0 && route.bytes_per_ns > 0,
                 .what = "simulate: route cannot be used", .where = str("channel ", channel),
                 .found = str("link ", use.link, ", weight ", use.weight, ", ", route.bytes_per_ns,
                              " bytes/ns"),
                 .expected = "a link of the network, a weight and a bandwidth above 0");
}

}  // namespace

void check_load(const StepProgram& program, const StepLoad& load, const Network& network) {
  const auto actions = static_cast<std::size_t>(program.actions());
  check_size(load.duration.size(), actions, "duration");
  check_size(load.exposed.empty() ? actions : load.exposed.size(), actions, "exposed");
  check_size(load.bytes.empty() ? program.messages().size() : load.bytes.size(),
             program.messages().size(), "bytes");
  check_size(load.begins.empty() ? static_cast<std::size_t>(program.lanes()) : load.begins.size(),
             static_cast<std::size_t>(program.lanes()), "begins");
  check_size(load.vacant.empty() ? program.messages().size() : load.vacant.size(),
             program.messages().size(), "vacant");
  check_size(network.routes.size(), program.channels().size(), "routes");
  check_times(load.duration, "duration", program);
  check_times(load.exposed, "exposed", program);
  for (int channel = 0; channel < std::ssize(network.routes); ++channel)
    check_route(network.routes[channel], network, channel);
  for (std::size_t link = 0; link < network.bytes_per_ns.size(); ++link)
    TRIB_REQUIRE(std::isfinite(network.bytes_per_ns[link]) && network.bytes_per_ns[link] > 0,
                 .what = "simulate: link has no bandwidth", .where = str("link ", link),
                 .found = str(network.bytes_per_ns[link], " bytes/ns"),
                 .expected = "a finite number above 0");
  TRIB_REQUIRE(std::isfinite(network.overlap_slowdown) && network.overlap_slowdown >= 1,
               .what = "simulate: slow-down cannot be used", .where = "overlap_slowdown",
               .found = str(network.overlap_slowdown), .expected = "a finite number, 1 or above");
}

}  // namespace tributary::simulate
