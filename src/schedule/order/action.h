#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// What an action does. Passes come first; lowering adds the others between them.
enum class Op : std::uint8_t {
  kForward,                  // F
  kBackwardInput,            // B: the gradient of the input only
  kBackwardWeight,           // W: the gradient of the weights only
  kBackward,                 // BW: both
  kSendActivation,           // SF: to the stage with the next virtual stage
  kReceiveActivation,        // RF: posts a buffer; the forward waits for it
  kSendGradient,             // SB: to the stage with the previous virtual stage
  kReceiveGradient,          // RB
  kHandActivation,           // LC: the next virtual stage is on this stage too
  kHandGradient,             // LC'
  kSendFeatures,             // XS: along an edge, to every replica of the receiving module
  kReceiveFeatures,          // XR
  kSendFeatureGradients,     // XS': back along the edge
  kReceiveFeatureGradients,  // XR'
  kSendTurn,                 // TS: the ranks of this lane go over to another lane on them
  kReceiveTurn,              // TR: and come back; the next pass waits for it
  kReduceGradients,          // GR: of a chunk, over the replicas
  kOptimizerStep,            // OPT: after the global norm, so all lanes meet
};

/// Where an action runs; actions of different streams overlap.
enum class Stream : std::uint8_t {
  kCompute,
  kActivations,
  kGradients,
  kFeatures,
  kTurns,
  kReduction
};

/// One entry of the ordered list of a rank.
struct Action {
  Op op = Op::kForward;
  int chunk = 0;       // which of the rank's virtual stages
  int microbatch = 0;  // from 0 in data order; of TS and TR their number; 0 for GR and OPT
  int peer = -1;       // lane of a send or receive; edge of XS, XR; -1 for the rest
  Bytes bytes = {};    // sent or received; 0 for the rest

  friend bool operator==(const Action&, const Action&) = default;
};

using ActionList = std::vector<Action>;

[[nodiscard]] bool is_pass(Op op);
[[nodiscard]] bool is_send(Op op);
[[nodiscard]] bool is_receive(Op op);
/// TS or TR.
[[nodiscard]] bool is_turn(Op op);
/// BW or B: afterwards the gradient of the input exists.
[[nodiscard]] bool gives_input_gradient(Op op);
/// BW or W: afterwards nothing of the forward pass is needed.
[[nodiscard]] bool gives_weight_gradient(Op op);
[[nodiscard]] Stream stream_of(Op op);
[[nodiscard]] std::string_view name_of(Op op);
/// The kind of its span in a trace: forward, backward, weight, reduction, optimizer, transfer for
/// messages, handover for what stays on the rank.
[[nodiscard]] std::string_view span_kind_of(Op op);

/// `F0.3`: op, chunk, dot, microbatch.
[[nodiscard]] std::string to_text(const Action& action);

/// The canonical text: one list a line, actions separated by a space, every line ended by `\n`.
///
/// source: docs/theory/parallelism.md, "Lists of actions"
[[nodiscard]] std::string to_text(std::span<const ActionList> lists);

/// Reads the canonical text of passes and local actions; it contains no peers and no bytes.
///
/// errors: Fault::kInput naming line and word that is no action
[[nodiscard]] std::vector<ActionList> parse_actions(std::string_view text);

}  // namespace tributary::schedule
