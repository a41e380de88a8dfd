#include "train/executor/feature_exchange.h"

#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::train {
namespace {

parallel::Arriving extract(std::optional<parallel::Arriving>& arriving, int edge, int pass) {
  TRIB_CHECK(arriving.has_value(), .what = "train: nothing was received along the edge",
             .where = str("edge ", edge, ", pass ", pass));
  return *std::exchange(arriving, std::nullopt);
}

/// Microbatches share messages in their order.
void check_turn(int edge, int microbatch, int expected) {
  TRIB_CHECK(microbatch == expected, .what = "train: microbatch is out of turn on an edge",
             .where = str("edge ", edge), .found = str(microbatch), .expected = str(expected));
}

}  // namespace

at::Tensor gradient_of(const at::Tensor& leaf) {
  const at::Tensor& gradient = leaf.grad();
  return gradient.defined() ? gradient : at::zeros_like(leaf);
}

FeatureExchange::FeatureExchange(const model::Model& model, const RunLanes& run,
                                 const DealtItems* items, int microbatches)
    : model_(model), run_(run), items_(items), microbatches_(microbatches) {
  const schedule::PipelineMap map(run.pipeline);
  for (const schedule::PipelineEdge& edge : run.pipeline.edges) {
    const auto& encoder = run.pipeline.modules[static_cast<std::size_t>(edge.from)];
    trains_.push_back(map.has_backward(edge.from, encoder.virtual_stages() - 1));
  }
}

schedule::PassGroups FeatureExchange::groups(int edge) const {
  return run_.edges[static_cast<std::size_t>(edge)].groups(std::ssize(rounds(edge)), microbatches_);
}

std::int64_t FeatureExchange::width(int edge) const {
  return model_.feature_width(run_.edges[static_cast<std::size_t>(edge)].encoder);
}

FeatureExchange::Exchange& FeatureExchange::exchange(int edge, int pass) {
  if (const auto known = exchanges_.find({edge, pass}); known != exchanges_.end())
    return known->second;
  const FeatureEdge& along = run_.edges[static_cast<std::size_t>(edge)];
  const schedule::PassGroups of = groups(edge);
  const auto first = static_cast<int>(of.first_of(pass));
  // Idle microbatches, which hold nothing, are those of the last pass.
  const int end = pass + 1 == of.passes ? microbatches_ : static_cast<int>(of.first_of(pass + 1));
  const std::span<const schedule::MediaRound> all = rounds(edge);
  Exchange made{.rows = {along.ranks, rows_of_rounds(all, first, end, along, model_), pass},
                .first = first,
                .kept = std::vector<std::int64_t>(static_cast<std::size_t>(end - first))};
  for (int round = first; round < end && round < std::ssize(all); ++round)
    for (const schedule::MediaItem& item : all[static_cast<std::size_t>(round)])
      if (item.replica * along.seats.homes + item.home == along.ranks.destination.seat)
        made.kept[static_cast<std::size_t>(round - first)] +=
            model_.feature_rows(along.encoder, item.grid);
  return exchanges_.emplace(std::pair(edge, pass), std::move(made)).first->second;
}

// Ranks of a colocated encoder may receive only after their own later passes: a wait for one that
// has not come so far would never end.
void FeatureExchange::keep_sent(int edge, std::vector<mesh::Pending> messages) {
  const bool both_wait = run_.edges[static_cast<std::size_t>(edge)].is_colocated();
  std::deque<mesh::Pending>& sent = sent_[edge];
  while (!both_wait && !sent.empty() && sent.front().try_wait()) sent.pop_front();
  for (mesh::Pending& message : messages) sent.push_back(std::move(message));
}

// An encoder without items has computed something that nobody takes.
void FeatureExchange::send(int edge, int pass, const at::Tensor& rows) {
  parallel::Redistribute& along = exchange(edge, pass).rows;
  keep_sent(edge, along.send(rows.narrow(0, 0, along.source_rows()).contiguous()));
}

void FeatureExchange::expect(int edge, int microbatch) {
  Exchange& of = exchange_of(edge, microbatch);
  if (microbatch == of.first)
    of.features = of.rows.receive(width(edge), model_.units().front()->whole_options());
}

model::Features FeatureExchange::take_leaves(int microbatch) {
  model::Features leaves;
  for (int edge = 0; edge < std::ssize(run_.edges); ++edge)
    leaves[run_.edges[static_cast<std::size_t>(edge)].encoder] =
        take(edge, microbatch).detach().requires_grad_(trains_[static_cast<std::size_t>(edge)]);
  return leaves;
}

