#include "simulate/program/step_bound.h"

#include <algorithm>
#include <span>

#include "simulate/program/step_chains.h"

namespace tributary::simulate {
namespace {

using schedule::Lane;

class Bounds {
 public:
  Bounds(const StepProgram& program, const StepLoad& load, const Network& network,
         const LanesAhead& ahead)
      : program_(program),
        load_(load),
        network_(network),
        in_pace_(ahead.in_pace),
        chains_(program, load, network, ahead.lanes) {}

  [[nodiscard]] Nanoseconds max_work() const {
    Nanoseconds max;
    for (int lane = 0; lane < program_.lanes(); ++lane)
      if (in_pace_ || !chains_.is_ahead(lane)) max = std::max(max, work_of(lane));
    return max;
  }

  [[nodiscard]] Nanoseconds longest_path() const {
    Nanoseconds longest;
    for (const int pass : chains_.passes())
      longest =
          std::max(longest, chains_.before(pass) + load_.duration[pass] + chains_.after(pass));
    return longest;
  }

  [[nodiscard]] Nanoseconds busiest_link() const {
    if (network_.bytes_per_ns.empty()) return {};
    std::vector<LinkLoad> loads(network_.bytes_per_ns.size());
    for (int message = 0; message < std::ssize(program_.messages()); ++message)
      add_message(message, loads);
    Nanoseconds busiest;
    for (std::size_t link = 0; link < loads.size(); ++link) {
      const auto& [bytes, before, after] = loads[link];
      if (bytes <= 0) continue;
      const double time = bytes / network_.bytes_per_ns[link] * (1 - 1e-9);  // for rounding
      busiest = std::max(busiest, before + Nanoseconds{static_cast<std::int64_t>(time)} + after);
    }
    return busiest;
  }

  /// The reductions of a stage's chunks run one after the other. Each starts when all gradients of
  /// its chunk can exist at the earliest; those of colocated modules come after the backbone's, one
  /// module after the other.
  [[nodiscard]] Nanoseconds longest_stream() const {
    const int reductions = static_cast<int>(std::ssize(program_.reductions()));
    const std::vector<Nanoseconds> releases = find_releases();
    Nanoseconds longest;
    Nanoseconds shared;  // the end of those on ranks that several modules share
    for (int first = 0, end = 0; first < reductions; first = end) {
      const Lane of = lane_of(first);
      std::vector<int> stream;
      for (; end < reductions && share_stream(first, end); ++end) stream.push_back(end);
      // Running them in the order of their releases ends earliest.
      std::sort(stream.begin(), stream.end(),
                [&](int a, int b) { return releases[a] < releases[b]; });
      const bool is_colocated = program_.pipeline().modules[of.module].is_colocated();
      Nanoseconds clock = is_colocated ? shared : Nanoseconds{};
      for (const int each : stream)
        clock = std::max(clock, releases[each]) + chains_.reduction(each);
      if (is_colocated || of.module == program_.map().flow().back())
        shared = std::max(shared, clock);
      longest = std::max(longest, clock);
    }
    return reductions == 0 ? Nanoseconds{} : longest + chains_.step();
  }

 private:
  struct LinkLoad {
    double bytes = 0;
    Nanoseconds before = kUnbounded;  // min over its messages
    Nanoseconds after = kUnbounded;   // min over its messages
  };

  template <class Visit>
  void for_passes(int lane, const Visit& visit) const {
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action)
      if (program_.kind(action) == StepKind::kPass) visit(action);
  }

  /// 0 for a lane without passes. A lane ahead may work at any time, so only its passes count.
  [[nodiscard]] Nanoseconds work_of(int lane) const {
    Nanoseconds max = work_of(std::span(&lane, 1));
    for (std::vector<int>& of_rank : program_.map().lanes_on_ranks(lane)) {
      if (of_rank.empty()) continue;
      of_rank.insert(of_rank.begin(), lane);
      max = std::max(max, work_of(of_rank));
    }
    return max;
  }
  /// Of lanes on one rank.
  [[nodiscard]] Nanoseconds work_of(std::span<const int> lanes) const {
    Nanoseconds before = kUnbounded;
    Nanoseconds after = kUnbounded;
    Nanoseconds work;
    for (const int lane : lanes)
      for_passes(lane, [&](int pass) {
        before = std::min(before, chains_.before(pass));
        after = std::min(after, chains_.after(pass));
        work += load_.duration[pass];
      });
    if (chains_.is_ahead(lanes.front()) || work == Nanoseconds{}) return work;
    return before + work + after;
  }

