// The verb `forward` for many models in one process: the load of libtorch takes longer than a tiny
// model. A line on standard input is a JSON object with the verb's options; the answer is a line
// with "", or with the error.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "app/engine/engine.h"
#include "core/error.h"
#include "core/json.h"

int main() {
  using namespace tributary;
  const app::Engine& engine = app::load_engine();
  for (std::string line; std::getline(std::cin, line);) {
    std::string error;
    try {
      const Json given = parse_json(line, "standard input");
      (void)engine.forward({.model = given.at("model"),
                            .inputs = given.at("inputs"),
                            .output = given.at("output"),
                            .adapter = given.at("adapter"),
                            .gradients = given.at("gradients")});
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    std::cout << Json(error).dump() << std::endl;
  }
}
