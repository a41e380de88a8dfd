#include "parallel/embedding.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/to_device.h"
#include "parallel/split.h"
#include "parallel/token_exchange.h"

namespace tributary::parallel {
namespace {

void require_known_ids(const at::Tensor& token_ids, std::int64_t vocab) {
  if (token_ids.numel() == 0) return;
  const at::Tensor ids = token_ids.contiguous();
  const std::int64_t* first = ids.const_data_ptr<std::int64_t>();
  const std::int64_t* last = first + ids.numel();
  const std::int64_t* bad =
      std::find_if(first, last, [&](std::int64_t id) { return id < 0 || id >= vocab; });
  TRIB_REQUIRE(bad == last, .what = "parallel: token id outside the vocabulary",
               .where = str("token ", bad - first), .found = str("id ", *bad),
               .expected = str("0 to ", vocab - 1),
               .fix = "use the tokenizer of this model, or set vocab_size in its config.json");
}

}  // namespace

Embedding::Embedding(Unit& unit, const std::string& name, std::int64_t vocab, std::int64_t width,
                     double deviation)
    : layout_(&unit.layout()),
      weight_(&unit.declare(name + ".weight", {vocab, width},
                            {.kind = Initializer::Kind::kNormal, .deviation = deviation},
                            split_evenly(*layout_, /*dim=*/0, vocab))) {}

at::Tensor Embedding::operator()(const at::Tensor& token_ids) const {
  require_known_ids(token_ids, weight_->shape[0]);
  const at::Tensor ids = ops::to_device(token_ids, weight_->value.device());
  if (layout_->tp().is_single()) return at::embedding(weight_->value, ids);
  const Range own = weight_->split.ranges.front();
  const at::Tensor local = ids - own.first;
  const at::Tensor is_elsewhere = local.lt(0).logical_or(local.ge(own.count));
  const at::Tensor rows = at::embedding(weight_->value, local.masked_fill(is_elsewhere, 0));
  return sum_parts(rows.masked_fill(is_elsewhere.unsqueeze(1), 0), *layout_);
}

}  // namespace tributary::parallel
