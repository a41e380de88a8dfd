#pragma once

namespace tributary::plan {

/// Sizes of the published 7B and 72B Qwen2.5-VL and of Llama-3-70B.
inline constexpr const char* kVl7 = R"({"model_type": "qwen2_5_vl", "hidden_size": 3584,
  "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
  "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": false,
  "vision_config": {"depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3420,
                    "out_hidden_size": 3584}})";
inline constexpr const char* kVl72 = R"({"model_type": "qwen2_5_vl", "hidden_size": 8192,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
  "intermediate_size": 29568, "vocab_size": 152064, "tie_word_embeddings": false,
  "vision_config": {"depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3456,
                    "out_hidden_size": 8192}})";
inline constexpr const char* kText70 = R"({"model_type": "llama", "hidden_size": 8192,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
  "intermediate_size": 28672, "vocab_size": 128256, "tie_word_embeddings": false})";

}  // namespace tributary::plan
