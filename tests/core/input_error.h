#pragma once

#include <gtest/gtest.h>
#include <string>

#include "core/error.h"

namespace tributary {

/// The message of the Error that a call raises, which the user is to act on; `otherwise` where it
/// raises none.
template <class Call>
std::string input_error_of(const Call& call, const std::string& otherwise = "accepted") {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
  return otherwise;
}

}  // namespace tributary
