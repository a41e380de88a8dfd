#include "parallel/sequence/ring_attention.h"

#include <map>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "ops/attend_block.h"
#include "ops/to_device.h"

namespace tributary::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using Call = RingPlan::Call;

/// Rows of one block of one sample.
struct Block {
  Range queries;
  Range keys;
  ops::Mask mask = ops::Mask::kNone;
};

/// The queries of this rank in one sample, and the keys of ring rank `other` that they see.
Block block_of(const TokenSplit& split, std::int64_t other, std::int64_t sample) {
  const std::int64_t own = split.ring_index();
  const TokenSplit::Pieces mine = split.pieces(own, sample);
  const TokenSplit::Pieces theirs = split.pieces(other, sample);
  const Range all_mine{mine.first, mine.front + mine.back};
  if (other == own) return {all_mine, all_mine, ops::Mask::kCausal};
  if (other < own) return {all_mine, {theirs.first, theirs.front}, ops::Mask::kNone};
  return {{mine.first + mine.front, mine.back},
          {theirs.first, theirs.front + theirs.back},
          ops::Mask::kNone};
}

at::Tensor rows_of(const std::vector<Range>& ranges, at::Device device) {
  std::vector<std::int64_t> rows;
  for (const Range& range : ranges)
    for (std::int64_t i = 0; i < range.count; ++i) rows.push_back(range.first + i);
  return ops::to_device(at::tensor(rows, at::kLong), device);
}

/// One call for all blocks of one size.
std::vector<Call> group_calls(const std::vector<Block>& blocks, at::Device device) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const Block*>> by_size;
  for (const Block& block : blocks)
    if (block.queries.count > 0 && block.keys.count > 0)
      by_size[{block.queries.count, block.keys.count}].push_back(&block);
  std::vector<Call> calls;
  for (const auto& [size, members] : by_size) {
    std::vector<Range> queries;
    std::vector<Range> keys;
    for (const Block* block : members) {
      queries.push_back(block->queries);
      keys.push_back(block->keys);
    }
    calls.push_back({.samples = static_cast<std::int64_t>(members.size()),
                     .queries = size.first,
                     .keys = size.second,
                     .mask = members.front()->mask,
                     .query_rows = rows_of(queries, device),
                     .key_rows = rows_of(keys, device)});
  }
  return calls;
}

// Converts rows [rows, heads, ...] to batches [samples, heads, tokens, ...] and back.
at::Tensor to_batch(const at::Tensor& rows, const at::Tensor& chosen, std::int64_t samples) {
  return rows.index_select(0, chosen).unflatten(0, {samples, -1}).transpose(1, 2);
}
at::Tensor to_rows(const at::Tensor& batch) { return batch.transpose(1, 2).flatten(0, 1); }

/// Rows that travel, and the joined keys and values in them.
struct KeysValues {
  KeysValues(const at::Tensor& rows, const Call& call) {
    const at::Tensor batch = to_batch(rows, call.key_rows, call.samples);
    const std::int64_t kv_heads = rows.size(1) / 2;
    keys = batch.narrow(1, 0, kv_heads);
    values = batch.narrow(1, kv_heads, kv_heads);
  }
  at::Tensor keys;
  at::Tensor values;
};

/// Passes blocks around the ring: at each step this rank has the block of owner(step).
class Walk {
 public:
  Walk(const RingPlan& plan, const mesh::Group& ring) : plan_(plan), ring_(ring) {}

  [[nodiscard]] std::int64_t steps() const { return ring_.size(); }
  [[nodiscard]] std::int64_t owner(std::int64_t step) const {
    return (ring_.index() - step + ring_.size()) % ring_.size();
  }
  /// Sends the block of `step` on and receives that of the next step.
  [[nodiscard]] std::pair<at::Tensor, mesh::Pending> pass(const at::Tensor& block,
                                                          std::int64_t step) const {
    std::vector<std::int64_t> shape = block.sizes().vec();
    shape[0] = plan_.rows(owner(step + 1));
    at::Tensor next = at::empty(shape, block.options());
    const int to = (ring_.index() + 1) % ring_.size();
    mesh::Pending pending = ring_.exchange(block, to, next, static_cast<int>(owner(1)));
    return {std::move(next), std::move(pending)};
  }

 private:
  const RingPlan& plan_;
  const mesh::Group& ring_;
};

struct RingCall : torch::CustomClassHolder {
  RingCall(std::shared_ptr<const RingPlan> of, const mesh::Group& ranks)
      : plan(std::move(of)), ring(ranks) {}
  std::shared_ptr<const RingPlan> plan;
  const mesh::Group& ring;  // of a mesh, which outlives every step
};

