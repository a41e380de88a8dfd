#include "train/executor/executor.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "parallel/unit_chain.h"
#include "train/executor/gradients.h"
#include "train/executor/step_schedule.h"

namespace tributary::train {
namespace {

using parallel::Passed;
using schedule::Action;
using schedule::Op;

std::vector<int> stages_of_rank(const parallel::Layout& layout) {
  if (!layout.stages) return {0};
  return layout.stages->chunks_of(static_cast<int>(layout.mesh->at().pp));
}

bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

}  // namespace

Executor::Executor(model::Model& model, const ExecutorOptions& options)
    : model_(model),
      layout_(model.layout()),
      options_(options),
      own_(stages_of_rank(layout_)),
      trains_(trained_stages(model)),
      first_trained_(static_cast<int>(std::ranges::find(trains_, true) - trains_.begin())),
      clock_(options.device) {
  seen_.by_source.resize(static_cast<std::size_t>(options_.sources));
}

void Executor::run(std::span<const Action> actions) {
  clock_.mark();
  watch_.lap();
  const std::vector<std::size_t> last = last_backwards(actions);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (options_.on_action) options_.on_action();
    const auto chunk = static_cast<std::size_t>(actions[i].chunk);
    if (layout_.chain && last[chunk] == i) layout_.chain->begin_last_backward(own_[chunk]);
    do_action(actions[i]);
  }
  for (auto& [link, messages] : sends_)
    for (mesh::Pending& message : messages) message.wait();
  seen_.seconds.backward += watch_.lap();
  TRIB_CHECK(passes_.empty() && activations_.empty() && gradients_.empty(),
             .what = "train: step ended with passes that are not done",
             .found = str(passes_.size(), " passes, ", activations_.size(), " activations, ",
                          gradients_.size(), " gradients"));
}

Execution Executor::finish() {
  seen_.seconds.backward += watch_.lap();
  const std::size_t now = clock_.mark();
  const std::vector<double> times = clock_.times();
  seen_.began = times.front();
  seen_.reduced = times[now];
  for (const MarkedPass& pass : marked_) count(pass, times);
  seen_.wall = (seen_.passes.empty() ? seen_.reduced : seen_.passes.back().end) - seen_.began;
  if (clock_.runs_behind()) seen_.seconds = phases_of_stream();
  return std::move(seen_);
}

PhaseSeconds Executor::phases_of_stream() const {
  PhaseSeconds phases;
  double before = seen_.began;
  for (const PassTimes& pass : seen_.passes) {
    phases.data += pass.reached - before;
    (pass.action.op == Op::kForward ? phases.forward : phases.backward) += pass.end - pass.reached;
    before = pass.end;
  }
  phases.backward += seen_.reduced - before;
  return phases;
}

