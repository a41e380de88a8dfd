#pragma once

#include <string>
#include <vector>

#include "config/run/read_run_config.h"
#include "tests/core/input_error.h"

namespace tributary::config {

inline const std::string kMinimalRun = R"(model:
  path: models/tiny
data:
  sources:
    - name: shapes
      path: shapes.jsonl
)";

inline RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_run_config(text, "run.yaml", overrides);
}

inline std::string refusal_of(const std::string& text,
                              const std::vector<std::string>& overrides = {}) {
  return input_error_of([&] { (void)parse(text, overrides); });
}

}  // namespace tributary::config
