#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "app/requests/given_options.h"
#include "app/requests/read_document.h"

namespace tributary::app {

/// Numbers from `min` to `max`, both included.
struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
};

/// One argument of a request: an option of the verb and a keyword of the Python function. A table
/// of these declares the command line with its help, reads Python's keywords and checks ranges, so
/// that each argument is stated once.
///
/// owns: nothing; `value` points into the request, which holds the default
struct RequestField {
  using Value = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*,
                             Document*>;

  std::string name;  // of the keyword; the option is `--name` with dashes for `_`
  Value value;
  std::string help;          // of --help and docs/cli.md
  NumberRange range = {};    // of a number that the user gives
  std::string unit = {};     // of the range, in messages
  std::string option = {};   // if it is not `--name`: `-o,--output`, `--no-name` for a flag whose
                             // default is true, or CONFIG for a positional argument
  bool is_required = false;  // only of a positional argument
  bool in_python = true;     // false: only the command line has it
};

/// The names that declare the option: `-o,--output`, or CONFIG for a positional argument.
[[nodiscard]] std::string option_names(const RequestField& field);

/// The name that GivenOptions has for the field: `--output`, or `--model` for CONFIG.
[[nodiscard]] std::string given_name(const RequestField& field);

/// errors: Fault::kInput naming a number that the user gave and that lies outside its range
void check_ranges(std::span<const RequestField> fields, const GivenOptions& given);

}  // namespace tributary::app
