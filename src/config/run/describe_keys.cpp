#include <algorithm>
#include <iterator>

#include "config/run/read_run_config.h"
#include "config/run/run_keys.h"
#include "core/text.h"

namespace tributary::config {
namespace {

constexpr const char* kIntroduction =
    R"(# Configuration of a run

<!-- Written by `tributary config --keys`; a test holds this file against the table of the parser. -->

One YAML file describes a run: `tributary train CONFIG.yaml [key.path=value ...]`. The whole file is checked before anything is loaded, and every problem is reported at once with its line. `tributary config CONFIG.yaml` checks a file and prints the resolved configuration; `tributary train` saves that as `config.yaml` in the run directory, and it reads back as a configuration.

- An override on the command line is written as in YAML; items of a list go by number from 0: `data.sources.0.weight=2`, `model.freeze=[vision]`. A text is taken as it stands. The last one of a key counts.
- Relative paths start at the current directory of the command, not at the file; a `~/` in front is the home directory.
- Duplicate keys, anchors, aliases, merge keys, tags and files above 1 MiB are refused.
)";

std::string section_heading(const std::string& section) {
  if (!section.ends_with("[]")) return str("\n## ", section, "\n");
  const KeyList* list = find_key_list(section.substr(0, section.size() - 2));
  return str("\n### ", section, "\n\n", list->meaning, " A list of maps",
             list->required ? "; at least one is required.\n" : "; may be empty.\n");
}

std::string type_of(const Key& key) {
  switch (key.type) {
    case KeyType::kFlag:
      return "flag";
    case KeyType::kWhole:
      return "whole number";
    case KeyType::kDegree:
      return "whole number or `auto`";
    case KeyType::kNumber:
      return "number";
    case KeyType::kText:
      return key.choices.empty() ? "text" : "choice";
    case KeyType::kTexts:
      return "list";
    case KeyType::kRanks:
      return "ranks";
  }
  return "";
}

/// Escapes bars, which would end the cell.
std::string cell(const std::string& text) {
  std::string escaped_text;
  for (const char c : text) escaped_text += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped_text;
}

std::string row(const Key& key, const RunConfig& defaults) {
  const std::string value = write_value(key.get(defaults, 0));
  return str("| `", key.path.substr(key.path.rfind('.') + 1), "` | ", type_of(key), " | ",
             key.unit.empty() ? "–" : key.unit, " | ",
             key.required ? "**required**" : str("`", cell(value), "`"), " | ",
             describe_allowed(key), " | ", cell(key.meaning), " |\n");
}

std::string table_of(const Key& key) { return key.path.substr(0, key.path.rfind('.')); }

/// The sections in the order of the table, a list after the section that it stands in.
std::vector<std::string> list_sections() {
  std::vector<std::string> sections;
  for (const bool lists : {false, true}) {
    for (const Key& key : all_keys()) {
      const std::string section = table_of(key);
      if (section.ends_with("[]") != lists ||
          std::find(sections.begin(), sections.end(), section) != sections.end())
        continue;
      const auto parent =
          std::find(sections.begin(), sections.end(), section.substr(0, section.find('.')));
      sections.insert(lists ? std::next(parent) : sections.end(), section);
    }
  }
  return sections;
}

}  // namespace

std::string describe_keys() {
  RunConfig defaults;
  for (const KeyList& list : all_key_lists()) list.resize(defaults, 1);
  std::string text = kIntroduction;
  for (const std::string& section : list_sections()) {
    text += section_heading(section) +
            "\n| key | type | unit | default | allowed | meaning |\n"
            "| --- | --- | --- | --- | --- | --- |\n";
    for (const Key& key : all_keys())
      if (table_of(key) == section) text += row(key, defaults);
  }
  return text;
}

}  // namespace tributary::config
