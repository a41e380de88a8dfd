#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/text/piece_splitter.h"

#include <array>
#include <pcre2.h>

#include "core/error.h"

namespace tributary::data {
namespace {

std::string words_of(int code) {
  std::array<unsigned char, 256> words{};
  pcre2_get_error_message(code, words.data(), words.size());
  return {reinterpret_cast<const char*>(words.data())};
}

pcre2_code* compile(const SplitRule& rule, std::string_view where) {
  // A pattern with \C could cut inside a character.
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_NO_UTF_CHECK |
      (rule.is_literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  int code = 0;
  std::size_t place = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<const unsigned char*>(rule.pattern.data()),
                                       rule.pattern.size(), options, &code, &place, nullptr);
  TRIB_REQUIRE(compiled != nullptr, .what = "data: split pattern is not a regular expression",
               .where = str(where, " pre_tokenizer"),
               .found = str(words_of(code), " at byte ", place, " of ", escaped(rule.pattern)));
  // If the system forbids run-time code, this fails, and the interpreter finds the same matches.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return compiled;
}

}  // namespace

PieceSplitter::Scratch::Scratch() : match_(pcre2_match_data_create(/*ovecsize=*/1, nullptr)) {
  if (match_ == nullptr) {
    TRIB_RAISE(Fault::kResource, .what = "data: no memory for a pattern search");
  }
}

void PieceSplitter::Scratch::Free::operator()(pcre2_match_data* match) const {
  pcre2_match_data_free(match);
}

void PieceSplitter::FreeCode::operator()(pcre2_code* code) const { pcre2_code_free(code); }

PieceSplitter::PieceSplitter(std::span<const SplitRule> rules, std::string_view where)
    : where_(where) {
  for (const SplitRule& rule : rules) {
    rules_.push_back({decltype(Rule::code)(compile(rule, where)), rule.pattern});
  }
}

std::pair<std::size_t, std::size_t> PieceSplitter::find(std::size_t rule, std::string_view text,
                                                        std::size_t from, Scratch& scratch) const {
  pcre2_match_data* match = scratch.match_.get();
  const int code =
      pcre2_match(rules_[rule].code.get(), reinterpret_cast<const unsigned char*>(text.data()),
                  text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, nullptr);
  if (code == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
  // 0 means that the groups of the pattern did not fit; the match itself always does.
  TRIB_REQUIRE(code >= 0, .what = "data: split pattern fails on a text",
               .where = str(where_, " pre_tokenizer"),
               .found = str(words_of(code), " for ", escaped(rules_[rule].pattern)));
  const std::size_t* ends = pcre2_get_ovector_pointer(match);
  TRIB_CHECK(from <= ends[0] && ends[0] < ends[1], .what = "data: split pattern moves its match",
             .where = where_, .found = escaped(rules_[rule].pattern));
  return {ends[0], ends[1]};
}

}  // namespace tributary::data
