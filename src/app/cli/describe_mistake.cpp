#include "app/cli/describe_mistake.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/error.h"
#include "core/join.h"
#include "core/nearest_name.h"

namespace tributary::app {
namespace {

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

/// The first of `words` that begins with `--` and is no option of the verb; else empty.
std::string unknown_option(const CLI::App& verb, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && name.size() > 2 && verb.get_option_no_throw(name) == nullptr)
      return name;
  }
  return "";
}

std::string nearest_option(const CLI::App& verb, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
  return nearest_name(name, known);
}

}  // namespace

std::string describe_mistake(const CLI::App& root, std::vector<std::string> words,
                             const std::string& refusal) {
  const CLI::App* verb = &root;
  std::string path = "tributary";
  const auto known = [&] { return names_below(*verb); };
  while (!words.empty() && !known().empty()) {
    const auto names = known();
    if (std::find(names.begin(), names.end(), words.front()) == names.end()) break;
    verb = verb->get_subcommand(words.front());
    path += " " + words.front();
    words.erase(words.begin());
  }
  std::string text = "input error: app: command line not understood; found: ";
  std::string hint;
  const bool is_option = !words.empty() && words.front().starts_with('-');
  if (!known().empty() && !is_option) {
    const std::string nearest = words.empty() ? "" : nearest_name(words.front(), known());
    if (!nearest.empty()) hint = str("did you mean ", path, " ", nearest, "? ");
    text += str(words.empty() ? "no verb after " + path : "no verb " + escaped(words.front()),
                "; expected: one of ", join(known()));
  } else {
    const std::string unknown = unknown_option(*verb, words);
    const std::string nearest = unknown.empty() ? "" : nearest_option(*verb, unknown);
    if (unknown.find('.') != std::string::npos) {
      hint = str("keys have no dashes and one `=`: ", unknown.substr(2), "=VALUE; ");
    } else if (!nearest.empty()) {
      hint = str("did you mean ", nearest, "? ");
    } else if (refusal.starts_with("--resume: ")) {
      hint = "`--resume auto` goes on from the newest checkpoint; ";
    } else if (refusal.find("required TEXT missing") != std::string::npos) {
      hint = "write a value behind it; ";
    }
    text += refusal;
  }
  return str(text, "; fix: ", hint, "see `", path, " --help`");
}

}  // namespace tributary::app
