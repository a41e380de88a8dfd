#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tributary::app {

/// Breaks a text at spaces so that no line is longer than `width`; words that are longer stay
/// whole, and so do the breaks that are there.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);

/// Help of at most 96 columns, whatever its texts and terminal: the pages of the manual show it.
class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace tributary::app
