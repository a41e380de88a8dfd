#include "app/cli/verb.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <ios>
#include <iostream>
#include <map>
#include <new>
#include <poll.h>
#include <sstream>
#include <unistd.h>
#include <variant>

#include "app/cli/describe_mistake.h"
#include "app/engine/engine.h"
#include "app/terminal/help_format.h"
#include "app/terminal/show_error.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "core/launch_variables.h"
#include "core/log.h"
#include "core/split_text.h"

namespace tributary::app {

struct Verb::State {
  CLI::App* app = nullptr;
  std::optional<Answer> answer = {};
  BeforeLaunch before_launch = {};
};

namespace {

/// CLI11 silently clamps a number that is out of range; this refuses it.
std::string refuse_out_of_range(std::string& text) {
  errno = 0;
  (void)std::strtoll(text.c_str(), nullptr, 0);  // in every base that the parser accepts
  return errno == ERANGE ? str("number out of range: ", text, ", expected -2^63 to 2^63 - 1") : "";
}

/// Refuses an empty text, such as an unset variable of a script: the default would silently apply.
std::string refuse_empty(std::string& text) {
  return text.empty() ? "an empty text; leave the option out for its default" : "";
}

CLI::Option* add_whole(CLI::App& app, const std::string& names, std::int64_t& value,
                       const std::string& help) {
  return app.add_option(names, value, help)->check(CLI::Validator(refuse_out_of_range, ""));
}

/// errors: Fault::kInput when the list holds only commas and spaces
std::vector<std::string> split_words(const std::string& option, const std::string& list) {
  std::vector<std::string> words;
  for (const std::string_view word : split_at(',', list, " "))
    if (!word.empty()) words.emplace_back(word);
  TRIB_REQUIRE(!words.empty(), .what = "app: list names nothing", .where = option,
               .found = escaped(list), .expected = "names, a comma between them",
               .fix = "leave it out for the default");
  return words;
}

/// Declares a field by the type of its value.
struct FieldDeclaration {
  CLI::App& app;
  Verb& verb;
  const RequestField& field;
  std::string names = option_names(field);

  void operator()(bool* value) const {
    if (*value)
      app.add_flag_callback(
          names, [value] { *value = false; }, field.help);
    else
      verb.flag(names, *value, field.help);
  }
  void operator()(std::vector<std::string>* words) const {
    const auto read = [words, option = names](const std::string& text) {
      *words = split_words(option, text);
    };
    app.add_option_function<std::string>(names, read, field.help)
        ->check(CLI::Validator(refuse_empty, ""));
  }
  void operator()(Document* document) const {
    if (names.starts_with('-'))
      verb.option(names, document->text, field.help);
    else if (field.is_required)
      verb.positional(names, document->text, field.help);
    else
      verb.optional_positional(names, document->text, field.help);
  }
  template <class Value>
  void operator()(Value* value) const {
    verb.option(names, *value, field.help);
  }
};

}  // namespace

void Verb::positional(const std::string& name, std::string& value, const std::string& help) {
  state_.app->add_option(name, value, help)->required();
}
void Verb::optional_positional(const std::string& name, std::string& value,
                               const std::string& help) {
  state_.app->add_option(name, value, help);
}
void Verb::rest(const std::string& name, std::vector<std::string>& values,
                const std::string& help) {
  state_.app->add_option(name, values, help);
}
void Verb::option(const std::string& names, std::string& value, const std::string& help) {
  state_.app->add_option(names, value, help)
      ->check(CLI::Validator(refuse_empty, ""))
      ->capture_default_str();
}
void Verb::option(const std::string& names, std::optional<std::string>& value,
                  const std::string& help) {
  state_.app->add_option(names, value, help);
}
void Verb::option(const std::string& names, std::int64_t& value, const std::string& help) {
  add_whole(*state_.app, names, value, help)->capture_default_str();
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
  add_whole(*state_.app, names, value, help)->required();
}
void Verb::flag(const std::string& names, bool& value, const std::string& help) {
  state_.app->add_flag(names, value, help);
}
Answer Verb::answer() {
  Answer answer = state_.answer.emplace();
  flag("--json", answer.is_asked(),
       "print one JSON object, and errors as JSON; text goes to standard error");
  return answer;
}
void Verb::fields(const std::vector<RequestField>& fields) {
  for (const RequestField& field : fields)
    std::visit(FieldDeclaration{.app = *state_.app, .verb = *this, .field = field}, field.value);
}
GivenOptions Verb::given() const {
  return GivenOptions([app = state_.app] {
    std::vector<std::string> names;
    for (const CLI::Option* option : app->get_options())
      if (option->count() > 0)
        names.push_back(option->get_lnames().empty() ? option->get_name()
                                                     : "--" + option->get_lnames().front());
    return names;
  });
}
void Verb::before_launch(BeforeLaunch check) { state_.before_launch = std::move(check); }
void Verb::example(const std::string& line) { state_.app->footer("Example:\n  " + line); }
void Verb::note(const std::string& lines) {
  state_.app->footer(state_.app->get_footer() + "\n\n" + lines);
}

namespace {

struct DeclaredVerb {
  Verb::State state;
  Run run;
};

std::string name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::kTrain:
      return "Train";
    case Purpose::kLook:
      return "Look at";
    case Purpose::kPlan:
      break;
  }
  return "Plan";
}

