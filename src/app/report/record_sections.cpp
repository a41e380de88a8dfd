#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/split_text.h"
#include "core/text.h"

namespace tributary::app {
namespace {

constexpr std::size_t kMaxRows = 50;

std::string more_rows(std::size_t rows, int columns) {
  if (rows <= kMaxRows) return "";
  return str("<tr><td colspan=\"", columns, "\">and ", rows - kMaxRows, " more</td></tr>\n");
}

std::string skipped_table(const std::vector<const StepRecord*>& skipped) {
  std::string text =
      "<div class=\"card scroll\"><h3>Skipped steps</h3><table><tr><th>step</th><th>reason</th>"
      "<th>samples of the batch</th></tr>\n";
  for (std::size_t i = 0; i < std::min(skipped.size(), kMaxRows); ++i) {
    const StepRecord& step = *skipped[i];
    std::string samples;
    for (std::size_t k = 0; k < std::min<std::size_t>(step.sample_ids.size(), 8); ++k)
      samples += (k == 0 ? "" : ", ") + step.sample_ids[k];
    if (step.sample_ids.size() > 8) samples += str(" and ", step.sample_ids.size() - 8, " more");
    text += str("<tr><td class=\"name\">", step.step, "</td><td>", html(step.skip_reason),
                "</td><td class=\"mono\">", html(samples), "</td></tr>\n");
  }
  return text + more_rows(skipped.size(), 3) + "</table></div>\n";
}

std::string refused_table(const std::vector<RefusedRecord>& refused) {
  std::string text =
      "<div class=\"card scroll\"><h3>Refused records</h3><table><tr><th>place</th><th>reason</th>"
      "<th>in words</th></tr>\n";
  for (std::size_t i = 0; i < std::min(refused.size(), kMaxRows); ++i)
    text += str("<tr><td class=\"mono\">", html(refused[i].key), "</td><td class=\"name\">",
                html(refused[i].code), "</td><td>", html(refused[i].reason), "</td></tr>\n");
  return text + more_rows(refused.size(), 3) + "</table></div>\n";
}

/// YAML as HTML with coloured keys and comments.
std::string colour_yaml(std::string_view yaml) {
  std::string text;
  while (!yaml.empty()) {
    const std::string_view line = take_until('\n', yaml);
    const std::size_t start = std::min(line.find_first_not_of(" -"), line.size());
    const std::size_t colon = line.find(':');
    if (start < line.size() && line[start] == '#') {
      text += str("<span class=\"c\">", html(line), "</span>");
    } else if (colon != std::string_view::npos) {
      text += str(html(line.substr(0, start)), "<span class=\"k\">",
                  html(line.substr(start, colon - start)), "</span>", html(line.substr(colon)));
    } else {
      text += html(line);
    }
    text += '\n';
  }
  return text;
}

/// A key of environment.json whose name needs explanation, and how to show its value.
struct Known {
  std::string_view key, name;
  std::string (*show)(double) = nullptr;
};

std::string show_flops(double flops) { return show_number(flops / 1e9) + " GFLOP/s"; }

constexpr std::array<Known, 13> kKnown{{
    {"bound_to", "bound to cores"},
    {"command", "command"},
    {"cores", "cores that it may use"},
    {"cpu", "processor"},
    {"memory_bytes", "memory", show_bytes},
    {"mfu_formula", "how MFU is computed"},
    {"parallel", "threads of libtorch, in its words"},
    {"parameters", "parameters", show_count},
    {"peak_flops", "peak, for MFU", show_flops},
    {"peak_flops_from", "peak measured as"},
    {"started_at", "started at (UTC)"},
    {"torch", "libtorch"},
    {"tributary", "Tributary"},
}};

const Known* find_known(const std::string& key) {
  const auto* found = std::ranges::find(kKnown, std::string_view(key), &Known::key);
  return found == kKnown.end() ? nullptr : found;
}

std::string name_of(std::string key) {
  if (const Known* known = find_known(key)) return std::string(known->name);
  std::ranges::replace(key, '_', ' ');
  return key;
}

/// Adds to a sum, which is null as soon as a part of it is.
void add_known(MaybeNumber& sum, const MaybeNumber& part) {
  sum = sum && part ? MaybeNumber(*sum + *part) : std::nullopt;
}

std::string module_row(const ModuleRecord& module, double all, const std::string& state) {
  const auto number = [](const MaybeNumber& value, std::string (*show)(double)) {
    return str("<td class=\"number\">", value ? show(*value) : "–", "</td>");
  };
  return str("<tr><td class=\"name\">", html(module.name), "</td>",
             number(module.parameters, show_count),
             number(all > 0 ? module.parameters / all : 0, show_percent), "<td>", state, "</td>",
             number(module.trained_parameters, show_count), "<td>", html(module.dtype), "</td>",
             number(module.bytes, show_bytes), "</tr>\n");
}

/// A value as HTML; a long one is folded.
std::string shown_value(const std::string& key, const std::string& value) {
  constexpr std::size_t kMaxInline = 160;
  const Known* known = find_known(key);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (known != nullptr && known->show != nullptr && !value.empty() && *end == '\0')
    return html(known->show(number));
  if (value.size() <= kMaxInline && value.find('\n') == std::string::npos) return html(value);
  return str("<details><summary>", html(value.substr(0, value.find('\n')).substr(0, 60)),
             " ...</summary><pre>", html(value), "</pre></details>");
}

}  // namespace

std::string incident_section(const RunRecord& run) {
  std::vector<const StepRecord*> skipped;
  for (const StepRecord& step : run.steps)
    if (step.skipped) skipped.push_back(&step);
  std::string text =
      "<section id=\"incidents\"><h2>Incidents</h2>\n<p class=\"about\">Steps that changed no "
      "parameter because loss or gradient was not finite, and records that could not be "
      "used.</p>\n";
  if (skipped.empty() && run.refused.empty())
    return text +
           "<p class=\"missing\">None: every step counted and every record was used.</p>"
           "</section>\n";
  text += "<div class=\"grid\" style=\"grid-template-columns:minmax(0,1fr)\">";
  if (!skipped.empty()) text += skipped_table(skipped);
  if (!run.refused.empty()) text += refused_table(run.refused);
  return text + "</div></section>\n";
}

std::string model_section(const RunRecord& run) {
  std::string text =
      "<section id=\"model\"><h2>Model</h2>\n<p class=\"about\">Parameters by module, and which of "
      "them the run changes.</p>\n";
  if (run.modules.empty())
    return text + missing_box("environment.json", "it does not name the modules of the model.") +
           "</section>\n";
  ModuleRecord all{.name = "all", .trained_parameters = 0, .bytes = 0};
  for (const ModuleRecord& module : run.modules) {
    all.parameters += module.parameters;
    add_known(all.trained_parameters, module.trained_parameters);
    add_known(all.bytes, module.bytes);
  }
  text +=
      "<div class=\"card scroll\"><table><tr><th>module</th><th class=\"number\">parameters</th>"
      "<th class=\"number\">share</th><th></th><th class=\"number\">trained parameters</th>"
      "<th>stored as</th><th class=\"number\">bytes</th></tr>\n";
  for (const ModuleRecord& module : run.modules)
    text += module_row(module, all.parameters, module.trained ? "trained" : "frozen");
  return text + module_row(all, all.parameters, "") + "</table></div></section>\n";
}

std::string configuration_section(const RunRecord& run) {
  return str(
      "<section id=\"configuration\"><h2>Configuration</h2>\n<p class=\"about\">Every key of the "
      "run with its value; <code>tributary train config.yaml</code> repeats the run.</p>\n"
      "<details class=\"card\"><summary>config.yaml</summary><pre>",
      colour_yaml(run.config), "</pre></details></section>\n");
}

std::string environment_section(const RunRecord& run) {
  std::string text = "<section id=\"environment\"><h2>Environment</h2>\n";
  if (run.environment.empty())
    return text + missing_box("environment.json", "versions and machine were not recorded.") +
           "</section>\n";
  text += "<div class=\"card scroll\"><table>\n";
  for (const auto& [key, value] : run.environment)
    text += str("<tr><td class=\"name\" title=\"", html(key), "\">", html(name_of(key)),
                "</td><td class=\"mono\">", shown_value(key, value), "</td></tr>\n");
  return text + "</table></div></section>\n";
}

}  // namespace tributary::app
