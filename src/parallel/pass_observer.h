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

/// An edge of a layer's attention core: where sequence lengths matter, and no weights.
enum class AttentionMark { kBegin, kEnd };

/// Is told of each pass of each layer of the models that share its chain, for a profiler. The
/// layers compute as they do without it.
///
/// It is told of a forward pass when that ends, and of a pass in backward when that begins: the
/// gradient of the layer's output is there.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void on_pass(const Unit& unit, LayerPass pass) = 0;
  /// In forward and in backward, within a pass of the layer that has the core.
  virtual void on_attention(AttentionMark /*mark*/) {}
};

}  // namespace tributary::parallel
