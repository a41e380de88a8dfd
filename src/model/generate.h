#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/model.h"

namespace tributary::model {

/// How answers are decoded.
struct Decoding {
  std::int64_t max_new_tokens = 64;
  std::vector<std::int64_t> stop_tokens = {};  // end an answer; not part of it
  double temperature = 0;                      // 0: greedy, the lowest token id among equals
  double top_p = 1;  // of sampling: smallest set of tokens with this probability
  std::uint64_t seed = 0;
  // Of each prompt of this replica: which random numbers sample its answer; empty: by its place.
  std::vector<std::uint64_t> streams = {};
};

/// Tokens that an answer may have: fewer than max_new_tokens where a dynamic rope would end.
[[nodiscard]] std::int64_t room_behind(std::int64_t prompt_tokens,
                                       const config::BackboneConfig& backbone,
                                       const Decoding& decoding);

/// Called with each new token of a sample as it is decoded; stop tokens are left out. False ends
/// the answer behind this token; where there are other ranks, that is never.
using OnToken = std::function<bool(std::size_t sample, std::int64_t token)>;

/// Decodes an answer to every prompt of a pack, all at once; finished samples leave the batch.
/// Replicas decode prompts of their own, in step: one without prompts, or whose answers have ended,
/// goes on idle until the last answer of all has.
///
/// shape:  returns one list of tokens a sample of this replica; `prompts` may be empty (no token,
///         cu_seqlens [0]) where replicas have different ones
/// collective: over all ranks of the model's mesh, with equal `decoding` but its streams
/// owns:   an answer depends only on its own prompt, the seed and its stream, up to the rounding of
///         sums
/// errors: Fault::kInput when temperature, top_p or max_new_tokens is out of range
/// cost:   one prefill, then one decode step a token of the longest answer
[[nodiscard]] std::vector<std::vector<std::int64_t>> generate(Model& model,
                                                              const PackedBatch& prompts,
                                                              const Decoding& decoding,
                                                              const OnToken& on_token = {});

}  // namespace tributary::model
