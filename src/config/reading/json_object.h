#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace tributary::config {

struct WholeRange {
  std::int64_t min = 1;
  std::int64_t max = std::int64_t{1} << 26;
};

inline constexpr WholeRange kLayerRange{1, 10'000};                    // layers in a stack
inline constexpr WholeRange kQuantityRange{0, std::int64_t{1} << 53};  // of a time or a size

/// One JSON object of a config.json, read field by field with checks. A missing field takes
/// `standard`, the default of the family's class. A field that is null counts as missing only in
/// the functions named `..._or_null`.
///
/// owns:   nothing; the JSON value must outlive it
/// errors: every reader raises Fault::kInput with file, key path, what was found and expected
class JsonObject {
 public:
  JsonObject(const Json& object, std::string file, std::string path = {});

  [[nodiscard]] bool has(const std::string& key) const;  // present and not null
  [[nodiscard]] std::int64_t whole(const std::string& key, std::optional<std::int64_t> standard,
                                   WholeRange range = {}) const;
  [[nodiscard]] std::int64_t whole_or_null(const std::string& key, std::int64_t standard,
                                           WholeRange range = {}) const;
  /// A finite number, at least `min`.
  [[nodiscard]] double number(const std::string& key, double standard, double min) const;
  [[nodiscard]] bool flag(const std::string& key, bool standard) const;
  [[nodiscard]] std::string text(const std::string& key, const std::string& standard) const;
  [[nodiscard]] std::vector<std::int64_t> wholes(const std::string& key,
                                                 std::vector<std::int64_t> standard,
                                                 WholeRange range) const;
  /// A list of pairs of whole numbers.
  [[nodiscard]] std::vector<std::array<std::int64_t, 2>> pairs(
      const std::string& key, std::vector<std::array<std::int64_t, 2>> standard,
      WholeRange range) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& key) const;  // missing: empty
  /// The object under `key`; null when it is missing or null.
  [[nodiscard]] std::optional<JsonObject> object(const std::string& key) const;

  /// File and key path, as messages print them.
  [[nodiscard]] std::string where(const std::string& key = {}) const;
  /// The value of `key` as JSON text, for messages.
  [[nodiscard]] std::string found(const std::string& key) const;

 private:
  [[noreturn]] void refuse_type(const std::string& key, const std::string& expected) const;

  const Json* object_;
  std::string file_;
  std::string path_;
};

}  // namespace tributary::config
