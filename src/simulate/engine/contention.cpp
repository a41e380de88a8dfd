#include "simulate/engine/contention.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tributary::simulate {
namespace {

constexpr double kNearlyAll = 1 - 1e-9;  // of a link; leaves room for rounding in a sum of rates

/// The channels on each link, and the rate that each of them wants.
class LinkTable {
 public:
  struct OnLink {
    int channel = 0;
    double wanted = 0;  // [bytes/ns] by a message in flight
  };

  explicit LinkTable(const Network& network) : first_(network.bytes_per_ns.size() + 1, 0) {
    const std::vector<double> alone = rates_alone(network);
    for (const Route& route : network.routes)
      for (const LinkUse& use : route.links) ++first_[use.link + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    channels_.resize(static_cast<std::size_t>(first_.back()));
    std::vector<int> next(first_.begin(), first_.end() - 1);
    for (int channel = 0; channel < std::ssize(network.routes); ++channel)
      for (const LinkUse& use : network.routes[channel].links)
        channels_[next[use.link]++] = {.channel = channel, .wanted = use.weight * alone[channel]};
  }

  [[nodiscard]] int links() const { return static_cast<int>(first_.size()) - 1; }
  [[nodiscard]] std::span<const OnLink> on(int link) const {
    return std::span(channels_).subspan(first_[link], first_[link + 1] - first_[link]);
  }

 private:
  std::vector<int> first_;  // [links + 1]
  std::vector<OnLink> channels_;
};

/// Follows the messages of one link in the order in which they begin.
class LinkWatch {
 public:
  LinkWatch(const StepProgram& program, const Network& network, const StepTimes& times)
      : program_(program), network_(network), times_(times) {}

  bool is_too_narrow(int link, std::span<const LinkTable::OnLink> channels) {
    const double capacity = network_.bytes_per_ns[link] * kNearlyAll;
    if (channels.size() <= 2) {
      const Meeting first = first_meeting(channels, capacity);
      if (first != Meeting::kOfSome) return first == Meeting::kOfTooMany;
    }
    find_passages(channels);
    under_way_.clear();
    Nanoseconds free_from;
    for (const Passage& passage : passages_) {
      if (passage.begin >= free_from) under_way_.clear();
      free_from = std::max(free_from, passage.end);
      under_way_.push_back(passage);
      if (under_way_.size() > 1 && wants_more(passage.begin, capacity)) return true;
    }
    return false;
  }

 private:
  struct Passage {
    Nanoseconds begin;
    Nanoseconds end;
    double wanted = 0;

    bool operator<(const Passage& other) const { return begin < other.begin; }
  };

  /// The messages of one channel, which begin one after the other.
  struct Walk {
    const MessageTimes* next = nullptr;
    const MessageTimes* end = nullptr;
    Nanoseconds latency;
    double wanted = 0;
  };
  enum class Meeting { kOfNone, kOfSome, kOfTooMany };

  [[nodiscard]] Walk walk(const LinkTable::OnLink& of) const {
    const Channel& channel = program_.channels()[of.channel];
    const MessageTimes* first = times_.messages.data() + channel.first_message;
    return {.next = first,
            .end = first + channel.messages,
            .latency = network_.routes[of.channel].latency,
            .wanted = of.wanted};
  }

  /// Looks at the first two messages in flight together, of at most two channels. This is faster
  /// than counting, and mostly decides: there are none, or these two already want too much.
  [[nodiscard]] Meeting first_meeting(std::span<const LinkTable::OnLink> channels,
                                      double capacity) const {
    if (channels.empty()) return Meeting::kOfNone;
    Walk one = walk(channels.front());
    Walk other = channels.size() > 1 ? walk(channels.back()) : Walk{};
    Nanoseconds free_from;
    double wanted = 0;  // by the message in flight until `free_from`
    while (one.next != one.end || other.next != other.end) {
      if (one.next == one.end ||
          (other.next != other.end && other.next->begun() < one.next->begun()))
        std::swap(one, other);
      const Nanoseconds through = one.next->arrived - one.latency;
      if (one.next->begun() < free_from && through > one.next->begun())
        return wanted + one.wanted > capacity ? Meeting::kOfTooMany : Meeting::kOfSome;
      if (through > free_from) {
        free_from = through;
        wanted = one.wanted;
      }
      ++one.next;
    }
    return Meeting::kOfNone;
  }

