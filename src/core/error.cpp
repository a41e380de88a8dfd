#include "core/error.h"

#include <array>
#include <string_view>

namespace tributary {
namespace {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kInput:
      return "input error: ";
    case Fault::kResource:
      return "resource error: ";
    case Fault::kBug:
      return "bug: ";
  }
  return "bug: ";
}

ExitCode default_exit(Fault fault) {
  switch (fault) {
    case Fault::kInput:
      return ExitCode::kInput;
    case Fault::kResource:
      return ExitCode::kResource;
    case Fault::kBug:
      return ExitCode::kBug;
  }
  return ExitCode::kBug;
}

/// The path from the source root on, so that a message is the same on every machine.
std::string_view short_file(std::string_view path) {
  const std::size_t src = path.rfind("/src/");
  return src == std::string_view::npos ? path : path.substr(src + 5);
}

/// Cuts very long words: a name of thousands of letters would hide the rest of the message. The end
/// is kept too, because the end of a path says most.
std::string with_short_words(const std::string& text) {
  constexpr std::size_t kMax = 400;
  constexpr std::size_t kBegin = 240;
  constexpr std::size_t kEnd = 80;
  if (text.size() <= kMax) return text;
  const auto is_inside = [&](std::size_t i) {  // a UTF-8 character
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80;
  };
  std::string shortened;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t space = text.find_first_of(" \n", begin);
    const std::size_t end = space == std::string::npos ? text.size() : space + 1;
    if (end - begin <= kMax) {
      shortened += text.substr(begin, end - begin);
    } else {
      std::size_t first = begin + kBegin;
      while (is_inside(first)) --first;
      std::size_t last = end - kEnd;
      while (last < end && is_inside(last)) ++last;
      shortened += str(text.substr(begin, first - begin), "...", text.substr(last, end - last));
    }
    begin = end;
  }
  return shortened;
}

std::string compose(Fault fault, const ErrorParts& parts, const std::source_location& place) {
  std::string text{name_of(fault)};
  text += with_short_words(parts.what);
  const auto add = [&text](std::string_view label, const std::string& part) {
    if (!part.empty()) text += str("; ", label, with_short_words(part));
  };
  add("where: ", parts.where);
  add("found: ", parts.found);
  add("expected: ", parts.expected);
  add("fix: ", parts.fix);
  return str(text, " [", short_file(place.file_name()), ":", place.line(), "]");
}

}  // namespace

Error::Error(Fault fault, const ErrorParts& parts, std::source_location raised_at)
    : std::runtime_error(compose(fault, parts, raised_at)),
      fault_(fault),
      exit_code_(parts.exit.value_or(default_exit(fault))),
      parts_(std::make_shared<const ErrorParts>(parts)) {}

void raise(Fault fault, const ErrorParts& parts, std::source_location raised_at) {
  throw Error(fault, parts, raised_at);
}

std::string escaped(std::string_view found) {
  constexpr std::size_t kMax = 200;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "\"";
  for (const char byte : found.substr(0, kMax)) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x20 && value != 0x7f && byte != '"' && byte != '\\') {
      text += byte;
    } else {
      text += "\\x";
      text += kHex[value >> 4];
      text += kHex[value & 15];
    }
  }
  return text + (found.size() > kMax ? "...\"" : "\"");
}

}  // namespace tributary
