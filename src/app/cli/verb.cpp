#include "app/cli/verb.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <map>
#include <new>

#include "core/error.h"
#include "core/log.h"

namespace tributary::app {

struct Verb::State {
  CLI::App* app = nullptr;
};

void Verb::positional(const std::string& name, std::string& value, const std::string& help) {
  state_.app->add_option(name, value, help)->required();
}
void Verb::rest(const std::string& name, std::vector<std::string>& values,
                const std::string& help) {
  state_.app->add_option(name, values, help);
}
void Verb::option(const std::string& names, std::string& value, const std::string& help) {
  state_.app->add_option(names, value, help)->capture_default_str();
}
void Verb::option(const std::string& names, std::optional<std::string>& value,
                  const std::string& help) {
  state_.app->add_option(names, value, help);
}
void Verb::option(const std::string& names, std::int64_t& value, const std::string& help) {
  state_.app->add_option(names, value, help)->capture_default_str();
}
void Verb::option(const std::string& names, double& value, const std::string& help) {
  state_.app->add_option(names, value, help)->capture_default_str();
}
void Verb::option(const std::string& names, std::vector<std::string>& values,
                  const std::string& help) {
  state_.app->add_option(names, values, help)->type_size(1)->allow_extra_args(false);
}
void Verb::required(const std::string& names, std::string& value, const std::string& help) {
  state_.app->add_option(names, value, help)->required();
}
void Verb::required(const std::string& names, std::int64_t& value, const std::string& help) {
  state_.app->add_option(names, value, help)->required();
}
void Verb::flag(const std::string& names, bool& value, const std::string& help) {
  state_.app->add_flag(names, value, help);
}
void Verb::example(const std::string& line) { state_.app->footer("Example:\n  " + line); }

namespace {

struct DeclaredVerb {
  Verb::State state;
  Run run;
};

/// Adds every verb of the list; the returned map keeps what the parser refers to.
std::map<const CLI::App*, DeclaredVerb> declare_all(CLI::App& root) {
  std::map<const CLI::App*, DeclaredVerb> declared;
  std::map<std::string, CLI::App*> groups;
  for (const Command& command : all_commands()) {
    const std::size_t space = command.name.find(' ');
    CLI::App* parent = &root;
    if (space != std::string::npos) {
      CLI::App*& group = groups[command.name.substr(0, space)];
      if (group == nullptr) {
        group = root.add_subcommand(command.name.substr(0, space), "");
        group->require_subcommand(1);
      }
      parent = group;
    }
    const std::string own_name = command.name.substr(space == std::string::npos ? 0 : space + 1);
    if (parent != &root)
      parent->description(parent->get_description() +
                          (parent->get_description().empty() ? "" : ", ") + own_name);
    CLI::App* app = parent->add_subcommand(own_name, command.summary);
    DeclaredVerb& verb = declared[app];
    verb.state.app = app;
    Verb arguments(verb.state);
    verb.run = command.declare(arguments);
  }
  return declared;
}

const CLI::App* chosen_verb(const CLI::App& root) {
  const CLI::App* verb = &root;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return verb;
}

int exit_with(ExitCode code) { return static_cast<int>(code); }

int run_guarded(const Run& run) {
  try {
    return exit_with(run());
  } catch (const Error& error) {
    log_note(error.what());
    return exit_with(error.exit_code());
  } catch (const std::bad_alloc&) {
    log_note("resource error: app: out of memory; fix: lower batch.capacity_tokens");
    return exit_with(ExitCode::kResource);
  } catch (const std::exception& error) {
    log_note(str("bug: app: unexpected exception; found: ", error.what()));
    return exit_with(ExitCode::kBug);
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App root("Tributary trains multimodal models: profiles, plans, simulates, trains, reports.",
                "tributary");
  root.require_subcommand(1);
  root.set_help_all_flag("--help-all", "Print the help of every verb");
  root.set_version_flag("--version", "tributary 0.1.0");
  root.footer("Example:\n  tributary train configs/demo.yaml");
  const auto declared = declare_all(root);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    if (stop.get_exit_code() == 0) return root.exit(stop);  // --help, --version
    log_note(str("input error: app: command line not understood; found: ", stop.what(),
                 "; fix: see `tributary ", argc > 1 ? argv[1] : "", " --help`"));
    return exit_with(ExitCode::kInput);
  }
  return run_guarded(declared.at(chosen_verb(root)).run);
}

}  // namespace tributary::app
