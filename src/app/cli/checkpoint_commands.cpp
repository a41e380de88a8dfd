#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/engine/engine.h"

namespace tributary::app {

Run declare_checkpoint_inspect(Verb& verb) {
  const auto options = std::make_shared<CheckpointOptions>();
  verb.positional("PATH", options->checkpoint,
                  "checkpoint, run (its newest), Hugging Face directory or safetensors file");
  verb.flag("--json", options->json, "print one JSON object");
  verb.example("tributary checkpoint inspect runs/demo");
  return [options] { return load_engine().inspect_checkpoint(*options); };
}

Run declare_checkpoint_verify(Verb& verb) {
  const auto options = std::make_shared<CheckpointOptions>();
  verb.positional("PATH", options->checkpoint, "checkpoint, or run: its newest");
  verb.flag("--json", options->json, "print one JSON object");
  verb.example("tributary checkpoint verify runs/demo/checkpoints/step-900");
  return [options] { return load_engine().verify_checkpoint(*options); };
}

Run declare_checkpoint_export(Verb& verb) {
  const auto options = std::make_shared<CheckpointOptions>();
  verb.positional("PATH", options->checkpoint, "checkpoint, or run: its newest");
  verb.required("-o,--output", options->output, "Hugging Face or PEFT directory to make");
  verb.option("--model", options->model,
              "directory with config.json and tokenizer (default: the run's model.path)");
  verb.flag("--averaged", options->averaged,
            "the averages of optimizer.ema_decay in place of the last weights");
  verb.flag("--merged", options->merged,
            "of a run with adapters: whole weights with the adapters added, in place of an adapter "
            "that PEFT loads");
  verb.example("tributary checkpoint export runs/demo -o demo_model_trained");
  return [options, answer = verb.answer()] {
    const ExitCode code = load_engine().export_checkpoint(*options);
    answer.give({{"output", options->output}});
    return code;
  };
}

}  // namespace tributary::app
