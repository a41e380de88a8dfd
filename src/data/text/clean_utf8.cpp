#include "data/text/clean_utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utf8proc.h>

#include "core/error.h"

namespace tributary::data {
namespace {

enum class Form { kWhole, kBroken, kUnfinished };

struct Character {
  std::size_t length;  // of the character, or of the maximal part of a broken one
  Form form;
};

/// Reads the character at the front; `bytes` is not empty.
Character read_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, Form::kWhole};
  if (lead < 0xC2 || lead > 0xF4) return {1, Form::kBroken};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // These ranges of the second byte exclude overlong forms, surrogates and points above U+10FFFF.
  const std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Form::kUnfinished};
    const bool fits = i == 1 ? low <= byte(i) && byte(i) <= high : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {i, Form::kBroken};
  }
  return {length, Form::kWhole};
}

/// The number of ASCII bytes at the front, in steps of eight.
std::size_t skip_ascii(std::string_view bytes) {
  std::size_t done = 0;
  std::uint64_t eight = 0;
  while (done + sizeof(eight) <= bytes.size()) {
    std::memcpy(&eight, bytes.data() + done, sizeof(eight));
    if ((eight & 0x8080808080808080U) != 0) break;
    done += sizeof(eight);
  }
  return done;
}

/// The number of bytes at the front that are whole characters.
std::size_t valid_prefix(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    done += skip_ascii(bytes.substr(done));
    if (done == bytes.size()) break;
    const Character next = read_character(bytes.substr(done));
    if (next.form != Form::kWhole) break;
    done += next.length;
  }
  return done;
}

struct Free {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

/// Below U+0300, the first combining mark, all text is composed; U+0300 begins with this byte.
constexpr std::uint8_t kFirstMarkLead = 0xCC;

}  // namespace

std::string clean_utf8(std::string_view bytes) {
  std::string clean;
  clean.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid = valid_prefix(bytes);
    clean += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    clean += "\uFFFD";
    bytes.remove_prefix(read_character(bytes).length);
  }
  return clean;
}

bool is_utf8(std::string_view bytes) { return valid_prefix(bytes) == bytes.size(); }

std::size_t unfinished_utf8(std::string_view bytes) {
  for (std::size_t tail = 1; tail <= 3 && tail <= bytes.size(); ++tail) {
    const Character last = read_character(bytes.substr(bytes.size() - tail));
    if (last.form == Form::kUnfinished && last.length == tail) return tail;
  }
  return 0;
}

std::optional<std::string> compose(std::string_view text) {
  const bool is_composed = std::none_of(text.begin(), text.end(), [](char byte) {
    return static_cast<std::uint8_t>(byte) >= kFirstMarkLead;
  });
  if (is_composed) return std::nullopt;
  std::uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const std::uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<std::uint8_t, Free> owned(result);
  if (length == UTF8PROC_ERROR_NOMEM) {
    TRIB_RAISE(Fault::kResource, .what = "data: no memory to normalise a text",
               .found = str(text.size(), " bytes"));
  }
  TRIB_CHECK(length >= 0, .what = "data: text to normalise is not UTF-8",
             .found = utf8proc_errmsg(length));
  return std::string(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

}  // namespace tributary::data
