#pragma once

#include <nanobind/nanobind.h>
#include <string>

#include "app/requests/read_table.h"

namespace tributary::app {

/// Reads numbers from a sequence of numbers or of rows of numbers, or from an array of one or two
/// dimensions: anything with the buffer protocol or DLPack. NumPy is not needed.
///
/// shape:  [rows] -> [rows, 1]; [rows, columns] as it is
/// errors: Fault::kInput naming the element: not a number, below 0, above kMaxWhole, a row of
///         another width, no row
[[nodiscard]] NumberTable read_numbers(nanobind::handle given, const std::string& name);

}  // namespace tributary::app