at::Tensor FeatureExchange::take(int edge, int microbatch) {
  Exchange& of = exchange_of(edge, microbatch);
  check_turn(edge, microbatch, of.first + of.taken);
  const bool has_come = of.arrived.defined() || of.on_host.count() > 0;
  if (of.taken++ == 0 && !has_come)
    of.arrived = of.rows.take(extract(of.features, edge, microbatch));
  const auto place = static_cast<std::size_t>(microbatch - of.first);
  return waits_on_host(edge) ? take_from_host(of, place) : take_part(of, place);
}

at::Tensor FeatureExchange::take_part(Exchange& of, std::size_t place) {
  const std::int64_t before = std::accumulate(
      of.kept.begin(), of.kept.begin() + static_cast<std::ptrdiff_t>(place), std::int64_t{0});
  const at::Tensor taken = of.arrived.narrow(0, before, of.kept[place]);
  if (place + 1 == of.kept.size()) of.arrived = at::Tensor();
  return taken;
}

at::Tensor FeatureExchange::take_from_host(Exchange& of, std::size_t place) {
  at::Tensor taken;
  if (of.arrived.defined()) {
    if (of.kept.size() == 1) return take_part(of, place);
    taken = take_part(of, place).clone();  // a part would keep them all on the device
    move_to_host(of, place + 1);
  }
  const std::size_t next = place + 1 + of.on_host.count() - of.kept.size();
  if (!taken.defined()) taken = of.on_host.take(next - 1);
  of.on_host.fetch(next);
  return taken;
}

void FeatureExchange::move_to_host(Exchange& of, std::size_t place) {
  for (; place < of.kept.size(); ++place) of.on_host.keep(take_part(of, place));
}

void FeatureExchange::keep_gradients(int microbatch, const model::Features& leaves) {
  for (int edge = 0; edge < std::ssize(run_.edges); ++edge) {
    const auto leaf = leaves.find(run_.edges[static_cast<std::size_t>(edge)].encoder);
    if (leaf != leaves.end() && trains_[static_cast<std::size_t>(edge)])
      gradients_[{edge, microbatch}] = gradient_of(leaf->second);
  }
}

void FeatureExchange::send_gradient(int edge, int microbatch) {
  const auto node = gradients_.extract({edge, microbatch});
  TRIB_CHECK(!node.empty(), .what = "train: features have no gradient to send",
             .where = str("edge ", edge, ", microbatch ", microbatch));
  const at::Tensor& gradient = node.mapped();
  Exchange& of = exchange_of(edge, microbatch);
  check_turn(edge, microbatch, of.first + of.returned++);
  if (static_cast<std::size_t>(of.returned) < of.kept.size()) {
    if (waits_on_host(edge))
      of.returning.keep(gradient);
    else
      of.to_return.push_back(gradient);
    return;
  }
  std::vector<at::Tensor> parts = std::exchange(of.to_return, {});
  for (std::size_t i = 0; waits_on_host(edge) && i + 1 < of.kept.size(); ++i)
    parts.push_back(of.returning.take(i));
  parts.push_back(gradient);
  keep_sent(edge,
            of.rows.send_gradient(parts.size() == 1 ? gradient.contiguous() : at::cat(parts)));
}

void FeatureExchange::expect_gradient(int edge, int pass) {
  Exchange& of = exchange(edge, pass);
  of.gradients = of.rows.receive_gradient(width(edge), model_.units().front()->whole_options());
}

at::Tensor FeatureExchange::take_gradient(int edge, int pass) {
  Exchange& of = exchange(edge, pass);
  return of.rows.take_gradient(extract(of.gradients, edge, pass));
}

// First what comes: those that send it wait for that.
void FeatureExchange::settle() {
  for (auto& [of_pass, of] : exchanges_) {
    const auto [edge, pass] = of_pass;
    if (!of.features) continue;
    of.arrived = of.rows.take(extract(of.features, edge, pass));
    if (waits_on_host(edge)) move_to_host(of, 0);
  }
  finish();
}

void FeatureExchange::finish() {
  for (auto& [edge, messages] : sent_)
    for (mesh::Pending& message : messages) message.wait();
  sent_.clear();
}

}  // namespace tributary::train
