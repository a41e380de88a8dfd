#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/tokenizer_file.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace tributary::data {

/// Cuts text into the pieces within which tokens are merged, by the patterns of a tokenizer file.
///
/// source: the pattern language is PCRE2's with Unicode properties; on the patterns of the Qwen,
///         GPT-2 and Llama files it agrees with the reference for letters of Unicode 14
class PieceSplitter {
 public:
  /// The memory of a search; one per call that cuts a text.
  class Scratch {
   public:
    Scratch();

   private:
    friend class PieceSplitter;
    struct Free {
      void operator()(pcre2_real_match_data_8* match) const;
    };
    std::unique_ptr<pcre2_real_match_data_8, Free> match_;
  };

  /// errors: Fault::kInput when a pattern does not compile, with the place in the pattern
  PieceSplitter(std::span<const SplitRule> rules, std::string_view where);

  /// Calls visit(piece) for every piece in order; the pieces joined are `text`, none is empty.
  ///
  /// errors: Fault::kInput when matching a pattern takes more than PCRE2's limits
  template <class Visit>
  void split(std::string_view text, Scratch& scratch, const Visit& visit,
             std::size_t first_rule = 0) const {
    if (first_rule == rules_.size()) {
      if (!text.empty()) visit(text);
      return;
    }
    std::size_t done = 0;
    while (done < text.size()) {
      const auto [begin, end] = find(first_rule, text, done, scratch);
      if (begin > done) split(text.substr(done, begin - done), scratch, visit, first_rule + 1);
      split(text.substr(begin, end - begin), scratch, visit, first_rule + 1);
      done = end;
    }
  }

 private:
  /// Begin and end of the next match that is not empty; both are text.size() when there is none.
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(std::size_t rule, std::string_view text,
                                                         std::size_t from, Scratch& scratch) const;

  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct Rule {
    std::unique_ptr<pcre2_real_code_8, FreeCode> code;
    std::string pattern;
  };

  std::vector<Rule> rules_;
  std::string where_;
};

}  // namespace tributary::data
