#pragma once

namespace tributary::parallel {

class Unit;

/// Passes of a layer as its boundary sees them.
enum class LayerPass {
  kForward,
  kRecompute,  // forward again, inside backward
  kBackward,   // gradients of the input, and of the weights where they are not put off
  kWeights,    // weight gradients that were put off
};

/// Is told of each pass of each layer of the models that share its chain: what a profiler hooks
/// into. The layers compute as they do without it.
///
/// A forward pass tells when it ends. What runs backward tells when it begins, in the order of
/// backward: the gradient of the layer's output is there.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void on_pass(const Unit& unit, LayerPass pass) = 0;
};

}  // namespace tributary::parallel
