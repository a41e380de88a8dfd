#include "parallel/token_exchange.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tributary::parallel {
namespace {

using mesh::Group;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What travels, without gradients.
at::Tensor summed(const at::Tensor& x, const Group& group) {
  at::Tensor sum = x.detach().clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum).wait();
  return sum;
}

at::Tensor gathered(const at::Tensor& x, const Group& group) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] *= group.size();
  const at::Tensor whole = at::empty(shape, x.options());
  group.all_gather(x.detach().contiguous(), whole).wait();
  return whole;
}

at::Tensor own_rows(const at::Tensor& x, const Group& group) {
  const std::int64_t rows = x.size(0) / group.size();
  return x.narrow(0, group.index() * rows, rows).clone(at::MemoryFormat::Contiguous);
}

at::Tensor summed_own_rows(const at::Tensor& x, const Group& group) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] /= group.size();
  const at::Tensor part = at::empty(shape, x.options());
  group.reduce_scatter(x.detach().contiguous(), part).wait();
  return part;
}

at::Tensor same(const at::Tensor& x, const Group& /*group*/) { return x.detach().view_as(x); }

using Move = at::Tensor (*)(const at::Tensor&, const Group&);

struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(const Group& of) : group(of) {}
  const Group& group;  // of a mesh, which outlives every step
};

/// One move forward and its adjoint backward.
template <Move kForward, Move kBackward>
struct Exchange : torch::autograd::Function<Exchange<kForward, kBackward>> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const c10::intrusive_ptr<GroupHolder>& holder) {
    context->saved_data["group"] = c10::IValue::make_capsule(holder);
    return kForward(x, holder->group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder =
        c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
    return {kBackward(gradients[0], holder->group), Variable()};
  }
};

template <Move kForward, Move kBackward>
at::Tensor apply(const at::Tensor& x, const Group& group) {
  if (group.is_single()) return x;
  return Exchange<kForward, kBackward>::apply(x, c10::make_intrusive<GroupHolder>(group));
}

at::Tensor sent(const at::Tensor& x, const Group& group, const std::vector<std::int64_t>& send,
                const std::vector<std::int64_t>& receive) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = 0;
  for (const std::int64_t rows : receive) shape[0] += rows;
  const at::Tensor received = at::empty(shape, x.options());
  group.all_to_all(x.detach().contiguous(), send, received, receive).wait();
  return received;
}

struct ExchangeRows : torch::autograd::Function<ExchangeRows> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const c10::intrusive_ptr<GroupHolder>& holder,
                          const std::vector<std::int64_t>& send,
                          const std::vector<std::int64_t>& receive) {
    context->saved_data["group"] = c10::IValue::make_capsule(holder);
    context->saved_data["send"] = send;
    context->saved_data["receive"] = receive;
    return sent(x, holder->group, send, receive);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder =
        c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
    return {sent(gradients[0], holder->group, context->saved_data["receive"].toIntVector(),
                 context->saved_data["send"].toIntVector()),
            Variable(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor copy_to_ranks(const at::Tensor& x, const Group& group) {
  return apply<same, summed>(x, group);
}
at::Tensor sum_over_ranks(const at::Tensor& x, const Group& group) {
  return apply<summed, same>(x, group);
}
at::Tensor gather_rows(const at::Tensor& x, const Group& group) {
  return apply<gathered, summed_own_rows>(x, group);
}
at::Tensor gather_same_rows(const at::Tensor& x, const Group& group) {
  return apply<gathered, own_rows>(x, group);
}
at::Tensor sum_and_split_rows(const at::Tensor& x, const Group& group) {
  return apply<summed_own_rows, gathered>(x, group);
}
at::Tensor split_rows(const at::Tensor& x, const Group& group) {
  return apply<own_rows, gathered>(x, group);
}

at::Tensor all_tokens(const at::Tensor& x, const Layout& layout) {
  return layout.splits_tokens() ? gather_rows(x, layout.tp()) : copy_to_ranks(x, layout.tp());
}

at::Tensor sum_parts(const at::Tensor& x, const Layout& layout) {
  return layout.splits_tokens() ? sum_and_split_rows(x, layout.tp())
                                : sum_over_ranks(x, layout.tp());
}

at::Tensor exchange_rows(const at::Tensor& x, const Group& group,
                         std::span<const std::int64_t> send,
                         std::span<const std::int64_t> receive) {
  if (group.is_single()) return x;
  return ExchangeRows::apply(x, c10::make_intrusive<GroupHolder>(group),
                             std::vector<std::int64_t>(send.begin(), send.end()),
                             std::vector<std::int64_t>(receive.begin(), receive.end()));
}

}  // namespace tributary::parallel
