#include "train/executor/executor.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "parallel/unit_chain.h"

namespace tributary::train {
namespace {

using parallel::Passed;
using schedule::Op;

std::vector<int> stages_of_rank(const parallel::Layout& layout) {
  if (!layout.stages) return {0};
  return layout.stages->chunks_of(static_cast<int>(layout.mesh->at().pp));
}

bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

}  // namespace

Executor::Executor(model::Model& model, const RunLanes& run, const ExecutorOptions& options)
    : model_(model),
      run_(run),
      options_(options),
      map_(run.pipeline),
      features_(options.features != nullptr
                    ? *options.features
                    : own_.emplace(model, run, options.items, options.microbatches)),
      clock_(options.device) {
  for (const int lane : run.own()) lanes_.emplace(lane, state_of(lane));
}

FeatureExchange& Executor::carried(int edge) {
  return options_.ahead != nullptr && map_.carries_ahead(edge) ? *options_.ahead : features_;
}

Executor::LaneState Executor::state_of(int lane) {
  LaneState state;
  state.lane = lane;
  state.module = map_.at(lane).module;
  const auto& module = run_.pipeline.modules[static_cast<std::size_t>(state.module)];
  state.is_backbone = lane == run_.backbone;
  state.encoder = run_.encoder_on(lane);
  state.layout =
      state.is_backbone ? &model_.layout() : &model_.encoder_layouts().at(state.encoder->encoder);
  if (module.is_colocated()) {
    const FeatureExchange& made = carried(map_.edges_from(state.module).front());
    state.groups = made.groups(map_.edges_from(state.module).front());
    state.microbatches = made.microbatches();
  }
  state.own = stages_of_rank(*state.layout);
  state.takes_features =
      !map_.edges_into(state.module).empty() || (state.is_backbone && options_.take_features);
  return state;
}

void Executor::run(std::span<const LaneAction> actions) {
  clock_.mark();
  watch_.lap();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (options_.on_action) options_.on_action();
    here_ = &lanes_.at(actions[i].lane);
    tell_of_last_backward(actions, i);
    do_action(actions[i]);
  }
  if (options_.ahead != nullptr) options_.ahead->settle();
  features_.finish();
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

void Executor::tell_of_last_backward(std::span<const LaneAction> actions, std::size_t index) {
  const auto& [lane, action] = actions[index];
  if (!here_->layout->chain || !is_backward(action.op)) return;
  const bool comes_again = std::ranges::any_of(
      actions.subspan(index + 1), [&, lane = lane, chunk = action.chunk](const LaneAction& later) {
        return later.lane == lane && later.action.chunk == chunk && is_backward(later.action.op);
      });
  if (!comes_again)
    here_->layout->chain->begin_last_backward(here_->own[static_cast<std::size_t>(action.chunk)]);
}

std::optional<int> Executor::pass_of(const schedule::Action& action) const {
  if (!here_->groups || action.op == Op::kReduceGradients) return action.microbatch;
  const schedule::PassGroups& groups = *here_->groups;
  const std::int64_t pass = groups.pass_of(action.microbatch);
  const bool is_last = pass + 1 == groups.passes ? action.microbatch + 1 == here_->microbatches
                                                 : groups.pass_of(action.microbatch + 1) > pass;
  const bool is_here =
      is_backward(action.op) ? is_last : action.microbatch == groups.first_of(pass);
  return is_here ? std::optional(static_cast<int>(pass)) : std::nullopt;
}

void Executor::do_action(const LaneAction& lane_action) {
  action_ = lane_action;
  const schedule::Action& action = action_.action;
  const std::optional<int> pass = pass_of(action);
  if (!pass) return;
  const int stage = here_->own[static_cast<std::size_t>(action.chunk)];
  const Place here{here_->module, stage, *pass};
  const Place before{here_->module, stage - 1, *pass};
  const Place after{here_->module, stage + 1, *pass};
  switch (action.op) {
    case Op::kForward:
      return forward(here);
    case Op::kBackward:
      return backward(here, /*puts_weights_off=*/false);
    case Op::kBackwardInput:
      return backward(
          here, /*puts_weights_off=*/run_.pipeline.modules[static_cast<std::size_t>(here.module)]
                    .has_weights_of(stage));
    case Op::kBackwardWeight:
      return backward_weights(here);
    case Op::kSendActivation:
      return send(Passed::kActivation, here, after);
    case Op::kReceiveActivation:
      return post_receive(Passed::kActivation, before, here);
    case Op::kSendGradient:
      return send(Passed::kGradient, here, before);
    case Op::kReceiveGradient:
      return post_receive(Passed::kGradient, after, here);
    case Op::kSendFeatures:
      return carried(action.peer).send(action.peer, *pass, give(Passed::kActivation, here));
    case Op::kReceiveFeatures:
      return carried(action.peer).expect(action.peer, *pass);
    case Op::kSendFeatureGradients:
      return features_.send_gradient(action.peer, *pass);
    case Op::kReceiveFeatureGradients:
      return features_.expect_gradient(action.peer, *pass);
    case Op::kHandActivation:
      return hand_over(Passed::kActivation, here, after);
    case Op::kHandGradient:
      return hand_over(Passed::kGradient, here, before);
    case Op::kReduceGradients:
      return reduce_gradients(stage);
    case Op::kOptimizerStep:
    case Op::kSendTurn:
    case Op::kReceiveTurn:
      return;  // after all gradients are complete; turns are the order of the list
  }
}

void Executor::load(int index) {
  if (here_->is_backbone)
    (void)microbatch(index);
  else
    (void)media(index);
}

const Microbatch& Executor::microbatch(int index) {
  const auto known = microbatches_.find(index);
  if (known != microbatches_.end()) return known->second.first;
  seen_.seconds.forward += watch_.lap();
  auto& entry = microbatches_[index];
  entry = {options_.collate(index), static_cast<int>(here_->own.size())};
  seen_.seconds.data += watch_.lap();
  return entry.first;
}

const model::EncoderInput& Executor::media(int index) {
  const auto known = media_.find({here_->lane, index});
  if (known != media_.end()) return known->second.first;
  seen_.seconds.forward += watch_.lap();
  auto& entry = media_[{here_->lane, index}];
  entry = {options_.collate_media(*here_->encoder, index), static_cast<int>(here_->own.size())};
  seen_.seconds.data += watch_.lap();
  return entry.first;
}

at::Tensor Executor::run_stage(Place place, const model::StageInput& input) {
  const int index = place.microbatch;
  at::Tensor output;
  if (here_->is_backbone) {
    output = model_.run_stage(place.stage, microbatch(index).batch, input);
    if (here_->is_last(place.stage)) output = options_.loss(index, microbatch(index), output);
    if (--microbatches_.at(index).second == 0) microbatches_.erase(index);
  } else {
    output =
        model_.run_encoder_stage(here_->encoder->encoder, place.stage, media(index), input.hidden);
    const auto used = media_.find({here_->lane, index});
    if (--used->second.second == 0) media_.erase(used);
  }
  return output;
}

at::Tensor Executor::empty_input(Place place) {
  return here_->is_backbone ? model_.empty_input(place.stage, microbatch(place.microbatch).batch)
                            : model_.empty_encoder_input(here_->encoder->encoder, place.stage,
                                                         media(place.microbatch));
}

model::StageInput Executor::take_input(Place place) {
  if (place.stage == 0) {
    model::StageInput input{.features = features_.take_leaves(place.microbatch)};
    if (options_.take_features) input.features.merge(options_.take_features(place.microbatch));
    return input;
  }
  return {
      .hidden =
          take(Passed::kActivation, place).detach().requires_grad_(sends_gradient(place.stage))};
}

bool Executor::sends_gradient(int stage) const {
  return stage > 0 && map_.has_backward(here_->module, stage - 1);
}

void Executor::forward(Place place) {
  const int stage = place.stage;
  if (options_.on_section) options_.on_section(mesh::Section::kForward);
  load(place.microbatch);
  Pass pass;
  const std::size_t reached = clock_.mark();
  if (here_->has_input(stage)) pass.input = take_input(place);
  const MarkedPass begin = begin_pass(reached, place);
  if (here_->layout->chain) here_->layout->chain->begin_pass(stage);
  pass.output = run_stage(place, pass.input);
  if (!here_->is_last(stage) || !here_->is_backbone)
    outputs_[place] = pass.output.detach().contiguous();
  if (!options_.forward_only && map_.has_backward(place.module, stage)) {
    passes_[place] = std::move(pass);
    seen_.in_flight = std::max(seen_.in_flight, ++kept_);
  }
  end_pass(begin);
  seen_.seconds.forward += watch_.lap();
}

Executor::MarkedPass Executor::begin_pass(std::size_t reached, Place place) {
  return {.action = action_,
          .reached = reached,
          .start = clock_.mark(),
          .number = place.microbatch,
          .waited = here_->layout->mesh->all_ranks().traffic().waited};
}

void Executor::end_pass(MarkedPass pass) {
  pass.end = clock_.mark();
  pass.waited = here_->layout->mesh->all_ranks().traffic().waited - pass.waited;
  marked_.push_back(pass);
}

void Executor::count(const MarkedPass& marked, const std::vector<double>& times) {
  const PassTimes& pass = seen_.passes.emplace_back(PassTimes{.action = marked.action.action,
                                                              .lane = marked.action.lane,
                                                              .reached = times[marked.reached],
                                                              .start = times[marked.start],
                                                              .end = times[marked.end],
                                                              .waited = marked.waited});
  const double busy = pass.end - pass.start;
  seen_.busy += busy;
  const auto number = static_cast<std::size_t>(marked.number);
  std::vector<double>& of_lane = seen_.of_lanes[pass.lane];
  if (of_lane.size() <= number) of_lane.resize(number + 1);
  of_lane[number] += busy - pass.waited;
}

at::Tensor Executor::take_output_gradient(Place place) {
  if (!here_->is_last(place.stage)) return take(Passed::kGradient, place);
  if (here_->is_backbone) return {};
  const int edge = map_.edges_from(place.module).front();
  const at::Tensor gradient = features_.take_gradient(edge, place.microbatch);
  // An encoder without items has computed something that nobody took.
  const at::Tensor& features = passes_.at(place).output;
  return gradient.size(0) == features.size(0) ? gradient : at::zeros_like(features);
}

void Executor::backward(Place place, bool puts_weights_off) {
  if (options_.on_section) options_.on_section(mesh::Section::kBackward);
  const std::size_t reached = clock_.mark();
  const at::Tensor gradient = take_output_gradient(place);
  const MarkedPass begin = begin_pass(reached, place);
  Pass& pass = passes_.at(place);
  if (pass.output.requires_grad()) {
    std::optional<parallel::PutOff> put_off;
    if (puts_weights_off) put_off.emplace(*here_->layout, pass.weights);
    if (here_->layout->chain) here_->layout->chain->begin_pass(place.stage);
    torch::autograd::backward({pass.output}, {gradient});
  }
  if (sends_gradient(place.stage)) input_gradients_[place] = gradient_of(pass.input.hidden);
  features_.keep_gradients(place.microbatch, pass.input.features);
  pass.input = {};
  pass.output = at::Tensor();
  if (here_->is_backbone && place.stage == 0 && options_.give_gradients)
    options_.give_gradients(place.microbatch);
  if (!puts_weights_off) {
    passes_.erase(place);
    --kept_;
  }
  end_pass(begin);
  seen_.seconds.backward += watch_.lap();
}

void Executor::backward_weights(Place place) {
  const MarkedPass begin = begin_pass(clock_.mark(), place);
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
             .where = str("stage ", place.stage, ", microbatch ", place.microbatch));
  return node.mapped();
}

