#include "app/cli/output_file.h"

#include <filesystem>

#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::app {
namespace {

constexpr const char* kNotWritten = "app: file cannot be written";

}  // namespace

void check_output(const std::string& output, const std::vector<std::string>& inputs) {
  if (output.empty()) return;
  for (const std::string& input : inputs) {
    std::error_code not_there;  // then they are not the same file
    TRIB_REQUIRE(!std::filesystem::equivalent(output, input, not_there),
                 .what = "app: output is a file that is read", .where = output, .found = input,
                 .expected = "another file", .fix = "give the output another name");
  }
  check_given_output(output, {.what = kNotWritten});
}

void write_output(const std::string& output, std::string_view text) {
  write_given_file(output, text, {.what = kNotWritten});
}

}  // namespace tributary::app
