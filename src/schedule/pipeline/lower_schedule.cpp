#include "schedule/pipeline/lower_schedule.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "core/error.h"

namespace tributary::schedule {
namespace {

/// Lowers the list of one lane.
class LaneLowering {
 public:
  LaneLowering(const PipelineMap& map, int lane, const ActionList& passes, int receive_buffers)
      : map_(map),
        passes_(passes),
        receive_buffers_(receive_buffers),
        is_ahead_(map.is_ahead(lane)),
        lowered_(receives_ahead(map, lane)) {
    std::map<int, std::size_t> last_weight;  // by chunk
    std::size_t place = 0;
    for (const Action& pass : passes) {
      TRIB_CHECK(is_pass(pass.op) || is_turn(pass.op), .what = "schedule: list is lowered already",
                 .where = map.describe(lane), .found = to_text(pass));
      transfers_.push_back(transfers_of(map, lane, pass));
      for (const Action& receive : transfers_.back().receives)
        links_[link_of(receive)].waiting.push_back({.place = place++, .receive = receive});
      if (gives_weight_gradient(pass.op)) last_weight[pass.chunk] = transfers_.size() - 1;
    }
    for (const auto& [chunk, pass] : last_weight) reduction_after_[pass] = chunk;
  }

  [[nodiscard]] ActionList run() {
    for (auto& [name, link] : links_) take_posted(name, link);
    post_taken();
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      lowered_.push_back(passes_[i]);
      lowered_.insert(lowered_.end(), transfers_[i].sends.begin(), transfers_[i].sends.end());
      if (const auto reduction = reduction_after_.find(i); reduction != reduction_after_.end())
        lowered_.push_back({.op = Op::kReduceGradients, .chunk = reduction->second});
      for (const Action& used : transfers_[i].receives) {
        Link& link = links_[link_of(used)];
        --link.posted;
        take_posted(link_of(used), link);
      }
      post_taken();
    }
    if (!reduction_after_.empty() || is_ahead_) lowered_.push_back({.op = Op::kOptimizerStep});
    return std::move(lowered_);
  }

 private:
  using LinkName = std::pair<Op, int>;
  static LinkName link_of(const Action& receive) { return {receive.op, receive.peer}; }

  struct Waiting {
    std::size_t place = 0;  // by use
    Action receive;
  };
  struct Link {
    std::deque<Waiting> waiting;
    int posted = 0;
  };

  /// Takes the receives of a link for which a buffer is free.
  void take_posted(const LinkName& name, Link& link) {
    const auto& [op, peer] = name;
    const bool takes_all = stream_of(op) == Stream::kFeatures && map_.goes_in_one_batch(peer);
    for (; (takes_all || link.posted < receive_buffers_) && !link.waiting.empty(); ++link.posted) {
      taken_.push_back(link.waiting.front());
      link.waiting.pop_front();
    }
  }
  /// Posts the taken receives in the order of use.
  void post_taken() {
    std::ranges::sort(taken_, std::less<>(), &Waiting::place);
    for (const Waiting& each : taken_) lowered_.push_back(each.receive);
    taken_.clear();
  }

  const PipelineMap& map_;
  const ActionList& passes_;
  int receive_buffers_;
  bool is_ahead_;
  std::vector<PassTransfers> transfers_;
  std::map<LinkName, Link> links_;
  std::vector<Waiting> taken_;
  std::map<std::size_t, int> reduction_after_;  // pass -> chunk
  ActionList lowered_;
};

}  // namespace

Schedule lower_schedule(const Schedule& passes, const Buffers& buffers) {
  TRIB_CHECK(buffers.receive >= 1 && buffers.send >= 1, .what = "schedule: link without a buffer",
             .found = str(buffers.receive, " to receive, ", buffers.send, " to send"),
             .expected = "at least 1 of each");
  Schedule lowered = passes;
  const PipelineMap map(lowered.pipeline);
  TRIB_CHECK(std::ssize(passes.lists) == map.lanes(),
             .what = "schedule: not one list for each lane", .found = str(passes.lists.size()),
             .expected = str(map.lanes()));
  for (int lane = 0; lane < map.lanes(); ++lane)
    lowered.lists[lane] = LaneLowering(map, lane, passes.lists[lane], buffers.receive).run();
  return lowered;
}

}  // namespace tributary::schedule