/// Adds every verb of the list to the parser. The returned map owns the values that it refers to.
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
        group->require_subcommand(1)->group(name_of(command.purpose));
      }
      parent = group;
    }
    const std::string own_name = command.name.substr(space == std::string::npos ? 0 : space + 1);
    if (parent != &root)
      parent->description(parent->get_description() +
                          (parent->get_description().empty() ? "" : ", ") + own_name);
    CLI::App* app = parent->add_subcommand(own_name, command.summary);
    app->group(parent == &root ? name_of(command.purpose) : "Subcommands");
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

constexpr const char* kBugFix =
    "this is a mistake of Tributary: please report it with this output and that of `tributary "
    "doctor`, as CONTRIBUTING.md says";

/// The message for an exception that is not an Error.
std::string described(Fault fault, const std::string& what, const std::exception& error) {
  return Error(fault,
               {.what = what, .found = error.what(), .fix = fault == Fault::kBug ? kBugFix : ""},
               std::source_location::current())
      .what();
}

/// Shows an error; returns the exit code.
int fail(std::string_view error, ExitCode code) {
  std::cout.flush();  // under --json text goes where errors go, and the error is the last line
  show_error(error, exit_with(code));
  return exit_with(code);
}

int run_guarded(const Run& run) {
  try {
    return exit_with(run());
  } catch (const Error& error) {
    const int code = fail(error.what(), error.exit_code());
    if (error.fault() == Fault::kBug && error.parts().fix.empty() && !shows_json())
      log_note(kBugFix);
    return code;
  } catch (const std::bad_alloc&) {
    return fail(str("resource error: app: out of memory; fix: ", config::kOutOfMemoryFix),
                ExitCode::kResource);
  } catch (const std::ios_base::failure& error) {  // a file operation that nothing else checked
    return fail(described(Fault::kResource, "app: a file cannot be used", error),
                ExitCode::kResource);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(described(Fault::kResource, "app: a file cannot be used", error),
                ExitCode::kResource);
  } catch (const std::exception& error) {
    return fail(described(Fault::kBug, "app: unexpected exception", error), ExitCode::kBug);
  }
}

/// Whether standard output was lost, for example on a full disk. It does not count as lost when the
/// reader closed the pipe.
bool is_output_lost() {
  std::cout.flush();
  const bool failed = std::cout.fail() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return false;
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  const bool reader_is_gone = poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
  return !reader_is_gone;
}

