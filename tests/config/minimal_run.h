#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "config/run/read_run_config.h"
#include "core/error.h"

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
  try {
    (void)parse(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
  return "accepted";
}

}  // namespace tributary::config
