// Loads the model of a Hugging Face directory and writes it again, for the round trips of
// vision_language_parity.py.

#include <exception>
#include <iostream>

#include <ATen/ATen.h>

#include "model/model.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: export_model MODEL_DIRECTORY NEW_DIRECTORY\n";
    return 64;
  }
  using namespace tributary;
  try {
    const auto model = model::make_model(config::read_model_config(arguments[1]));
    for (const auto& unit : model->units())
      unit->materialize(at::kCPU, at::kFloat, /*trainable=*/false);
    model::load_weights(*model, arguments[1]);
    model::export_weights(*model, arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