/// The exit code of a verb; a verb that succeeded but whose output was lost has failed. A rank of
/// `launch` only warns, because a restart would not bring its lines back.
int after_output(int code) {
  if (!is_output_lost()) return code;
  constexpr const char* kLost = "app: standard output cannot be written, and is lost in part";
  if (std::getenv(kAttemptVariable) != nullptr) {
    log_warning(kLost);
    return code;
  }
  const int lost = fail(str("resource error: ", kLost, "; fix: make room where it is written to"),
                        ExitCode::kResource);
  return code == 0 ? lost : code;
}

/// Whether an error is to be shown as JSON, also one of the command line itself. Behind `--` are
/// the words of another verb.
bool asks_for_json(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end && std::getenv(kAttemptVariable) == nullptr;
}

/// `-o` and `--output`.
std::vector<std::string> option_words(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  return words;
}

/// What stands before the verbs.
void add_common_options(CLI::App& root) {
  root.require_subcommand(1);
  root.fallthrough();
  root.set_help_all_flag("--help-all", "Print the help of every verb");
  root.set_version_flag("-v,--version", "tributary 0.1.0");
  root.add_flag("--verbose", is_verbose(),
                "Show what is folded otherwise, and the source line that raised an error");
}

/// Translates `help VERB` and `version`, which people type as verbs, into the options.
void translate_words(std::vector<std::string>& words) {
  if (words.front() == "version" && words.size() == 1) words.front() = "--version";
  if (words.front() != "help") return;
  words.erase(words.begin());
  words.emplace_back("--help");
}

}  // namespace

std::vector<VerbWords> list_verb_words() {
  CLI::App root;
  const auto declared = declare_all(root);
  std::vector<VerbWords> verbs;
  for (const Command& command : all_commands()) {
    CLI::App* app = &root;
    std::istringstream name(command.name);
    for (std::string word; name >> word;) app = app->get_subcommand(word);
    VerbWords& verb =
        verbs.emplace_back(VerbWords{.name = command.name, .summary = command.summary});
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) {
        verb.takes_keys =
            verb.takes_keys || option->get_name().find(kKeyWords) != std::string::npos;
        continue;
      }
      verb.options.push_back({.names = option_words(*option),
                              .takes_value = option->get_items_expected_max() > 0,
                              .help = option->get_description()});
    }
  }
  return verbs;
}

BesideRanks check_before_launch(const std::vector<std::string>& words, std::int64_t ranks,
                                const std::vector<std::string>& keys) {
  CLI::App root;
  add_common_options(root);
  const auto declared = declare_all(root);
  try {
    root.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError&) {
    return {.is_read = false};
  }
  const auto& check = declared.at(chosen_verb(root)).state.before_launch;
  return check ? check(ranks, keys) : BesideRanks();
}

int run_command_line(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  CLI::App root("Tributary trains multimodal models: profiles, plans, simulates, trains, reports.",
                "tributary");
  root.formatter(std::make_shared<HelpFormat>());
  add_common_options(root);
  root.footer(
      "`tributary help VERB` explains a verb. Example:\n  tributary train configs/demo.yaml");
  const auto declared = declare_all(root);
  if (words.empty()) {
    std::cerr << root.help();
    return exit_with(ExitCode::kInput);
  }
  translate_words(words);
  shows_json() = asks_for_json(words);
  try {
    root.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& stop) {
    if (stop.get_exit_code() == 0) return after_output(root.exit(stop));  // --help, --version
    return fail(describe_mistake(root, words, stop.what()), ExitCode::kInput);
  } catch (const Error& error) {  // from a callback that reads a value
    return fail(error.what(), error.exit_code());
  }
  const DeclaredVerb& verb = declared.at(chosen_verb(root));
  return after_output(run_guarded([&verb] {
    if (verb.state.answer && verb.state.answer->is_asked()) verb.state.answer->take_output();
    return verb.run();
  }));
}

}  // namespace tributary::app