  void add_message(int message, std::vector<LinkLoad>& loads) const {
    const Message& of = program_.messages()[message];
    const Route& route = network_.routes[of.channel];
    const Bytes bytes = load_.bytes_of(program_, message);
    if (route.links.empty() || route.bytes_per_ns <= 0 || bytes.count == 0) return;
    if (of.send < 0 || of.receive < 0 || chains_.is_ahead(program_.lane_of(of.send))) return;
    if (program_.channel_of(message).op == schedule::Op::kSendTurn) return;  // no pass gives it
    const int giver = chains_.giver_of(message);
    const int user = program_.user_of(message);
    if (giver < 0 || user < 0) return;
    for (const LinkUse& use : route.links) {
      LinkLoad& load = loads[use.link];
      load.bytes += use.weight * static_cast<double>(bytes.count);
      load.before = std::min(load.before, chains_.before(giver) + load_.duration[giver]);
      load.after = std::min(load.after, route.latency + load_.duration[user] + chains_.after(user));
    }
  }

  [[nodiscard]] Lane lane_of(int reduction) const {
    return program_.map().at(program_.lane_of(program_.reductions()[reduction].members.front()));
  }
  [[nodiscard]] bool share_stream(int one, int other) const {
    const Lane a = lane_of(one);
    const Lane b = lane_of(other);
    return a.module == b.module && a.stage == b.stage;
  }

  /// The earliest time at which the gradients of each reduction can exist on all its lanes.
  ///
  /// shape: [reductions]
  [[nodiscard]] std::vector<Nanoseconds> find_releases() const {
    std::vector<Nanoseconds> releases(program_.reductions().size());
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      std::vector<Nanoseconds> of_chunk;
      for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
           ++action) {
        if (program_.kind(action) != StepKind::kReduce) continue;
        if (of_chunk.empty()) of_chunk = releases_of(lane);
        Nanoseconds& release = releases[program_.reduction_of(action)];
        release = std::max(release, of_chunk[program_.action(action).chunk]);
      }
    }
    return releases;
  }

  /// Before the last weight gradient of a chunk, a lane has run all forwards and the backwards of
  /// the chunk and of later chunks: each microbatch comes back through these.
  ///
  /// shape: [chunks]
  [[nodiscard]] std::vector<Nanoseconds> releases_of(int lane) const {
    const int chunks = program_.pipeline().modules[program_.map().at(lane).module].chunks;
    std::vector<Nanoseconds> back(static_cast<std::size_t>(chunks));
    std::vector<Nanoseconds> weights = back;
    std::vector<Nanoseconds> releases = back;
    Nanoseconds before = kUnbounded;
    Nanoseconds forwards;
    for_passes(lane, [&](int pass) {
      const schedule::Action& of = program_.action(pass);
      before = std::min(before, chains_.before(pass));
      if (of.op == schedule::Op::kForward) {
        forwards += load_.duration[pass];
      } else {
        (of.op == schedule::Op::kBackwardWeight ? weights : back)[of.chunk] += load_.duration[pass];
      }
      if (schedule::gives_weight_gradient(of.op))
        releases[of.chunk] =
            std::max(releases[of.chunk], chains_.before(pass) + load_.duration[pass]);
    });
    Nanoseconds later;
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
      later += back[chunk];
      releases[chunk] = std::max(releases[chunk], before + forwards + later + weights[chunk]);
    }
    return releases;
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  bool in_pace_;
  StepChains chains_;
};

}  // namespace

StepBound bound_step(const StepProgram& program, const StepLoad& load, const Network& network,
                     const LanesAhead& ahead) {
  check_load(program, load, network);
  const Bounds bounds(program, load, network, ahead);
  return {.work = bounds.max_work(),
          .path = bounds.longest_path(),
          .link = bounds.busiest_link(),
          .stream = bounds.longest_stream()};
}

}  // namespace tributary::simulate
