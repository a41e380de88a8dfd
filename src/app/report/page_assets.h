#pragma once

#include <string_view>

namespace tributary::app {

/// The files of src/app/report/page, which CMake puts into the program.
extern const std::string_view kPageStyle;
extern const std::string_view kThemeScript;
extern const std::string_view kPageScript;  // charts, filters, enlarged pictures

}  // namespace tributary::app
