#pragma once

#include <string>
#include <vector>

#include "core/error.h"

namespace tributary::config {

/// Writes a name that the user chose as one part of a key path: in quotes when it could be read as
/// several parts, or as the number of a list item.
[[nodiscard]] std::string path_part(const std::string& name);

/// What is wrong with one input, gathered so that the user sees all of it at once.
class Problems {
 public:
  void add(ErrorParts problem) { problems_.push_back(std::move(problem)); }
  [[nodiscard]] bool empty() const { return problems_.empty(); }

  /// Raises a single problem as it is, and several as one Fault::kInput with a numbered line for
  /// each. Problems that differ only in the item of a list share a line.
  void raise_if_any(const std::string& where) const;

 private:
  std::vector<ErrorParts> problems_;
};

}  // namespace tributary::config