  void find_passages(std::span<const LinkTable::OnLink> channels) {
    passages_.clear();
    for (const LinkTable::OnLink& each : channels) add_passages(each);
    if (channels.size() > 1) std::sort(passages_.begin(), passages_.end());
  }
  void add_passages(const LinkTable::OnLink& of) {
    for (Walk at = walk(of); at.next != at.end; ++at.next) {
      const Nanoseconds begin = at.next->begun();
      const Nanoseconds end = at.next->arrived - at.latency;
      if (end > begin) passages_.push_back({.begin = begin, .end = end, .wanted = of.wanted});
    }
  }
  bool wants_more(Nanoseconds now, double capacity) {
    std::erase_if(under_way_, [now](const Passage& each) { return each.end <= now; });
    double wanted = 0;
    for (const Passage& each : under_way_) wanted += each.wanted;
    return under_way_.size() > 1 && wanted > capacity;
  }

  const StepProgram& program_;
  const Network& network_;
  const StepTimes& times_;
  std::vector<Passage> passages_;
  std::vector<Passage> under_way_;
};

/// Lanes that channels or links connect, as groups named by their first lane.
class LaneGroups {
 public:
  LaneGroups(const StepProgram& program, const LinkTable& table)
      : parent_(static_cast<std::size_t>(program.lanes())) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Channel& channel : program.channels()) join(channel.from, channel.to);
    for (int link = 0; link < table.links(); ++link)
      for (const LinkTable::OnLink& each : table.on(link))
        join(program.channels()[table.on(link).front().channel].from,
             program.channels()[each.channel].from);
  }

  int first_of(int lane) {
    while (parent_[lane] != lane) lane = parent_[lane] = parent_[parent_[lane]];
    return lane;
  }

 private:
  void join(int a, int b) {
    a = first_of(a);
    b = first_of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

  std::vector<int> parent_;  // [lanes]
};

}  // namespace

std::vector<std::vector<int>> find_contention(const StepProgram& program, const Network& network,
                                              const StepTimes& times) {
  const LinkTable table(network);
  LinkWatch watch(program, network, times);
  std::optional<LaneGroups> groups;
  std::map<int, std::vector<int>> found;  // by the first lane
  for (int link = 0; link < table.links(); ++link) {
    const auto channels = table.on(link);
    const int lane = channels.empty() ? -1 : program.channels()[channels.front().channel].from;
    const bool is_known = groups && lane >= 0 && found.contains(groups->first_of(lane));
    if (is_known || !watch.is_too_narrow(link, channels)) continue;
    if (!groups) groups.emplace(program, table);
    found[groups->first_of(lane)];
  }
  std::vector<std::vector<int>> lanes;
  if (found.empty()) return lanes;
  for (int lane = 0; lane < program.lanes(); ++lane)
    if (const auto group = found.find(groups->first_of(lane)); group != found.end())
      group->second.push_back(lane);
  for (auto& [first, members] : found) lanes.push_back(std::move(members));
  return lanes;
}

bool slows_a_pass(const StepProgram& program, const Network& network, const StepTimes& times) {
  if (network.overlap_slowdown <= 1) return false;
  // Whether a pass from `from` to the end of its lane runs at the same time.
  const auto meets_pass = [&](const ActionTimes& meanwhile, int from) {
    const int last = program.first_action(program.lane_of(from) + 1);
    for (int action = from; action < last; ++action) {
      const ActionTimes& pass = times.actions[action];
      if (program.kind(action) != StepKind::kPass || pass.end == pass.start) continue;
      if (pass.start >= meanwhile.end) break;
      if (pass.end > meanwhile.start && meanwhile.end > meanwhile.start) return true;
    }
    return false;
  };
  for (const StepMeeting& reduction : program.reductions()) {
    for (const int member : reduction.members) {
      if (meets_pass(times.actions[member], member)) return true;
      for (const int beside : program.map().lanes_beside(program.lane_of(member)))
        if (meets_pass(times.actions[member], program.first_action(beside))) return true;
    }
  }
  return false;
}

bool lacks_cores(const StepProgram& program, const Network& network) {
  if (network.cores <= 0) return false;
  std::map<int, double> wanted;                       // by machine
  for (int lane = 0; lane < program.lanes(); ++lane)  // a rank runs one module at a time
    if (!program.map().is_colocated(lane)) wanted[network.machine[lane]] += network.threads[lane];
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const auto& machine) { return machine.second > network.cores; });
}

}  // namespace tributary::simulate
