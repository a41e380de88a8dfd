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

/// Numbers from `least` to `most`, both included.
struct NumberRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
};

/// One argument of a request: an option of the verb, and a keyword of the Python function. The
/// command line with its help, the reader of Python's keywords and the checks go by a table of
/// these, so an argument is stated once.
///
/// owns: nothing; `value` points into the request, where the default stands until it is read
struct RequestField {
  using Value = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*,
                             Document*>;

  std::string name;  // of the keyword; the option is `--name`, with dashes
  Value value;
  std::string help;          // of --help and docs/cli.md
  NumberRange range = {};    // of a number that the user gives
  std::string unit = {};     // of the range, in messages
  std::string option = {};   // where it is not `--name`: `-o,--output`; `--no-name` of a flag that
                             // is on without it; CONFIG, a positional argument
  bool is_required = false;  // of a positional argument
  bool in_python = true;     // false: an option alone
};

/// All names of the option, as in `-o,--output`; CONFIG of a positional argument.
[[nodiscard]] std::string option_names(const RequestField& field);

/// The name by which GivenOptions knows the field: `--output`; `--model` of CONFIG.
[[nodiscard]] std::string given_name(const RequestField& field);

/// errors: Fault::kInput naming a number that the user gave and that lies outside its range
void check_ranges(std::span<const RequestField> fields, const GivenOptions& given);

}  // namespace tributary::app
