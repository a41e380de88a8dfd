#include "config/family/all_families.h"

namespace tributary::config {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families{
      {ModelFamily::kQwen2, "qwen2", read_qwen2},
      {ModelFamily::kQwen3, "qwen3", read_qwen3},
      {ModelFamily::kLlama, "llama", read_llama},
      {ModelFamily::kQwen2Vl, "qwen2_vl", read_qwen2_vl},
      {ModelFamily::kQwen2_5Vl, "qwen2_5_vl", read_qwen2_5_vl},
      {ModelFamily::kQwen3Vl, "qwen3_vl", read_qwen3_vl},
  };
  return families;
}

}  // namespace tributary::config
