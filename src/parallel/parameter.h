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
  at::Tensor value;  // view of the unit's flat buffer, a leaf; defined by materialize
};

/// The parameters of one layer in one flat buffer: the smallest piece that is placed, frozen,
/// sharded and saved. On a mesh of one rank the shard is the whole.
class Unit {
 public:
  /// `module` is vision, projector or backbone; `name` is unique in the model: backbone.layers.3
  Unit(std::string module, std::string name) : module_(std::move(module)), name_(std::move(name)) {}

  /// Adds a parameter; only before materialize. The address stays valid as long as the unit lives.
  Parameter& declare(std::string name, std::vector<std::int64_t> shape, Initializer initializer);

  /// Allocates the flat values and, when trainable, the flat gradient; sets each `value` and its
  /// gradient to views of them, aligned to 64 bytes. Values are not initialised.
  void materialize(at::Device device, at::ScalarType dtype, bool trainable);

  [[nodiscard]] const std::string& module() const { return module_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool trainable() const { return trainable_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& parameters() const {
    return parameters_;
  }
  [[nodiscard]] const at::Tensor& flat_value() const { return flat_value_; }        // [elements]
  [[nodiscard]] const at::Tensor& flat_gradient() const { return flat_gradient_; }  // or undefined

 private:
  std::string module_;
  std::string name_;
  bool trainable_ = false;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  at::Tensor flat_value_;
  at::Tensor flat_gradient_;
};

}  // namespace tributary::parallel
