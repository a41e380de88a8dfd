#include "app/requests/given_options.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::app {
namespace {

[[noreturn]] void refuse_ignored(const std::string& option, const std::string& found,
                                 const std::string& expected) {
  TRIB_RAISE(Fault::kInput, .what = "app: option would count for nothing", .where = option,
             .found = found, .expected = expected, .fix = "leave it out");
}

}  // namespace

bool GivenOptions::has(const std::string& option) const {
  if (!list_) return false;
  const std::vector<std::string> given = list_();
  return std::find(given.begin(), given.end(), option) != given.end();
}

std::string GivenOptions::name(const std::string& option) const {
  if (caller_ == Caller::kCommandLine || !option.starts_with("--")) return option;
  std::string argument = option.substr(option.starts_with("--no-") ? 5 : 2);
  std::replace(argument.begin(), argument.end(), '-', '_');
  return argument;
}

void GivenOptions::refuse(std::initializer_list<std::string> options, const std::string& found,
                          const std::string& expected) const {
  for (const std::string& option : options)
    if (has(option)) refuse_ignored(name(option), found, expected);
}

void GivenOptions::refuse_all_but(std::initializer_list<std::string> options,
                                  const std::string& found) const {
  if (!list_) return;
  std::string known;
  for (const std::string& option : options) known += (known.empty() ? "" : ", ") + name(option);
  for (const std::string& option : list_())
    if (std::find(options.begin(), options.end(), option) == options.end())
      refuse_ignored(name(option), found, str("none but ", known));
}

void GivenOptions::require(std::initializer_list<std::string> options,
                           const std::string& other) const {
  if (!has(other)) refuse(options, str("no ", name(other)), str(name(other), " beside it"));
}

}  // namespace tributary::app
