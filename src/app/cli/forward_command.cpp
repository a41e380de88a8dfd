#include <iostream>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/engine/engine.h"

namespace tributary::app {

Run declare_forward(Verb& verb) {
  // Shared with the Run, which outlives this call.
  const auto options = std::make_shared<ForwardOptions>();
  verb.positional("MODEL_DIR", options->model, "Hugging Face directory");
  verb.positional("INPUTS", options->inputs,
                  "safetensors with the tensors of a Hugging Face processor: input_ids [B,S], "
                  "attention_mask, position_ids, pixel_values, image_grid_thw, "
                  "pixel_values_videos, video_grid_thw, second_per_grid_ts, labels");
  verb.required("-o,--output", options->output,
                "safetensors to write: logits [B,S,V] (zeros at padding), and loss when there are "
                "labels: the mean over all targets; all in f32");
  verb.flag("--gradients", options->gradients,
            "Also write the gradient of every parameter under its checkpoint name");
  verb.option("--adapter", options->adapter,
              "PEFT directory of an adapter over the model: gradients are then those of its "
              "parameters alone");
  verb.option("--mrope", options->mrope,
              "Positions of clips where they are derived: hf5 (transformers 5.9 to 5.17) or "
              "official");
  verb.option("--device", options->device, "cpu, cuda or cuda:N; all in f32");
  verb.example("tributary forward Qwen2.5-0.5B inputs.safetensors -o outputs.safetensors");
  return [options, answer = verb.answer()] {
    const ExitCode code = load_engine(engine_for(options->device)).forward(*options);
    std::cout << "wrote " << options->output << "\n";
    answer.give({{"output", options->output}});
    return code;
  };
}

}  // namespace tributary::app
