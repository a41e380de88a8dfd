#include "parallel/unit.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>

#include "core/error.h"
#include "parallel/unit_chain.h"

namespace tributary::parallel {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

std::int64_t count_elements(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// A tensor without memory: its views exist and are filled whenever memory is put in.
at::Tensor make_hollow(std::int64_t elements, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({elements}, options);
  tensor.storage().set_data_ptr_noswap(at::DataPtr(nullptr, options.device()));
  return tensor;
}

void fill_hollow(const at::Tensor& tensor, UnitChain& chain) {
  tensor.storage().set_data_ptr_noswap(chain.take(tensor.nbytes(), tensor.device()));
}

void empty_hollow(const at::Tensor& tensor, UnitChain& chain) {
  chain.give_back(tensor.storage().set_data_ptr(at::DataPtr(nullptr, tensor.device())),
                  tensor.nbytes());
}

}  // namespace

Unit::Unit(std::string module, std::string name, const Layout& layout)
    : module_(std::move(module)), name_(std::move(name)), layout_(layout) {
  if (!layout_.chain || !layout_.is_here()) return;
  place_ = layout_.chain->size();
  layout_.chain->append(*this);
}

Parameter& Unit::declare(std::string name, std::vector<std::int64_t> shape, Initializer initializer,
                         Split split) {
  TRIB_CHECK(!shard_value_.defined(), .what = "parallel: parameter declared after materialize",
             .where = name_, .found = name);
  starts_.push_back(parameters_.size());
  parameters_.push_back(std::make_unique<Parameter>(Parameter{.name = std::move(name),
                                                              .shape = std::move(shape),
                                                              .split = std::move(split),
                                                              .initializer = initializer,
                                                              .value = {},
                                                              .offset = 0}));
  return *parameters_.back();
}

JoinedParameters& Unit::declare_joined(const std::vector<std::string>& names,
                                       const std::vector<std::int64_t>& rows,
                                       const std::vector<std::int64_t>& tail,
                                       Initializer initializer, const std::vector<Split>& splits) {
  TRIB_CHECK(!names.empty() && names.size() == rows.size() &&
                 (splits.empty() || splits.size() == names.size()),
             .what = "parallel: joined parameters need one row count a name",
             .found = str(names.size(), " names, ", rows.size(), " row counts"));
  JoinedParameters& joined = *joined_.emplace_back(std::make_unique<JoinedParameters>());
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::int64_t> shape{rows[i]};
    shape.insert(shape.end(), tail.begin(), tail.end());
    joined.parts.push_back(
        &declare(names[i], std::move(shape), initializer, splits.empty() ? Split{} : splits[i]));
    if (i > 0) starts_.pop_back();
  }
  return joined;
}

Unit& Unit::adapter() {
  if (adapter_ != nullptr) return *adapter_;
  own_adapter_ = std::make_unique<Unit>(module_, name_ + ".adapter", layout_);
  own_adapter_->is_adapter_ = true;
  adapter_ = own_adapter_.get();
  return *adapter_;
}

at::Tensor Unit::make_leaf(std::int64_t offset, at::IntArrayRef shape) const {
  const std::int64_t elements = count_elements(shape);
  // It has a version counter of its own: gathering again must not count as a change of the value.
  at::Tensor leaf = whole_value_.narrow(0, offset, elements).view(shape).variable_data();
  leaf.requires_grad_(trainable_);
  // Backward adds in place to a gradient that exists before, in every microbatch. It may be wider
  // than the leaf: what is added is converted.
  if (trainable_) leaf.mutable_grad() = whole_gradient_.narrow(0, offset, elements).view(shape);
  return leaf;
}

std::int64_t Unit::assign_offsets(std::int64_t step) {
  std::int64_t elements = 0;
  auto start = starts_.begin();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (start != starts_.end() && *start == i) {
      elements = round_up(elements, step);
      ++start;
    }
    parameters_[i]->offset = elements;
    elements += parameters_[i]->local_elements();
  }
  return elements;
}

