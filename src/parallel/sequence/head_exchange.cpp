#include "parallel/sequence/head_exchange.h"

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"

namespace tributary::parallel {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// The pending part of an exchange, there or back.
class Travelling::State {
 public:
  explicit State(const mesh::Group& group) : group_(group) {}

  /// Returns where the rows will be.
  at::Tensor start(const at::Tensor& x) {
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(group_.size()),
                                         x.size(0) / group_.size());
    sent_ = x.detach().contiguous();
    at::Tensor received = at::empty(x.sizes(), x.options());
    pending_ = group_.all_to_all(sent_, rows, received, rows);
    return received;
  }
  void wait() {
    pending_.wait();
    sent_ = at::Tensor();
  }

 private:
  const mesh::Group& group_;  // of a mesh, which outlives every step
  at::Tensor sent_;
  mesh::Pending pending_;
};

namespace {

using State = Travelling::State;

struct Holder : torch::CustomClassHolder {
  explicit Holder(std::shared_ptr<State> of) : state(std::move(of)) {}
  std::shared_ptr<State> state;
};

State& state_of(AutogradContext* context) {
  return *c10::static_intrusive_pointer_cast<Holder>(context->saved_data["state"].toCapsule())
              ->state;
}

// The two ends of an exchange: what one starts the other awaits, and backward the reverse.
struct Start : torch::autograd::Function<Start> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const c10::intrusive_ptr<Holder>& holder) {
    context->saved_data["state"] = c10::IValue::make_capsule(holder);
    return holder->state->start(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    state_of(context).wait();
    return {gradients[0], Variable()};
  }
};

struct Arrive : torch::autograd::Function<Arrive> {
  static Variable forward(AutogradContext* context, const Variable& rows,
                          const c10::intrusive_ptr<Holder>& holder) {
    context->saved_data["state"] = c10::IValue::make_capsule(holder);
    holder->state->wait();
    return rows.detach().view_as(rows);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {state_of(context).start(gradients[0]), Variable()};
  }
};

}  // namespace

at::Tensor Travelling::arrive() const {
  if (!state_) return rows_;
  return Arrive::apply(rows_, c10::make_intrusive<Holder>(state_));
}

Travelling start_exchange(const at::Tensor& x, const mesh::Group& group) {
  if (group.is_single()) return {x, nullptr};
  TRIB_CHECK(x.size(0) % group.size() == 0, .what = "parallel: rows do not divide over the ranks",
             .where = group.name(), .found = tributary::str(x.sizes()));
  auto state = std::make_shared<State>(group);
  at::Tensor rows = Start::apply(x, c10::make_intrusive<Holder>(state));
  return {std::move(rows), std::move(state)};
}

at::Tensor heads_by_rank(const at::Tensor& x, std::int64_t ranks) {
  const std::int64_t heads = x.size(1);
  TRIB_CHECK(heads % ranks == 0 || ranks % heads == 0,
             .what = "parallel: heads can be neither exchanged nor repeated",
             .found = str(heads, " heads, ", ranks, " ranks"));
  const at::Tensor enough = heads >= ranks
                                ? x
                                : x.unsqueeze(2)
                                      .expand({x.size(0), heads, ranks / heads, x.size(2)})
                                      .reshape({x.size(0), ranks, x.size(2)});
  return enough.unflatten(1, {ranks, -1});
}

Travelling start_to_heads(const at::Tensor& by_rank, const mesh::Group& group) {
  return start_exchange(by_rank.transpose(0, 1).flatten(0, 1), group);
}

at::Tensor to_tokens(const at::Tensor& x, const mesh::Group& group) {
  const at::Tensor by_rank = start_exchange(x, group).arrive();
  return by_rank.unflatten(0, {group.size(), -1}).transpose(0, 1).flatten(1, 2);
}

}  // namespace tributary::parallel
