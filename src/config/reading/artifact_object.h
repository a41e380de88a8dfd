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

/// One JSON object of an artifact. Wrong values are gathered, not raised; the keys that were asked
/// for are the known ones.
///
/// owns: nothing; JSON value and problems must outlive it
class ArtifactObject {
 public:
  ArtifactObject(const Json& value, std::string file, std::string path, Problems& problems);

  /// A value that is missing takes `standard`; without one it is a problem, and the result is
  /// least.
  [[nodiscard]] std::int64_t whole(const std::string& key, std::optional<std::int64_t> standard,
                                   WholeRange range);
  /// A finite number of the range, its ends too.
  [[nodiscard]] double number(const std::string& key, std::optional<double> standard, double least,
                              double most);
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
  /// Objects by name, ascending; the names are the user's.
  [[nodiscard]] std::vector<std::pair<std::string, ArtifactObject>> members() const;
  /// Objects of a list.
  [[nodiscard]] std::vector<ArtifactObject> items(const std::string& key);
  /// The bare value; nullptr when it is missing.
  [[nodiscard]] const Json* find(const std::string& key);
  [[nodiscard]] bool has(const std::string& key) const;

  /// Every key that nobody asked for is a problem with the nearest one that was.
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
