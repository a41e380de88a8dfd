#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tributary::parallel {

/// How a parameter starts when no weights are loaded.
struct Initializer {
  enum class Kind { kZeros, kOnes, kNormal } kind = Kind::kZeros;
  double deviation = 0;  // of kNormal
};

/// One parameter of a model. A block keeps a pointer to it; its unit owns it.
struct Parameter {
  std::string name;                 // as in released checkpoints
  std::vector<std::int64_t> shape;  // of the whole parameter
  Initializer initializer;
  at::Tensor value;         // view of the unit's flat buffer, a leaf; defined by materialize
  std::int64_t offset = 0;  // of its first element in the flat buffer

  [[nodiscard]] std::int64_t elements() const;
};

/// Parameters that lie back to back and differ in their first dimension alone, so that one product
/// serves them all: query, key and value; gate and up.
struct JoinedParameters {
  std::vector<Parameter*> parts;
  at::Tensor value;  // [sum of first dimensions, ...], a leaf over the same memory as the parts
};

/// The parameters of one layer in one flat buffer: the smallest piece that is placed, frozen,
/// sharded and saved. On a mesh of one rank the shard is the whole.
class Unit {
 public:
  /// `module` is vision, projector or backbone; `name` is unique in the model: backbone.layers.3
  Unit(std::string module, std::string name) : module_(std::move(module)), name_(std::move(name)) {}
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// Adds a parameter; only before materialize. The address stays valid as long as the unit lives.
  Parameter& declare(std::string name, std::vector<std::int64_t> shape, Initializer initializer);

  /// Adds parameters of the shapes [rows[i], tail...], back to back in the flat buffer.
  JoinedParameters& declare_joined(const std::vector<std::string>& names,
                                   const std::vector<std::int64_t>& rows,
                                   const std::vector<std::int64_t>& tail, Initializer initializer);

  /// Allocates the flat values and, when trainable, the flat gradient (zeros); sets each `value`
  /// and its gradient to views of them. Values are not initialised.
  ///
  /// Every parameter but the later ones of a joined group starts at a multiple of 64 bytes; what
  /// lies between is 0. The gradient of a joined group reaches its parts through the shared memory.
  void materialize(at::Device device, at::ScalarType dtype, bool trainable);

  [[nodiscard]] const std::string& module() const { return module_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool trainable() const { return trainable_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& parameters() const {
    return parameters_;
  }
  [[nodiscard]] const at::Tensor& flat_value() const { return flat_value_; }        // [elements]
  [[nodiscard]] const at::Tensor& flat_gradient() const { return flat_gradient_; }  // or undefined
  /// The part of the flat gradient that belongs to a parameter, in its shape; undefined when
  /// frozen.
  [[nodiscard]] at::Tensor gradient_of(const Parameter& parameter) const;

 private:
  [[nodiscard]] at::Tensor make_leaf(std::int64_t offset, at::IntArrayRef shape) const;

  std::string module_;
  std::string name_;
  bool trainable_ = false;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<JoinedParameters>> joined_;
  std::vector<std::size_t> starts_;  // parameters that begin at an aligned offset
  at::Tensor flat_value_;
  at::Tensor flat_gradient_;
};

}  // namespace tributary::parallel
