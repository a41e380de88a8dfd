#include "app/python/given_arguments.h"

#include <nlohmann/json.hpp>

namespace tributary::app {

GivenOptions given_arguments(const Json& arguments, bool has_lengths) {
  std::vector<std::string> given;
  if (has_lengths) given.push_back(argument_name(Caller::kCommandLine, "lengths"));
  for (const auto& [name, value] : arguments.items())
    if (value != false) given.push_back(argument_name(Caller::kCommandLine, name));
  return GivenOptions([given] { return given; }, Caller::kPython);
}

}  // namespace tributary::app