void Unit::materialize(at::Device device, at::ScalarType dtype, bool trainable) {
  const std::int64_t step = std::max<std::int64_t>(
      1, kAlignmentBytes / static_cast<std::int64_t>(at::elementSize(dtype)));
  const mesh::Group& group = layout_.mesh->shard();
  const std::int64_t shard = round_up(assign_offsets(step), step * group.size()) / group.size();

  trainable_ = trainable;
  const bool reduces_in_f32 = layout_.chain && layout_.chain->options().reduce_in_f32 &&
                              at::elementSize(dtype) < at::elementSize(at::kFloat);
  values_are_direct_ = group.is_single();
  const at::ScalarType gradient_dtype = reduces_in_f32 ? at::kFloat : dtype;
  gradients_are_direct_ = !trainable || group.is_single();
  TRIB_CHECK(layout_.chain || (values_are_direct_ && gradients_are_direct_),
             .what = "parallel: a sharded unit needs a chain", .where = name_);

  const auto options = at::TensorOptions().device(device).dtype(dtype);
  if (!is_here()) return materialize_elsewhere(options, gradient_dtype);
  const bool on_host = layout_.chain && layout_.chain->options().keep_values_on_host;
  shard_value_ = at::zeros({shard}, on_host ? options.device(at::kCPU) : options);
  if (on_host && !device.is_cpu()) values_are_direct_ = false;
  whole_value_ = values_are_direct_ ? shard_value_ : make_hollow(shard * group.size(), options);
  shard_gradient_ = whole_gradient_ = at::Tensor();
  if (trainable) {
    shard_gradient_ = at::zeros({shard}, options.dtype(gradient_dtype));
    // As wide as the sum, since a unit adds to it several times in a microbatch or a step.
    whole_gradient_ = gradients_are_direct_
                          ? shard_gradient_
                          : make_hollow(shard * group.size(), options.dtype(gradient_dtype));
  }
  for (const auto& parameter : parameters_)
    parameter->value = make_leaf(parameter->offset, parameter->local_shape());
  for (const auto& joined : joined_) {
    std::vector<std::int64_t> shape = joined->parts.front()->local_shape();
    shape[0] = 0;
    for (const Parameter* part : joined->parts) shape[0] += part->local_shape()[0];
    joined->value = make_leaf(joined->parts.front()->offset, shape);
  }
}

void Unit::materialize_elsewhere(const at::TensorOptions& options, at::ScalarType gradient_dtype) {
  values_are_direct_ = gradients_are_direct_ = true;
  shard_value_ = whole_value_ = at::empty({0}, options);
  shard_gradient_ = whole_gradient_ = at::Tensor();
  if (trainable_) shard_gradient_ = at::empty({0}, options.dtype(gradient_dtype));
  for (const auto& parameter : parameters_) parameter->value = shard_value_;
  for (const auto& joined : joined_) joined->value = shard_value_;
}

std::int64_t Unit::shard_begin() const {
  return layout_.mesh->shard().index() * shard_value_.numel();
}

Range Unit::range_of(const Parameter& parameter) const {
  const std::int64_t begin = std::max(parameter.offset, shard_begin());
  const std::int64_t end =
      std::min(parameter.offset + parameter.local_elements(), shard_begin() + shard_value_.numel());
  if (end <= begin) return {};
  return {begin - shard_begin(), end - begin};
}

std::vector<PlacedBox> Unit::boxes_of(const Parameter& parameter) const {
  const Range range = range_of(parameter);
  if (range.count == 0) return {};
  const std::int64_t begin = shard_begin() + range.first - parameter.offset;
  std::vector<PlacedBox> boxes = parallel::boxes_of(parameter, begin, begin + range.count);
  for (PlacedBox& placed : boxes) placed.first += range.first;
  return boxes;
}

void Unit::set_own_part(const Parameter& parameter, const at::Tensor& local) {
  const Range own = range_of(parameter);
  if (own.count == 0) return;
  const std::int64_t first = shard_begin() + own.first - parameter.offset;
  shard_value_.narrow(0, own.first, own.count).copy_(local.flatten().narrow(0, first, own.count));
}

bool Unit::is_direct() const {
  return (adapter_ == nullptr || adapter_->is_direct()) && values_are_direct_ &&
         gradients_are_direct_ && (!trainable_ || layout_.mesh->replicate().is_single());
}

