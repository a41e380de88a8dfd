#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "config/run/run_config.h"

namespace tributary::app {

Run declare_generate(Verb& verb) {
  // Shared with the Run, which outlives this call.
  const auto options = std::make_shared<GenerateOptions>();
  verb.positional("MODEL_OR_RUN_DIR", options->model,
                  "Hugging Face directory, run directory (its newest checkpoint) or checkpoint");
  verb.option("--image", options->images, "JPEG or PNG file; may be given several times");
  verb.option("--audio", options->sounds, "WAV, FLAC, Ogg or MP3 file; may be given several times");
  verb.required("--prompt", options->prompt, "What the user says, after images and sounds");
  verb.option("--system", options->system,
              "The system prompt; \"\": none (default: the run's data.system_prompt, that of the "
              "family for a Hugging Face directory)");
  verb.option("--max-new-tokens", options->max_new_tokens,
              "Longest answer [tokens]; with the prompt at most max_position_embeddings");
  verb.option("--temperature", options->temperature, "0: greedy; above: sampled");
  verb.option("--top-p", options->top_p,
              "Sample from the fewest most probable tokens that have this probability");
  verb.option("--seed", options->seed, "Of sampling");
  verb.option("--device", options->device,
              "cpu, cuda or cuda:N; there weights that are stored as bf16 are computed as bf16");
  verb.example("tributary generate runs/demo --image picture.png --prompt \"What is shown?\"");
  return [options] { return load_engine(engine_for(options->device)).generate(*options); };
}

}  // namespace tributary::app
