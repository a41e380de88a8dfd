#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tributary::app {

/// Cuts a stream of text in front of the word that is complete first; of two that are at once, in
/// front of the longer one. Text that may be the beginning of a word is held back until it is
/// clear.
class StopWords {
 public:
  /// Empty words are not allowed.
  explicit StopWords(std::vector<std::string> words) : words_(std::move(words)) {}

  /// Takes a piece; returns what can be shown of all that came. Nothing comes after a word was
  /// found.
  [[nodiscard]] std::string push(std::string_view piece);
  /// What was held back, when no more text comes.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool found() const { return found_; }

 private:
  std::vector<std::string> words_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace tributary::app
