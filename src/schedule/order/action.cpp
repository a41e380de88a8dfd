#include "schedule/order/action.h"

#include <array>
#include <charconv>

#include "core/error.h"
#include "core/split_text.h"

namespace tributary::schedule {
namespace {

struct OpTraits {
  std::string_view name;
  Stream stream;
};

constexpr std::array<OpTraits, 18> kOps{{
    {"F", Stream::kCompute},
    {"B", Stream::kCompute},
    {"W", Stream::kCompute},
    {"BW", Stream::kCompute},
    {"SF", Stream::kActivations},
    {"RF", Stream::kActivations},
    {"SB", Stream::kGradients},
    {"RB", Stream::kGradients},
    {"LC", Stream::kCompute},
    {"LC'", Stream::kCompute},
    {"XS", Stream::kFeatures},
    {"XR", Stream::kFeatures},
    {"XS'", Stream::kFeatures},
    {"XR'", Stream::kFeatures},
    {"TS", Stream::kTurns},
    {"TR", Stream::kTurns},
    {"GR", Stream::kReduction},
    {"OPT", Stream::kCompute},
}};

const OpTraits& op_traits(Op op) { return kOps[static_cast<std::size_t>(op)]; }

/// Reads a number from the front of `word`; -1 when there is none.
int take_number(std::string_view& word) {
  int number = -1;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure != std::errc{}) return -1;
  word.remove_prefix(static_cast<std::size_t>(end - word.data()));
  return number;
}

Action parse_action(std::string_view word, int line) {
  const std::size_t digits = word.find_first_of("0123456789");
  const std::string_view name = word.substr(0, digits);
  std::string_view rest = digits == std::string_view::npos ? "" : word.substr(digits);
  for (std::size_t op = 0; op < kOps.size(); ++op) {
    if (kOps[op].name != name) continue;
    const int chunk = take_number(rest);
    const bool dotted = rest.starts_with('.');
    if (dotted) rest.remove_prefix(1);
    const int microbatch = take_number(rest);
    if (chunk < 0 || !dotted || microbatch < 0 || !rest.empty()) break;
    return {.op = static_cast<Op>(op), .chunk = chunk, .microbatch = microbatch};
  }
  TRIB_RAISE(Fault::kInput, .what = "schedule: word is no action", .where = str("line ", line),
             .found = escaped(word),
             .expected = "an op, a chunk, a dot and a microbatch, for example F0.3");
}

}  // namespace

bool is_pass(Op op) { return op <= Op::kBackward; }

bool is_send(Op op) {
  return op == Op::kSendActivation || op == Op::kSendGradient || op == Op::kSendFeatures ||
         op == Op::kSendFeatureGradients || op == Op::kSendTurn;
}

bool is_receive(Op op) {
  return op == Op::kReceiveActivation || op == Op::kReceiveGradient || op == Op::kReceiveFeatures ||
         op == Op::kReceiveFeatureGradients || op == Op::kReceiveTurn;
}

bool is_turn(Op op) { return op == Op::kSendTurn || op == Op::kReceiveTurn; }

bool gives_input_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardInput; }

bool gives_weight_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardWeight; }

Stream stream_of(Op op) { return op_traits(op).stream; }

std::string_view name_of(Op op) { return op_traits(op).name; }

std::string_view span_kind_of(Op op) {
  if (is_turn(op)) return "handover";
  if (is_send(op) || is_receive(op)) return "transfer";
  switch (op) {
    case Op::kForward:
      return "forward";
    case Op::kBackwardWeight:
      return "weight";
    case Op::kReduceGradients:
      return "reduction";
    case Op::kOptimizerStep:
      return "optimizer";
    case Op::kHandActivation:
    case Op::kHandGradient:
      return "handover";
    default:
      return "backward";
  }
}

std::string to_text(const Action& action) {
  std::string text{name_of(action.op)};
  text += std::to_string(action.chunk);
  text += '.';
  return text += std::to_string(action.microbatch);
}

std::string to_text(std::span<const ActionList> lists) {
  std::string text;
  for (const ActionList& list : lists) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text += ' ';
      text += to_text(list[i]);
    }
    text += '\n';
  }
  return text;
}

std::vector<ActionList> parse_actions(std::string_view text) {
  std::vector<ActionList> lists;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    ActionList& list = lists.emplace_back();
    while (!line.empty())
      list.push_back(parse_action(take_until(' ', line), static_cast<int>(lists.size())));
  }
  return lists;
}

}  // namespace tributary::schedule
