#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/reading/json_object.h"
#include "config/reading/problems.h"
#include "core/json.h"

namespace tributary::config {

/// One JSON object of an artifact. Wrong values are gathered in `problems`, not raised. A key is
/// known when some function was called with it.
///
/// owns: nothing; the JSON value and the problems must outlive it
class ArtifactObject {
 public:
  ArtifactObject(const Json& value, std::string file, std::string path, Problems& problems);

  /// A missing value takes `standard`; if that is null, it is a problem and gives range.least.
  [[nodiscard]] std::int64_t whole(const std::string& key, std::optional<std::int64_t> standard,
                                   WholeRange range);
  /// A finite number in [least, most].
  [[nodiscard]] double number(const std::string& key, std::optional<double> standard, double min,
                              double max);
  [[nodiscard]] bool flag(const std::string& key, bool standard);
  [[nodiscard]] std::string text(const std::string& key, std::optional<std::string> standard);
  template <class Enum>
  [[nodiscard]] Enum choice(const std::string& key, std::optional<Enum> standard,
                            const std::vector<std::string>& names) {
    const std::optional<std::size_t> index = choice_index(key, standard.has_value(), names);
    return index ? static_cast<Enum>(*index) : standard.value_or(Enum{});
  }
  /// The object under a key; an empty one when it is missing.
  [[nodiscard]] ArtifactObject object(const std::string& key, bool required);
  /// The members, which are objects with names that the user chose, ascending by name.
  [[nodiscard]] std::vector<std::pair<std::string, ArtifactObject>> members() const;
  /// The objects of a list.
  [[nodiscard]] std::vector<ArtifactObject> items(const std::string& key);
  /// The JSON value; null when it is missing.
  [[nodiscard]] const Json* find(const std::string& key);
  [[nodiscard]] bool has(const std::string& key) const;

  /// Adds a problem for each unknown key, with the nearest known one.
  void refuse_unknown();
  void refuse(const std::string& key, const std::string& expected);
  [[nodiscard]] std::string where(const std::string& key = {}) const;

 private:
  [[nodiscard]] std::optional<std::size_t> choice_index(const std::string& key, bool optional,
                                                        const std::vector<std::string>& names);
  [[nodiscard]] bool is_missing(const std::string& key, bool optional, const std::string& expected);

  const Json* value_;
  std::string file_;
  std::string path_;
  Problems* problems_;
  std::set<std::string> known_;
};

}  // namespace tributary::config