void Executor::post_receive(Passed what, Place from, Place to) {
  // A gradient is shaped like what was passed on: the input of the next stage.
  const auto pass = passes_.find(to);
  const int of_stage = what == Passed::kGradient ? to.stage + 1 : to.stage;
  at::Tensor values = pass != passes_.end() && pass->second.output.defined()
                          ? at::empty_like(pass->second.output, at::MemoryFormat::Contiguous)
                          : empty_input({to.module, of_stage, to.microbatch});
  mesh::Pending message = parallel::receive(
      *here_->layout,
      {.what = what, .from = from.stage, .to = to.stage, .microbatch = to.microbatch}, values);
  incoming(what)[to] = {std::move(values), std::move(message)};
}

void Executor::send(Passed what, Place from, Place to) {
  std::deque<mesh::Pending>& under_way = sends_[{what, to.stage}];
  // Only the waits that the messages need: on a device one more would hold up the stream that
  // computes until the other stage has received.
  while (under_way.size() >= kBuffersOfALink && under_way.front().try_wait()) under_way.pop_front();
  under_way.push_back(parallel::send(
      *here_->layout,
      {.what = what, .from = from.stage, .to = to.stage, .microbatch = to.microbatch},
      give(what, from).contiguous()));
}

void Executor::hand_over(Passed what, Place from, Place to) {
  incoming(what)[to] = {give(what, from), {}};
}

at::Tensor Executor::take(Passed what, Place place) {
  auto node = incoming(what).extract(place);
  TRIB_CHECK(!node.empty(), .what = "train: nothing was received",
             .where = str("stage ", place.stage, ", microbatch ", place.microbatch));
  node.mapped().message.wait();
  return node.mapped().values;
}

void Executor::reduce_gradients(int stage) {
  // In the order of backward. A tied head may still add to the embedding.
  for (auto unit = model_.units().rbegin(); unit != model_.units().rend(); ++unit)
    if ((*unit)->layout().mesh == here_->layout->mesh && (*unit)->layout().virtual_stage == stage &&
        !(*unit)->expects_backward())
      (*unit)->start_reduction();
}

}  // namespace tributary::train
