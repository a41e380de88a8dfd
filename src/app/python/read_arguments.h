#pragma once

#include <span>
#include <string>

#include "app/requests/request_field.h"

namespace tributary::app {

/// Reads the arguments of a call into the fields of a request.
///
/// units:   arguments: a JSON object without those that are None; a Document in it is the pair
///          [is_path, text]; has_rows: the call has lengths as numbers, which are not in it
/// returns: the arguments that were given; a flag counts where it is not the default
/// errors:  Fault::kInput that lists all arguments of a wrong type or an unknown name
[[nodiscard]] GivenOptions read_arguments(const std::string& function, const std::string& arguments,
                                          std::span<const RequestField> fields, bool has_rows);

}  // namespace tributary::app
