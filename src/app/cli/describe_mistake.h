#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tributary::app {

/// Says in one line what is wrong with a command line that the parser refused, with the nearest
/// verb or option. `refusal` is what the parser said.
[[nodiscard]] std::string describe_mistake(const CLI::App& root, std::vector<std::string> words,
                                           const std::string& refusal);

}  // namespace tributary::app
