#include "data/text/compose.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

#include "core/error.h"

namespace tributary::data {
namespace {

struct Free {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

/// Below U+0300, the first combining mark, all text is composed; U+0300 begins with this byte.
constexpr std::uint8_t kFirstMarkLead = 0xCC;

}  // namespace

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
