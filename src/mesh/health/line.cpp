#include <algorithm>
#include <sstream>

#include "core/text.h"
#include "mesh/health/link.h"
#include "mesh/launch/store.h"

namespace tributary::mesh {

namespace line {
namespace {

/// A stream behind the word that the line must begin with; failed when it does not.
std::istringstream after_word(const std::string& word, const std::string& text) {
  std::istringstream in(text);
  std::string found;
  in >> found;
  if (found != word) in.setstate(std::ios::failbit);
  return in;
}

}  // namespace

std::string hello(const std::string& key, int rank) {
  return str("hello ", key, " ", rank, " ", host_name());
}

std::optional<Hello> parse_hello(const std::string& text) {
  Hello hello;
  std::istringstream in = after_word("hello", text);
  in >> hello.key >> hello.rank >> hello.host;
  return in.fail() ? std::nullopt : std::optional(hello);
}

std::string beat(const Beat& beat) {
  return str("beat ", beat.step, " ", beat.progress, " ", static_cast<int>(beat.section));
}

std::optional<Beat> parse_beat(const std::string& text) {
  Beat beat;
  int section = -1;
  std::istringstream in = after_word("beat", text);
  in >> beat.step >> beat.progress >> section;
  if (in.fail() || section < 0 || section > static_cast<int>(Section::kValidation))
    return std::nullopt;
  beat.section = static_cast<Section>(section);
  return beat;
}

std::string failure(const std::string& word, const Failure& failure) {
  constexpr std::size_t kMaxText = 4096;
  std::string text = failure.text.substr(0, kMaxText);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return str(word, " ", failure.rank, " ", static_cast<int>(failure.code), " ", text);
}

std::optional<Failure> parse_failure(const std::string& word, const std::string& text) {
  Failure failure;
  int code = -1;
  std::istringstream in = after_word(word, text);
  in >> failure.rank >> code;
  in.get();
  std::getline(in, failure.text);
  if (in.fail() || code < 1 || code > 255) return std::nullopt;
  failure.code = static_cast<ExitCode>(code);
  return failure;
}

}  // namespace line
}  // namespace tributary::mesh
