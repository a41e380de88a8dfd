#pragma once

#include <string>
#include <utility>

#include "config/run/run_tree.h"

namespace tributary::config {

/// Adds problems placed at a key: at its line in the file, or marked as a default.
class KeyChecker {
 public:
  KeyChecker(const KeyPlaces& places, Problems& problems) : places_(places), problems_(problems) {}

  void require(bool holds, const std::string& key, ErrorParts problem) {
    if (holds) return;
    const auto place = places_.find(key);
    problem.where = place == places_.end() ? str(key, " (default)") : str(place->second, " ", key);
    problems_.add(std::move(problem));
  }

 private:
  const KeyPlaces& places_;
  Problems& problems_;
};

/// Checks the rules of the section `objective`.
void check_objective(const RunConfig& config, KeyChecker& check);
/// Checks the rules of the sections `parallel.<module>`.
void check_modules(const RunConfig& config, KeyChecker& check);

}  // namespace tributary::config
