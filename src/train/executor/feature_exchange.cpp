#include "train/executor/feature_exchange.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::train {
namespace {

using Arrivals = std::map<std::pair<int, int>, parallel::Arriving>;

parallel::Arriving extract(Arrivals& arrivals, int edge, int microbatch) {
  auto node = arrivals.extract({edge, microbatch});
  TRIB_CHECK(!node.empty(), .what = "train: nothing was received along the edge",
             .where = str("edge ", edge, ", microbatch ", microbatch));
  return std::move(node.mapped());
}

}  // namespace

at::Tensor FeatureExchange::Batch::part(int index) const {
  std::int64_t first = 0;
  for (int before = 0; before < index; ++before) first += rows[static_cast<std::size_t>(before)];
  return whole.narrow(0, first, rows[static_cast<std::size_t>(index)]);
}

bool FeatureExchange::Batch::keep(int index, const at::Tensor& part) {
  parts[static_cast<std::size_t>(index)] = part;
  return ++filled == parts.size();
}

at::Tensor FeatureExchange::Batch::join() { return at::cat(std::exchange(parts, {})); }

FeatureExchange::FeatureExchange(const model::Model& model, const RunLanes& run,
                                 std::span<const schedule::MediaRound> rounds, int microbatches)
    : model_(model), run_(run), rounds_(rounds), microbatches_(microbatches) {}

bool FeatureExchange::in_one_batch(int edge) const {
  return run_.edges[static_cast<std::size_t>(edge)].goes_in_one_batch();
}

std::int64_t FeatureExchange::width(int edge) const {
  return model_.feature_width(run_.edges[static_cast<std::size_t>(edge)].encoder);
}

FeatureExchange::StepEdge& FeatureExchange::step_edge(int edge) {
  if (const auto known = steps_.find(edge); known != steps_.end()) return known->second;
  const FeatureEdge& along = run_.edges[static_cast<std::size_t>(edge)];
  StepEdge step{.rows = {along.ranks, rows_of_step(rounds_, along, model_), /*tag=*/0},
                .made = Batch(std::min<std::int64_t>(along.seats.passes, microbatches_)),
                .kept = Batch(microbatches_),
                .features = {},
                .gradients = {}};
  for (std::size_t round = 0; round < rounds_.size(); ++round)
    for (const schedule::MediaItem& item : rounds_[round]) {
      const std::int64_t rows = model_.feature_rows(along.encoder, item.grid);
      if (item.seat == along.ranks.source.seat)
        step.made.rows[static_cast<std::size_t>(item.pass)] += rows;
      if (item.replica * along.seats.homes + item.home == along.ranks.destination.seat)
        step.kept.rows[round] += rows;
    }
  return steps_.emplace(edge, std::move(step)).first->second;
}

parallel::Redistribute& FeatureExchange::rows_along(int edge, int microbatch) {
  const auto known = rounds_rows_.find({edge, microbatch});
  if (known != rounds_rows_.end()) return known->second;
  const FeatureEdge& along = run_.edges[static_cast<std::size_t>(edge)];
  return rounds_rows_
      .try_emplace({edge, microbatch}, along.ranks,
                   rows_of_round(rounds_, microbatch, along, model_), microbatch)
      .first->second;
}

void FeatureExchange::keep_sent(std::vector<mesh::Pending> messages) {
  while (!sent_.empty() && sent_.front().try_wait()) sent_.pop_front();
  for (mesh::Pending& message : messages) sent_.push_back(std::move(message));
}

// An encoder without items has computed something that nobody takes.
void FeatureExchange::send(int edge, int pass, const at::Tensor& rows) {
  if (!in_one_batch(edge)) {
    parallel::Redistribute& along = rows_along(edge, pass);
    return keep_sent(along.send(rows.narrow(0, 0, along.source_rows()).contiguous()));
  }
  StepEdge& step = step_edge(edge);
  const std::int64_t own = step.made.rows[static_cast<std::size_t>(pass)];
  if (step.made.keep(pass, rows.narrow(0, 0, own))) keep_sent(step.rows.send(step.made.join()));
}

void FeatureExchange::expect(int edge, int microbatch) {
  const at::TensorOptions options = model_.units().front()->whole_options();
  if (!in_one_batch(edge)) {
    features_.emplace(std::pair(edge, microbatch),
                      rows_along(edge, microbatch).receive(width(edge), options));
    return;
  }
  StepEdge& step = step_edge(edge);
  if (!step.features) step.features = step.rows.receive(width(edge), options);
}

at::Tensor FeatureExchange::take(int edge, int microbatch) {
  if (!in_one_batch(edge))
    return rows_along(edge, microbatch).take(extract(features_, edge, microbatch));
  StepEdge& step = step_edge(edge);
  if (!step.kept.whole.defined()) step.kept.whole = step.rows.take(std::move(*step.features));
  return step.kept.part(microbatch);
}

void FeatureExchange::send_gradient(int edge, int microbatch, const at::Tensor& gradient) {
  if (!in_one_batch(edge))
    return keep_sent(rows_along(edge, microbatch).send_gradient(gradient.contiguous()));
  StepEdge& step = step_edge(edge);
  if (step.kept.keep(microbatch, gradient)) keep_sent(step.rows.send_gradient(step.kept.join()));
}

void FeatureExchange::expect_gradient(int edge, int pass) {
  const at::TensorOptions options = model_.units().front()->whole_options();
  if (!in_one_batch(edge)) {
    gradients_.emplace(std::pair(edge, pass),
                       rows_along(edge, pass).receive_gradient(width(edge), options));
    return;
  }
  StepEdge& step = step_edge(edge);
  if (!step.gradients) step.gradients = step.rows.receive_gradient(width(edge), options);
}

at::Tensor FeatureExchange::take_gradient(int edge, int pass) {
  if (!in_one_batch(edge))
    return rows_along(edge, pass).take_gradient(extract(gradients_, edge, pass));
  StepEdge& step = step_edge(edge);
  if (!step.made.whole.defined())
    step.made.whole = step.rows.take_gradient(std::move(*step.gradients));
  return step.made.part(pass);
}

void FeatureExchange::finish() {
  for (mesh::Pending& message : sent_) message.wait();
  sent_.clear();
}

}  // namespace tributary::train
