#include "app/cli/shell_script.h"

#include <map>

#include "core/join.h"
#include "core/text.h"

namespace tributary::app {
namespace {

/// The text in single quotes, as all three shells read it.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + safe + "'";
}

/// The first sentence or clause of a help text: what fits beside a word.
std::string shortened(const std::string& help) {
  constexpr std::size_t kMaxBytes = 60;
  std::string text = help.substr(0, help.find_first_of(";\n"));
  if (text.size() <= kMaxBytes) return text;
  return text.substr(0, text.rfind(' ', kMaxBytes)) + " ...";
}

/// The keys of a configuration, each with the sign behind which its value stands.
std::string key_words(const ShellWords& words) {
  return join(words.keys, " ", [](const std::string& key) { return key + "="; });
}

std::vector<std::string> option_names(const VerbWords& verb) {
  std::vector<std::string> names;
  for (const VerbOption& option : verb.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// The words of each level: verbs and groups, below "" all first ones.
std::map<std::string, std::vector<std::string>> levels_of(const ShellWords& words) {
  std::map<std::string, std::vector<std::string>> levels;
  for (const VerbWords& verb : words.verbs) {
    const std::size_t space = verb.name.find(' ');
    const std::string first = verb.name.substr(0, space);
    std::vector<std::string>& top = levels[""];
    if (top.empty() || top.back() != first) top.push_back(first);
    if (space != std::string::npos) levels[first].push_back(verb.name.substr(space + 1));
  }
  return levels;
}

/// Cases of bash and zsh that go from the verb so far, and a word, to the verb behind it.
std::string verb_cases(const ShellWords& words) {
  std::string text = "      launch/--) verb= ;;\n";
  for (const auto& [before, names] : levels_of(words))
    for (const std::string& name : names)
      text += str("      ", quoted(before + "/" + name),
                  ") verb=", quoted(before.empty() ? name : before + " " + name), " ;;\n");
  return text;
}

constexpr const char* kCommonOptions = "--verbose";  // beside the verb's own

}  // namespace

std::string bash_script(const ShellWords& words) {
  std::string text = str(R"(# bash completion of tributary; made by `tributary completion bash`
_tributary() {
  local current=${COMP_WORDS[COMP_CWORD]} verb= options= names= keys= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $verb/${COMP_WORDS[i]} in
)",
                         verb_cases(words), "    esac\n  done\n  case $verb in\n");
  for (const auto& [before, names] : levels_of(words))
    text += str("    ", quoted(before), ") names=", quoted(join(names, " ")), " ;;\n");
  for (const VerbWords& verb : words.verbs)
    text += str("    ", quoted(verb.name), ") options=", quoted(join(option_names(verb), " ")),
                verb.takes_keys ? " keys=1" : "", " ;;\n");
  return str(text, R"(  esac
  COMPREPLY=()
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options )",
             kCommonOptions, R"(" -- "$current"))
  elif [[ -n $names ]]; then
    COMPREPLY=($(compgen -W "$names" -- "$current"))
  elif [[ -n $keys && -n $current ]]; then
    COMPREPLY=($(compgen -W ")",
             key_words(words), R"(" -- "$current"))
    ((${#COMPREPLY[@]})) && compopt -o nospace
  fi
}
complete -o bashdefault -o default -F _tributary tributary
)");
}

std::string zsh_script(const ShellWords& words) {
  std::string text = str(R"(#compdef tributary
# zsh completion of tributary; made by `tributary completion zsh`
_tributary() {
  local verb= i
  local -a options names keys
  for ((i = 2; i < CURRENT; i++)); do
    case $verb/${words[i]} in
)",
                         verb_cases(words), "    esac\n  done\n  case $verb in\n");
  const auto described = [](const std::string& name, const std::string& help) {
    return " " + quoted(name + ":" + shortened(help));
  };
  for (const auto& [before, names] : levels_of(words)) {
    text += str("    ", quoted(before), ") names=(");
    for (const std::string& name : names) {
      std::string summary;
      for (const VerbWords& verb : words.verbs)
        if (verb.name == (before.empty() ? name : before + " " + name)) summary = verb.summary;
      text += described(name, summary);
    }
    text += " ) ;;\n";
  }
  for (const VerbWords& verb : words.verbs) {
    text += str("    ", quoted(verb.name), ") options=(");
    for (const VerbOption& option : verb.options)
      for (const std::string& name : option.names) text += described(name, option.help);
    text += str(" )", verb.takes_keys ? " keys=(1)" : "", " ;;\n");
  }
  return str(text, R"(  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    options+=( --verbose:'Show what is folded otherwise' )
    _describe -o option options
  elif (( ${#names} )); then
    _describe verb names
  else
    if (( ${#keys} )); then
      compadd -S '' -- )",
             key_words(words), R"(
    fi
    _files
  fi
}
if [[ $funcstack[1] == _tributary ]]; then _tributary "$@"; else compdef _tributary tributary; fi
)");
}

std::string fish_script(const ShellWords& words) {
  std::string text = "# fish completion of tributary; made by `tributary completion fish`\n";
  const auto line = [&](const std::string& condition, const std::string& rest) {
    text += str("complete -c tributary -n ", quoted(condition), " ", rest, "\n");
  };
  const auto levels = levels_of(words);
  for (const VerbWords& verb : words.verbs) {
    const std::size_t space = verb.name.find(' ');
    const std::string first = verb.name.substr(0, space);
    std::string seen = "__fish_seen_subcommand_from " + first;
    if (space == std::string::npos) {
      line("__fish_use_subcommand", str("-f -a ", first, " -d ", quoted(shortened(verb.summary))));
    } else {
      const std::string own = verb.name.substr(space + 1);
      if (levels.at(first).front() == own) line("__fish_use_subcommand", str("-f -a ", first));
      line(str(seen, "; and not __fish_seen_subcommand_from ", join(levels.at(first), " ")),
           str("-f -a ", own, " -d ", quoted(shortened(verb.summary))));
      seen += "; and __fish_seen_subcommand_from " + own;
    }
    for (const VerbOption& option : verb.options) {
      std::string names;
      for (const std::string& name : option.names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      line(seen, str(names.substr(1), option.takes_value ? " -r" : "", " -d ",
                     quoted(shortened(option.help))));
    }
    if (verb.takes_keys) line(seen, "-a " + quoted(key_words(words)));
  }
  return text;
}

}  // namespace tributary::app
