#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tributary::app {

/// The files of src/app/report/page, which CMake puts into the program.
extern const std::string_view kPageStyle;
extern const std::string_view kThemeScript;
extern const std::string_view kPageScript;  // charts, filters, enlarged pictures
extern const std::string_view kLiveScript;  // reloads the page of a run that goes on

/// A link in the bar at the top: the id of a section and its name.
struct PageLink {
  std::string section;
  std::string name;
};

/// The start of a page up to its first section: title, style, the policy that makes the browser
/// refuse every request, and the bar with links and the switch between light and dark.
[[nodiscard]] std::string open_page(const std::string& title, const std::vector<PageLink>& links);

/// The end of a page. `footer` is HTML; `scripts` are elements at the very end.
[[nodiscard]] std::string close_page(const std::string& footer, const std::string& scripts = "");

}  // namespace tributary::app
