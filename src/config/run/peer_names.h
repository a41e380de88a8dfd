#pragma once

#include <string>
#include <string_view>

namespace tributary::config {

/// Says what to write instead of a key of another trainer (transformers, LLaMA-Factory, ms-swift,
/// axolotl, torchtitan): the key here, or why there is none; empty for an unknown name.
///
/// inputs: the path as written, for example `optimizer.lr` or `num_train_epochs`
[[nodiscard]] std::string advice_for_peer_name(std::string_view path);

}  // namespace tributary::config