std::vector<std::size_t> Executor::last_backwards(std::span<const Action> actions) const {
  std::vector<std::size_t> last(own_.size(), actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (is_backward(actions[i].op)) last[static_cast<std::size_t>(actions[i].chunk)] = i;
  return last;
}

void Executor::do_action(const Action& action) {
  action_ = action;
  const int stage = own_[static_cast<std::size_t>(action.chunk)];
  const Place here{stage, action.microbatch};
  const Place before{stage - 1, action.microbatch};
  const Place after{stage + 1, action.microbatch};
  switch (action.op) {
    case Op::kForward:
      return forward(here);
    case Op::kBackward:
      return backward(here, /*puts_weights_off=*/false);
    case Op::kBackwardInput:
      return backward(here, /*puts_weights_off=*/trains_[static_cast<std::size_t>(stage)]);
    case Op::kBackwardWeight:
      return backward_weights(here);
    case Op::kSendActivation:
    case Op::kSendFeatures:
      return send(Passed::kActivation, here, after);
    case Op::kReceiveActivation:
    case Op::kReceiveFeatures:
      return post_receive(Passed::kActivation, before, here);
    case Op::kSendGradient:
    case Op::kSendFeatureGradients:
      return send(Passed::kGradient, here, before);
    case Op::kReceiveGradient:
    case Op::kReceiveFeatureGradients:
      return post_receive(Passed::kGradient, after, here);
    case Op::kHandActivation:
      return hand_over(Passed::kActivation, here, after);
    case Op::kHandGradient:
      return hand_over(Passed::kGradient, here, before);
    case Op::kReduceGradients:
      return reduce_gradients(stage);
    case Op::kOptimizerStep:
      return;  // after all gradients are complete
  }
}

const Microbatch& Executor::microbatch(int index) {
  const auto known = microbatches_.find(index);
  if (known != microbatches_.end()) return known->second.first;
  seen_.seconds.forward += watch_.lap();
  auto& entry = microbatches_[index];
  entry = {options_.collate(index, fields_of(layout_)), static_cast<int>(own_.size())};
  seen_.seconds.data += watch_.lap();
  return entry.first;
}

void Executor::forward(Place place) {
  const auto [stage, index] = place;
  if (options_.on_section) options_.on_section(mesh::Section::kForward);
  const Microbatch& batch = microbatch(index);
  Pass pass;
  const std::size_t reached = clock_.mark();
  if (stage > 0) pass.input = take(Passed::kActivation, place);
  const MarkedPass begin = begin_pass(reached);
  if (stage > 0) pass.input = pass.input.detach().requires_grad_(has_backward(stage - 1));
  if (layout_.chain) layout_.chain->begin_pass(stage);
  pass.output = model_.run_stage(stage, batch.batch, pass.input);
  if (stage + 1 == layout_.virtual_stages())
    pass.output = sum_loss(place, pass.output);
  else
    outputs_[place] = pass.output.detach().contiguous();
  if (--microbatches_.at(index).second == 0) microbatches_.erase(index);
  if (has_backward(stage)) {
    passes_[place] = std::move(pass);
    seen_.in_flight = std::max(seen_.in_flight, ++kept_);
  }
  end_pass(begin);
  seen_.seconds.forward += watch_.lap();
}

Executor::MarkedPass Executor::begin_pass(std::size_t reached) {
  return {.action = action_,
          .reached = reached,
          .start = clock_.mark(),
          .waited = layout_.mesh->traffic().waited};
}

void Executor::end_pass(MarkedPass pass) {
  pass.end = clock_.mark();
  pass.waited = layout_.mesh->traffic().waited - pass.waited;
  marked_.push_back(pass);
}

void Executor::count(const MarkedPass& marked, const std::vector<double>& times) {
  const PassTimes& pass = seen_.passes.emplace_back(PassTimes{.action = marked.action,
                                                              .reached = times[marked.reached],
                                                              .start = times[marked.start],
                                                              .end = times[marked.end],
                                                              .waited = marked.waited});
  const double busy = pass.end - pass.start;
  const auto place = static_cast<std::size_t>(pass.action.microbatch);
  seen_.busy += busy;
  if (seen_.microbatches.size() <= place) seen_.microbatches.resize(place + 1);
  seen_.microbatches[place] += busy - pass.waited;
}

at::Tensor Executor::sum_loss(Place place, const at::Tensor& hidden) {
  const Microbatch& batch = microbatch(place.second);
  const model::LossSum loss =
      model::sum_loss(model_, hidden, batch.targets, batch.batch.cu_seqlens, options_.most_logits);
  add_by_source(loss.rows, batch.target_sources, seen_.by_source);
  return loss.sum / static_cast<double>(options_.targets);
}

void Executor::backward(Place place, bool puts_weights_off) {
  const auto [stage, index] = place;
  if (options_.on_section) options_.on_section(mesh::Section::kBackward);
  const bool is_last = stage + 1 == layout_.virtual_stages();
  const std::size_t reached = clock_.mark();
  const at::Tensor gradient = is_last ? at::Tensor() : take(Passed::kGradient, place);
  const MarkedPass begin = begin_pass(reached);
  Pass& pass = passes_.at(place);
  if (pass.output.requires_grad()) {
    std::optional<parallel::PutOff> put_off;
    if (puts_weights_off) put_off.emplace(layout_, pass.weights);
    if (layout_.chain) layout_.chain->begin_pass(stage);
    torch::autograd::backward({pass.output}, {gradient});
  }
  if (stage > 0 && has_backward(stage - 1)) {
    const at::Tensor& of_input = pass.input.grad();
    input_gradients_[place] = of_input.defined() ? of_input : at::zeros_like(pass.input);
  }
  pass.input = pass.output = at::Tensor();
  if (!puts_weights_off) {
    passes_.erase(place);
    --kept_;
  }
  end_pass(begin);
  seen_.seconds.backward += watch_.lap();
}

void Executor::backward_weights(Place place) {
  const MarkedPass begin = begin_pass(clock_.mark());
  passes_.at(place).weights.run();
  passes_.erase(place);
  --kept_;
  end_pass(begin);
  seen_.seconds.backward += watch_.lap();
}

std::map<Executor::Place, Executor::Incoming>& Executor::incoming(Passed what) {
  return what == Passed::kActivation ? activations_ : gradients_;
}

at::Tensor Executor::give(Passed what, Place place) {
  std::map<Place, at::Tensor>& from = what == Passed::kActivation ? outputs_ : input_gradients_;
  auto node = from.extract(place);
  TRIB_CHECK(!node.empty(), .what = "train: nothing to pass on",
             .where = str("stage ", place.first, ", microbatch ", place.second));
  return node.mapped();
}

void Executor::post_receive(Passed what, Place from, Place to) {
  // A gradient is shaped like what was passed on, an activation like the microbatch says.
  const auto pass = passes_.find(to);
  at::Tensor values =
      pass != passes_.end() && pass->second.output.defined()
          ? at::empty_like(pass->second.output, at::MemoryFormat::Contiguous)
          : model_.empty_input(std::max(from.first, to.first), microbatch(to.second).batch);
  mesh::Pending message = parallel::receive(
      layout_, {.what = what, .from = from.first, .to = to.first, .microbatch = to.second}, values);
  incoming(what)[to] = {std::move(values), std::move(message)};
}

void Executor::send(Passed what, Place from, Place to) {
  std::deque<mesh::Pending>& under_way = sends_[{what, to.first}];
  // Only the waits that the messages need: on a device one more would hold up the stream that
  // computes until the other stage has received.
  while (under_way.size() >= kBuffersOfALink && under_way.front().try_wait()) under_way.pop_front();
  under_way.push_back(parallel::send(
      layout_, {.what = what, .from = from.first, .to = to.first, .microbatch = to.second},
      give(what, from).contiguous()));
}

void Executor::hand_over(Passed what, Place from, Place to) {
  incoming(what)[to] = {give(what, from), {}};
}

at::Tensor Executor::take(Passed what, Place place) {
  auto node = incoming(what).extract(place);
  TRIB_CHECK(!node.empty(), .what = "train: nothing was received",
             .where = str("stage ", place.first, ", microbatch ", place.second));
  node.mapped().message.wait();
  return node.mapped().values;
}

void Executor::reduce_gradients(int stage) {
  // In the order of backward. A tied head may still add to the embedding.
  for (auto unit = model_.units().rbegin(); unit != model_.units().rend(); ++unit)
    if ((*unit)->layout().virtual_stage == stage && !(*unit)->expects_backward())
      (*unit)->start_reduction();
}

}  // namespace tributary::train
