#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {

std::string model_section(const RunRecord& run) {
  std::string text =
      "<section id=\"model\"><h2>Model</h2>\n<p class=\"about\">Parameters by module, and which of "
      "them the run changes.</p>\n";
  if (run.modules.empty())
    return text + missing_box("environment.json", "it does not name the modules of the model.") +
           "</section>\n";
  double all = 0;
  for (const ModuleRecord& module : run.modules) all += module.parameters;
  text +=
      "<div class=\"card scroll\"><table><tr><th>module</th><th class=\"number\">parameters</th>"
      "<th class=\"number\">share</th><th></th></tr>\n";
  for (const ModuleRecord& module : run.modules)
    text += str("<tr><td class=\"name\">", html(module.name), "</td><td class=\"number\">",
                show_count(module.parameters), "</td><td class=\"number\">",
                show_percent(all > 0 ? module.parameters / all : 0), "</td><td>",
                module.trained ? "trained" : "frozen", "</td></tr>\n");
  return str(text, "<tr><td class=\"name\">all</td><td class=\"number\">", show_count(all),
             "</td><td></td><td></td></tr></table></div></section>\n");
}

}  // namespace tributary::app