at::Tensor Unit::gradient_of(const Parameter& parameter) const {
  if (!trainable_) return {};
  TRIB_CHECK(layout_.mesh->shard().is_single(),
             .what = "parallel: a shard has no whole gradient of a parameter",
             .where = parameter.name);
  return shard_gradient_.narrow(0, parameter.offset, parameter.local_elements())
      .view(parameter.local_shape());
}

void Unit::prefetch_next() {
  if (layout_.chain && !values_are_direct_) layout_.chain->prefetch_after(place_);
}

void Unit::prefetch_previous() {
  if (layout_.chain && !values_are_direct_) layout_.chain->prefetch_before(place_);
}

void Unit::start_gather() {
  if (adapter_ != nullptr) adapter_->start_gather();
  if (values_are_direct_ || is_whole_ || gathering_.is_under_way()) return;
  fill_hollow(whole_value_, *layout_.chain);
  const at::Tensor part = shard_value_.device() == whole_value_.device()
                              ? shard_value_
                              : shard_value_.to(whole_value_.device(), /*non_blocking=*/true);
  gathering_ = layout_.mesh->shard().all_gather(part, whole_value_);
  is_whole_ = !gathering_.is_under_way();
}

void Unit::acquire() {
  if (adapter_ != nullptr) adapter_->acquire();
  ++holders_;
  if (values_are_direct_ || is_whole_) return;
  start_gather();
  gathering_.wait();
  is_whole_ = true;
}

void Unit::release() {
  if (adapter_ != nullptr) adapter_->release();
  --holders_;
  TRIB_CHECK(holders_ >= 0, .what = "parallel: unit released more often than acquired",
             .where = name_);
  if (values_are_direct_ || holders_ > 0) return;
  if (layout_.chain->options().release == Release::kAfterForward) discard();
}

void Unit::discard() {
  TRIB_CHECK(holders_ == 0, .what = "parallel: unit forgotten while it is used", .where = name_);
  if (values_are_direct_) return;
  gathering_.wait();
  if (whole_value_.storage().data() != nullptr) empty_hollow(whole_value_, *layout_.chain);
  is_whole_ = false;
}

void Unit::expect_backward() {
  if (adapter_ != nullptr) adapter_->expect_backward();
  ++backwards_due_;
}

void Unit::begin_backward() {
  acquire();
  begin_gradient();
}

void Unit::begin_gradient() {
  if (adapter_ != nullptr) adapter_->begin_gradient();
  if (gradients_are_direct_) return;
  finish_reduction();  // of an earlier microbatch: a tied head comes first and its unit last
  if (has_whole_gradient_) return;
  fill_hollow(whole_gradient_, *layout_.chain);
  const at::NoGradGuard no_grad;
  whole_gradient_.detach().zero_();
  has_whole_gradient_ = true;
}

void Unit::end_backward() {
  release();
  end_gradient();
}

void Unit::end_gradient() {
  if (adapter_ != nullptr) adapter_->end_gradient();
  --backwards_due_;
  if (!trainable_ || backwards_due_ > 0 || !layout_.chain) return;
  const bool is_last = layout_.chain->is_in_last_backward(layout_.virtual_stage);
  if (gradients_are_direct_) {
    if (is_last) complete();
    return;
  }
  if (is_last || !layout_.chain->options().reduce_once) start_reduction();
}

void Unit::complete() {
  is_complete_ = true;
  layout_.chain->add_over_replicas();
}

void Unit::start_reduction() {
  if (!has_whole_gradient_ || reduced_.defined()) return;
  const at::NoGradGuard no_grad;
  reduced_ = at::empty_like(shard_gradient_);
  reducing_ = layout_.mesh->shard_reduce().reduce_scatter(whole_gradient_, reduced_);
  layout_.chain->add_reduction(*this);
}

void Unit::finish_reduction() {
  if (!reduced_.defined()) return;
  const at::NoGradGuard no_grad;
  reducing_.wait();
  shard_gradient_.add_(reduced_);
  reduced_ = at::Tensor();
  empty_hollow(whole_gradient_, *layout_.chain);
  has_whole_gradient_ = false;
  if (backwards_due_ == 0 && layout_.chain->is_in_last_backward(layout_.virtual_stage)) complete();
}

void Unit::clear_gradient() {
  is_complete_ = false;
  if (!trainable_) return;
  const at::NoGradGuard no_grad;
  shard_gradient_.zero_();
}

}  // namespace tributary::parallel
