#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tributary::app {

/// Breaks a text at spaces into lines of at most `width` characters. Longer words stay whole, and
/// line breaks of the text are kept.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);

/// Formats --help in at most 96 columns on every terminal, because docs/cli.md shows it too.
class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace tributary::app
