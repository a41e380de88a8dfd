#pragma once

#include <span>
#include <string>

#include "app/requests/request_field.h"

namespace tributary::app {

/// Reads the arguments of a call into the fields of a request.
///
/// units:   arguments: a JSON object by name, without those that are None; a document is a pair,
///          whether it is a path, and path or JSON
/// returns: which were given, a flag other than its default; has_rows: lengths too, as numbers
/// errors:  Fault::kInput that lists all arguments of another type or name
[[nodiscard]] GivenOptions read_arguments(const std::string& function, const std::string& arguments,
                                          std::span<const RequestField> fields, bool has_rows);

}  // namespace tributary::app