struct AttendRing : torch::autograd::Function<AttendRing> {
  static Variable forward(AutogradContext* context, const Variable& qkv, std::int64_t heads,
                          const c10::intrusive_ptr<RingCall>& call) {
    const Walk walk(*call->plan, call->ring);
    const at::Tensor queries = qkv.narrow(1, 0, heads);
    const auto f32 = qkv.options().dtype(at::kFloat);
    const at::Tensor out = at::zeros(queries.sizes(), f32);
    const at::Tensor log_sum = at::zeros({qkv.size(0), heads}, f32);
    at::Tensor block = qkv.narrow(1, heads, qkv.size(1) - heads).contiguous();
    for (std::int64_t step = 0; step < walk.steps(); ++step) {
      at::Tensor next;
      mesh::Pending passing;
      if (step + 1 < walk.steps()) std::tie(next, passing) = walk.pass(block, step);
      for (const Call& part : call->plan->calls(walk.owner(step)))
        add_part(part, queries, KeysValues(block, part), step == 0, out, log_sum);
      passing.wait();
      block = next;
    }
    const at::Tensor result = out.to(qkv.scalar_type());
    context->save_for_backward({qkv, result, log_sum});
    context->saved_data["heads"] = heads;
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const auto call =
        c10::static_intrusive_pointer_cast<RingCall>(context->saved_data["call"].toCapsule());
    const Walk walk(*call->plan, call->ring);
    const Given given{gradients[0].contiguous(), saved[0].narrow(1, 0, heads), saved[1], saved[2]};
    at::Tensor block = saved[0].narrow(1, heads, saved[0].size(1) - heads).contiguous();
    const auto f32 = block.options().dtype(at::kFloat);
    const at::Tensor queries = at::zeros(given.queries.sizes(), f32);
    at::Tensor arrived = at::zeros(block.sizes(), f32);  // gradient that travels with its block
    mesh::Pending bringing;
    for (std::int64_t step = 0; step < walk.steps(); ++step) {
      at::Tensor next;
      mesh::Pending passing;
      if (step + 1 < walk.steps()) std::tie(next, passing) = walk.pass(block, step);
      const at::Tensor own = at::zeros(block.sizes(), f32);
      for (const Call& part : call->plan->calls(walk.owner(step)))
        add_part_backward(part, given, KeysValues(block, part), queries, own);
      bringing.wait();
      std::tie(arrived, bringing) = walk.pass(arrived.add_(own), step);
      passing.wait();
      block = next;
    }
    bringing.wait();
    return {at::cat({queries, arrived}, 1).to(saved[0].scalar_type()), Variable(), Variable()};
  }

 private:
  struct Given {
    at::Tensor gradient;
    at::Tensor queries;
    at::Tensor out;
    at::Tensor log_sum;
  };

  static void add_part(const Call& part, const at::Tensor& queries, const KeysValues& block,
                       bool is_first, const at::Tensor& out, const at::Tensor& log_sum) {
    ops::BlockResult result =
        ops::attend_block(to_batch(queries, part.query_rows, part.samples).contiguous(), block.keys,
                          block.values, part.mask);
    if (!is_first)
      result = ops::join_blocks({to_batch(out, part.query_rows, part.samples),
                                 to_batch(log_sum, part.query_rows, part.samples)},
                                result);
    out.index_copy_(0, part.query_rows, to_rows(result.out).to(at::kFloat));
    log_sum.index_copy_(0, part.query_rows, to_rows(result.log_sum));
  }

  static void add_part_backward(const Call& part, const Given& given, const KeysValues& block,
                                const at::Tensor& queries, const at::Tensor& keys_values) {
    const auto batch = [&](const at::Tensor& rows) {
      return to_batch(rows, part.query_rows, part.samples).contiguous();
    };
    const ops::BlockGradients gradients = ops::attend_block_backward(
        batch(given.gradient), batch(given.queries), block.keys, block.values,
        {batch(given.out), batch(given.log_sum)}, part.mask);
    queries.index_add_(0, part.query_rows, to_rows(gradients.queries).to(at::kFloat));
    keys_values.index_add_(0, part.key_rows,
                           to_rows(at::cat({gradients.keys, gradients.values}, 1)).to(at::kFloat));
  }
};

}  // namespace

RingPlan::RingPlan(const TokenSplit& split, at::Device device) {
  for (std::int64_t rank = 0; rank < split.ring_ranks(); ++rank) {
    std::vector<Block> blocks;
    for (std::int64_t sample = 0; sample < split.samples(); ++sample)
      blocks.push_back(block_of(split, rank, sample));
    calls_.push_back(group_calls(blocks, device));
    rows_.push_back(split.rows(rank));
  }
}

at::Tensor attend_ring(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                       std::shared_ptr<const RingPlan> plan, const mesh::Group& ring) {
  TRIB_CHECK(qkv.dim() == 3 && qkv.size(0) == plan->rows(ring.index()) &&
                 qkv.size(1) == heads + 2 * kv_heads,
             .what = "parallel: attention inputs do not fit the ring",
             .found = tributary::str("qkv ", qkv.sizes()),
             .expected = str(plan->rows(ring.index()), " rows, ", heads, " heads, 2 * ", kv_heads,
                             " kv_heads"));
  return AttendRing::apply(qkv, heads, c10::make_intrusive<RingCall>(std::move(plan), ring));
}

}  // namespace tributary::parallel
