#include "parallel/layout.h"

#include "parallel/unit_chain.h"

namespace tributary::parallel {

const mesh::Mesh& Layout::one_rank() {
  static const mesh::Mesh mesh;
  return mesh;
}

bool Layout::splits_tokens() const {
  return sequence_parallel && !tp().is_single() && !(chain && chain->keeps_tokens_whole());
}

bool Layout::splits_sequence() const {
  return !mesh->sequence().is_single() && !(chain && chain->keeps_tokens_whole());
}

TokensWhole::TokensWhole(const Layout& layout) : chain_(layout.chain.get()) {
  if (chain_ != nullptr) chain_->keep_tokens_whole(true);
}

TokensWhole::~TokensWhole() {
  if (chain_ != nullptr) chain_->keep_tokens_whole(false);
}

}  // namespace tributary::parallel
