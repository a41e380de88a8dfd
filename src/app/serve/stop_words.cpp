#include "app/serve/stop_words.h"

#include <algorithm>
#include <utility>

namespace tributary::app {

std::string StopWords::push(std::string_view piece) {
  if (found_) return "";
  waiting_ += piece;
  std::pair first{waiting_.size() + 1, std::size_t{0}};  // end and beginning of a word
  for (const std::string& word : words_)
    if (const std::size_t at = waiting_.find(word); at != std::string::npos)
      first = std::min(first, {at + word.size(), at});
  found_ = first.first <= waiting_.size();
  if (found_) return waiting_.substr(0, first.second);
  std::size_t end = waiting_.size();  // of what can be shown
  for (const std::string& word : words_) {
    const std::string_view text = waiting_;
    for (std::size_t held = std::min(word.size() - 1, text.size()); held > 0; --held) {
      if (!word.starts_with(text.substr(text.size() - held))) continue;
      end = std::min(end, text.size() - held);
      break;
    }
  }
  std::string shown = waiting_.substr(0, end);
  waiting_.erase(0, end);
  return shown;
}

std::string StopWords::finish() { return found_ ? "" : std::exchange(waiting_, ""); }

}  // namespace tributary::app
