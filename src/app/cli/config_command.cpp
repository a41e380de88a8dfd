#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "config/reading/yaml_json.h"
#include "config/run/read_run_config.h"
#include "core/error.h"

namespace tributary::app {

Run declare_config(Verb& verb) {
  struct Arguments {
    std::vector<std::string> words;
    bool keys = false;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  verb.rest("CONFIG.yaml [key.path=value ...]", arguments->words,
            "file to check, then values that replace its own");
  verb.flag("--keys", arguments->keys, "print every key as Markdown, as docs/configuration.md");
  verb.flag("--json", arguments->json, "print the configuration as one JSON object");
  verb.example("tributary config configs/own_data.yaml run.steps=100");
  return [arguments] {
    const std::vector<std::string>& words = arguments->words;
    TRIB_REQUIRE(!arguments->keys || !arguments->json, .what = "config: keys have no JSON form",
                 .found = "--keys and --json", .expected = "one of both");
    TRIB_REQUIRE(words.empty() == arguments->keys, .what = "config: nothing to do",
                 .found = arguments->keys ? "a file and --keys" : "no file",
                 .expected = "a configuration file, or --keys alone");
    if (arguments->keys) {
      std::cout << config::describe_keys();
    } else {
      const std::span<const std::string> overrides = std::span(words).subspan(1);
      const std::string text =
          config::write_run_config(config::read_run_config(words.front(), overrides));
      std::cout << (arguments->json ? config::parse_yaml_as_json(text, words.front()).dump(1) + "\n"
                                    : text);
    }
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
