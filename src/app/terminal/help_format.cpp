#include "app/terminal/help_format.h"

#include <sstream>

namespace tributary::app {
namespace {

constexpr std::size_t kWidth = 96;

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string row;
    for (std::string word; words >> word;) {
      if (!row.empty() && row.size() + 1 + word.size() > width) {
        all += row + "\n";
        row.clear();
      }
      row += (row.empty() ? "" : " ") + word;
    }
    all += row + "\n";
  }
  if (!all.empty()) all.pop_back();
  return all;
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return wrapped(Formatter::make_description(app), kWidth) + "\n";
}

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_display_name(true),
                           wrapped(verb->get_description(), kWidth - get_column_width()),
                           get_column_width());
  return out.str();
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kWidth - get_column_width());
}

}  // namespace tributary::app
