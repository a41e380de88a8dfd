#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "data/text/byte_alphabet.h"

namespace tributary::data {

/// A whole `tokenizer.json` in the layout of the Qwen files: the bytes, a few merges, the control
/// tokens. Tests change it.
inline Json tiny_tokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(letter_of_byte(static_cast<std::uint8_t>(byte)))] = byte;
  }
  Json merges = Json::array();
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"\u0120", "w"}, {"1", "2"}};
  for (const auto& [left, right] : rules) {
    vocab[left + right] = vocab.size();
    merges.push_back({left, right});
  }
  Json added = Json::array();
  for (const char* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>",
                            "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"}) {
    added.push_back({{"id", vocab.size() + added.size()},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const char* pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", nullptr},
            {"dropout", nullptr},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

}  // namespace tributary::data
