#pragma once

#include <string>
#include <vector>

#include "core/error.h"

namespace tributary::config {

/// A name of the user's as one part of a path: in quotes where it could be read as several parts,
/// or as the number of a list item.
[[nodiscard]] std::string path_part(const std::string& name);

/// What is wrong with one input, gathered so that the user sees all of it at once.
class Problems {
 public:
  void add(ErrorParts problem) { problems_.push_back(std::move(problem)); }
  [[nodiscard]] bool empty() const { return problems_.empty(); }

  /// Raises nothing when there are none; one as it is; several as one Fault::kInput with a numbered
  /// line for each, those that differ in the item of a list alone on one.
  void raise_if_any(const std::string& where) const;

 private:
  std::vector<ErrorParts> problems_;
};

}  // namespace tributary::config
