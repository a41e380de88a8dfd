#pragma once

#include <gtest/gtest.h>
#include <string>

#include "core/error.h"
#include "data/record/record_file.h"

namespace tributary::data {

/// The error of a container that cannot be opened.
inline std::string message_of(const std::string& path) {
  try {
    (void)open_record_file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
  return "opened";
}

}  // namespace tributary::data
