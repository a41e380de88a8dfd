#include "ops/permute_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct PermuteRows : torch::autograd::Function<PermuteRows> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& row_at,
                          const Variable& place_of) {
    context->save_for_backward({place_of});
    return x.index_select(0, row_at);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor place_of = context->get_saved_variables()[0];
    return {gradients[0].index_select(0, place_of), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor permute_rows(const at::Tensor& x, const RowOrder& order) {
  TRIB_CHECK(order.row_at.size(0) == x.size(0) && order.place_of.size(0) == x.size(0),
             .what = "ops: row order does not fit the rows", .found = tributary::str(x.sizes()),
             .expected = str(order.row_at.size(0), " rows"));
  return PermuteRows::apply(x, order.row_at, order.place_of);
}

}  // namespace tributary::ops
