#include "config/run/run_keys.h"

#include <utility>

#include "config/family/known_modules.h"
#include "config/run/run_field.h"
#include "core/text.h"

namespace tributary::config {
namespace {

constexpr double kAnyNumber = 1e300;

using R = RunConfig;

/// The words of `model.recompute`: modules, and the parts of those that have layers.
std::vector<std::string> recompute_words() {
  std::vector<std::string> words = known_module_names();
  for (const KnownModule& each : known_modules())
    if (each.role != ModuleRole::kProjector)
      for (const RecomputePlan level : {RecomputePlan::kSelective, RecomputePlan::kAttention})
        words.push_back(word_of({std::string(each.name), level}));
  return words;
}

/// "`vision`, `projector`, `backbone`"
std::string quoted_modules() {
  std::string text;
  for (const KnownModule& each : known_modules())
    text += str(text.empty() ? "`" : ", `", each.name, "`");
  return text;
}

/// The sections `run` and `model`.
std::vector<Key> first_keys() {
  return {
      key<&R::run, &RunSection::name>(
          {.path = "run.name",
           .meaning = "Names the run in messages, the report and the default directory."}),
      key<&R::run, &RunSection::dir>(
          {.path = "run.dir",
           .meaning = "Directory of everything the run writes; empty: `runs/<run.name>`."}),
      key<&R::run, &RunSection::steps>({.path = "run.steps",
                                        .meaning = "Optimizer steps of the whole run.",
                                        .unit = "steps",
                                        .range = {1, kManySteps}}),
      key<&R::run, &RunSection::epochs>(
          {.path = "run.epochs",
           .meaning = "Passes over all training records; above 0 in place of `run.steps`.",
           .unit = "epochs",
           .range = {0, 1e6}}),
      key<&R::run, &RunSection::seed>({.path = "run.seed",
                                       .meaning = "Every random stream of the run comes from it: "
                                                  "initial weights, order of the data, sampling.",
                                       .range = {0, 9007199254740991.0}}),
      key<&R::run, &RunSection::threads>(
          {.path = "run.threads",
           .meaning =
               "Compute threads; 0: one per core. Part of what makes a run repeatable bit by bit.",
           .unit = "threads",
           .range = {0, 4096}}),
      key<&R::run, &RunSection::device>(
          {.path = "run.device",
           .meaning = "`cpu`, `cuda` (of each machine's devices one a process, in order) or "
                      "`cuda:<n>`."}),
      key<&R::run, &RunSection::bind>(
          {.path = "run.bind",
           .meaning = "Whether the threads of a rank that compute stay on cores of their own, an "
                      "equal part of those that it was started with: `cores`, `none`, or `auto`, "
                      "which binds ranks of a CPU that have the whole machine and more threads "
                      "than it has cores."}),
      key<&R::run, &RunSection::deterministic>(
          {.path = "run.deterministic",
           .meaning = "Whether only kernels run that give the same bits each time: `yes`, `no`, or "
                      "`auto`, which is `yes` on a CPU and `no` on a CUDA device, where these "
                      "kernels are slower and some operations have none."}),

      key<&R::run, &RunSection::stages, &StageSection::name>(
          {.path = "run.stages[].name", .meaning = "Names the stage.", .required = true}),
      key<&R::run, &RunSection::stages, &StageSection::set>(
          {.path = "run.stages[].set",
           .meaning = "What it changes: `key.path=value` texts, as on the command line, for "
                      "example `model.freeze=[vision]`."}),
      key<&R::model, &ModelSection::path>(
          {.path = "model.path",
           .meaning = "Directory in Hugging Face layout: `config.json`, `tokenizer.json` and, for "
                      "`pretrained`, safetensors.",
           .required = true}),
      key<&R::model, &ModelSection::weights>(
          {.path = "model.weights",
           .meaning = "Start from random weights, from the safetensors in `model.path`, or from "
                      "those of `model.checkpoint`, without its optimizer."}),
      key<&R::model, &ModelSection::checkpoint>(
          {.path = "model.checkpoint",
           .meaning = "With `weights: checkpoint`: a run, whose newest checkpoint counts, or one "
                      "of its checkpoints, of the same model under any mesh."}),
      key<&R::model, &ModelSection::dtype>(
          {.path = "model.dtype",
           .meaning = "Type of parameters and activations; `bfloat16` keeps float32 master weights "
                      "and needs a CUDA device."}),
      key<&R::model, &ModelSection::freeze>(
          {.path = "model.freeze",
           .meaning = "Modules that do not train: no gradient, no optimizer state.",
           .choices = known_module_names()}),
      key<&R::model, &ModelSection::recompute>(
          {.path = "model.recompute",
           .meaning = "Modules whose layers run forward again in the backward pass, to save "
                      "memory; with `.mlp` just the MLPs of their layers, with `.attn` just the "
                      "attention; with `/n` just layers 0, "
                      "n, 2n and so on, while the others keep their activations.",
           .choices = recompute_words()}),
      key<&R::model, &ModelSection::offload>(
          {.path = "model.offload",
           .meaning = "Modules whose layers run again in the backward pass from inputs that rest "
                      "in host memory until then.",
           .choices = known_module_names()}),
      key<&R::model, &ModelSection::mrope>(
          {.path = "model.mrope",
           .meaning = "Positions of video tokens: as the Qwen authors publish them, or as "
                      "transformers 5.x computes them."}),
  };
}

/// The sections behind `data`.
std::vector<Key> later_keys() {
  using G = ParameterGroupSection;
  return {
      key<&R::batch, &BatchSection::global_samples>({.path = "batch.global_samples",
                                                     .meaning = "Samples of one optimizer step.",
                                                     .unit = "samples",
                                                     .range = {1, 1 << 20}}),
      key<&R::batch, &BatchSection::capacity_tokens>(
          {.path = "batch.capacity_tokens",
           .meaning = "Most tokens of one microbatch; gradients are accumulated over as many as a "
                      "step needs.",
           .unit = "tokens",
           .range = {1, kManyTokens}}),
      key<&R::batch, &BatchSection::capacity_patches>(
          {.path = "batch.capacity_patches",
           .meaning = "Patches of an encoder apart that a rank should hold in a pass; 0: any.",
           .range = {0, 1 << 30}}),
      key<&R::batch, &BatchSection::packing>(
          {.path = "batch.packing",
           .meaning = "How samples fill microbatches: one each, best fit as they arrive, best fit "
                      "from long to short over the global batch, or level: the predicted times of "
                      "`batch.microbatches` of each replica are alike."}),
      key<&R::batch, &BatchSection::microbatches>(
          {.path = "batch.microbatches",
           .meaning = "With `packing: level`: how many a replica makes of its samples; more only "
                      "where these do not hold them, fewer where there are not as many samples; 0 "
                      "with other packings.",
           .range = {0, 1 << 20}}),
      key<&R::batch, &BatchSection::balance>(
          {.path = "batch.balance",
           .meaning = "Which replica takes which samples of the global batch: in turn, or so that "
                      "the predicted times of all replicas are level, as a sum (`lpt`) or the "
                      "vision tower's and the backbone's each (`lpt_2d`)."}),
      key<&R::batch, &BatchSection::costs>(
          {.path = "batch.costs",
           .meaning = "Profile by whose times samples and media are balanced; empty: FLOPs."}),
      key<&R::batch, &BatchSection::correct_costs>(
          {.path = "batch.correct_costs",
           .meaning = "Correct the predicted times by measured ones, as long as that pays."}),

      key<&R::optimizer, &OptimizerSection::kind>(
          {.path = "optimizer.kind",
           .meaning = "`adamw`; `muon` for the matrices of layers, with AdamW for the rest; or "
                      "`adamw_8bit`, whose moments of large matrices take 2 bytes for each "
                      "parameter in place of 8."}),
      key<&R::optimizer, &OptimizerSection::learning_rate>(
          {.path = "optimizer.learning_rate",
           .meaning = "Peak learning rate. Muon's updates are as large as those of AdamW, so it "
                      "takes the same one.",
           .range = {0, 1e3, true}}),
      key<&R::optimizer, &OptimizerSection::beta1>(
          {.path = "optimizer.beta1",
           .meaning = "Decay of the running mean of the gradient.",
           .range = {0, 1, false, true}}),
      key<&R::optimizer, &OptimizerSection::beta2>(
          {.path = "optimizer.beta2",
           .meaning = "Decay of the running mean of the squared gradient.",
           .range = {0, 1, false, true}}),
      key<&R::optimizer, &OptimizerSection::epsilon>(
          {.path = "optimizer.epsilon",
           .meaning = "Added to the root of the squared gradient.",
           .range = {0, 1, true}}),
      key<&R::optimizer, &OptimizerSection::weight_decay>(
          {.path = "optimizer.weight_decay",
           .meaning = "Decoupled weight decay; never on biases and norms unless a group says so.",
           .range = {0, 1e3}}),
      key<&R::optimizer, &OptimizerSection::clip_norm>(
          {.path = "optimizer.clip_norm",
           .meaning = "Gradients are scaled down to this global norm; 0: never.",
           .range = {0, kAnyNumber}}),
      key<&R::optimizer, &OptimizerSection::momentum>({.path = "optimizer.momentum",
                                                       .meaning = "Nesterov momentum of Muon.",
                                                       .range = {0, 1, false, true}}),
      key<&R::optimizer, &OptimizerSection::ema_decay>(
          {.path = "optimizer.ema_decay",
           .meaning = "Keeps an average of the weights, of which each update keeps this share; "
                      "validation and its score take the average. 0: none.",
           .range = {0, 1, false, true}}),
      key<&R::optimizer, &OptimizerSection::groups, &G::match>(
          {.path = "optimizer.groups[].match",
           .meaning = str("A module (", quoted_modules(),
                          ") or a parameter name with `*` and `?`; the first group that matches "
                          "counts."),
           .required = true}),
      key<&R::optimizer, &OptimizerSection::groups, &G::learning_rate_scale>(
          {.path = "optimizer.groups[].learning_rate_scale",
           .meaning = "Factor on the learning rate.",
           .range = {0, 1e6}}),
      key<&R::optimizer, &OptimizerSection::groups, &G::weight_decay>(
          {.path = "optimizer.groups[].weight_decay",
           .meaning = "Replaces `optimizer.weight_decay`; -1: keeps it.",
           .range = {-1, 1e3}}),

      key<&R::schedule, &ScheduleSection::decay>(
          {.path = "schedule.decay", .meaning = "Shape of the learning rate after the warm-up."}),
      key<&R::schedule, &ScheduleSection::warmup_steps>(
          {.path = "schedule.warmup_steps",
           .meaning = "Steps of linear rise from 0 to the peak.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::schedule, &ScheduleSection::decay_steps>(
          {.path = "schedule.decay_steps",
           .meaning = "Last steps, in which `warmup_stable_decay` falls; 0 with every other decay.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::schedule, &ScheduleSection::final_ratio>(
          {.path = "schedule.final_ratio",
           .meaning = "Learning rate of the last step / peak.",
           .unit = "fraction",
           .range = {0, 1}}),

      key<&R::validation, &ValidationSection::every>(
          {.path = "validation.every",
           .meaning = "Steps between validations; 0: at the end alone.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::validation, &ValidationSection::samples_per_source>(
          {.path = "validation.samples_per_source",
           .meaning = "Held-out samples of each source in a validation on the way.",
           .unit = "samples",
           .range = {1, kManySteps}}),
      key<&R::validation, &ValidationSection::final_samples_per_source>(
          {.path = "validation.final_samples_per_source",
           .meaning = "Held-out samples of each source at the end; 0: all.",
           .unit = "samples",
           .range = {0, kManySteps}}),
      key<&R::validation, &ValidationSection::max_new_tokens>(
          {.path = "validation.max_new_tokens",
           .meaning = "Most tokens of a generated answer; an answer that has not ended by then is "
                      "marked as cut. 0: a quarter more than the longest held-out answer has, at "
                      "least 8 more, at most 1024 in all.",
           .unit = "tokens",
           .range = {0, kManyTokens}}),
      key<&R::validation, &ValidationSection::stop_after>(
          {.path = "validation.stop_after",
           .meaning = "Ends the run after so many validations in a row without a gain of the score "
                      "by which the best checkpoint is kept; 0: never.",
           .unit = "validations",
           .range = {0, 1'000'000}}),
      key<&R::validation, &ValidationSection::min_gain>(
          {.path = "validation.min_gain",
           .meaning = "With `validation.stop_after`: a smaller gain over the best score is none.",
           .range = {0, 1e6}}),
      key<&R::validation, &ValidationSection::metrics>(
          {.path = "validation.metrics",
           .meaning = "Scores of answers beside exact match, each the mean over the samples: word "
                      "overlap (SQuAD), edit distance (DocVQA), longest common subsequence, and "
                      "agreement with three annotators (VQAv2).",
           .choices = {kAnswerScores.begin(), kAnswerScores.end()}}),
      key<&R::validation, &ValidationSection::blind>(
          {.path = "validation.blind",
           .meaning = "At the end, answer a second time with the pixels set to zero."}),

      key<&R::checkpoint, &CheckpointSection::every>(
          {.path = "checkpoint.every",
           .meaning =
               "Steps between checkpoints; 0: at the end alone. The last step has one in any "
               "case.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::checkpoint, &CheckpointSection::keep_latest>(
          {.path = "checkpoint.keep_latest",
           .meaning =
               "Newest checkpoints that are kept; two, so that a damaged one has a predecessor.",
           .unit = "checkpoints",
           .range = {2, 1'000'000}}),
      key<&R::checkpoint, &CheckpointSection::keep_best>(
          {.path = "checkpoint.keep_best",
           .meaning =
               "Also keep the checkpoint with the best held-out accuracy; every validation is "
               "then followed by a checkpoint."}),
      key<&R::checkpoint, &CheckpointSection::async>(
          {.path = "checkpoint.async",
           .meaning = "Write in a thread of its own while training goes on."}),

      key<&R::metrics, &MetricsSection::console_every>(
          {.path = "metrics.console_every",
           .meaning = "Steps between lines on the console.",
           .unit = "steps",
           .range = {1, kManySteps}}),
      key<&R::metrics, &MetricsSection::tensorboard>(
          {.path = "metrics.tensorboard", .meaning = "Also write TensorBoard event files."}),
      key<&R::metrics, &MetricsSection::update_norms_every>(
          {.path = "metrics.update_norms_every",
           .meaning =
               "Steps between measurements of how far a step moves the parameters of each module, "
               "the first step included; 0: never.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::metrics, &MetricsSection::peak_flops>(
          {.path = "metrics.peak_flops",
           .meaning = "Peak of the device, for MFU; 0: measured at the start.",
           .unit = "FLOP/s",
           .range = {0, kAnyNumber}}),

      key<&R::stability, &StabilitySection::on_non_finite>(
          {.path = "stability.on_non_finite",
           .meaning =
               "A step whose loss or gradient is not finite: skip it on the record, or stop."}),
      key<&R::stability, &StabilitySection::max_skips>(
          {.path = "stability.max_skips",
           .meaning = "Skipped steps in a row that are tolerated.",
           .unit = "steps",
           .range = {1, 1'000'000}}),
      key<&R::stability, &StabilitySection::stop_grace_seconds>(
          {.path = "stability.stop_grace_seconds",
           .meaning = "Longest time from SIGTERM to the end of the process; then it ends at once, "
                      "without a last checkpoint.",
           .unit = "s",
           .range = {1, 1'000'000}}),
  };
}

template <auto... kPath>
KeyList key_list(std::string path, bool required, std::string meaning) {
  return {std::move(path), required, std::move(meaning),
          [](const RunConfig& config) { return follow(config, 0, kPath...).size(); },
          [](RunConfig& config, std::size_t items) { follow(config, 0, kPath...).resize(items); }};
}

}  // namespace

const std::vector<Key>& all_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all = first_keys();
    for (auto* section : {adapter_keys, objective_keys, data_keys, later_keys, parallel_keys,
                          module_keys, pool_keys, drill_keys})
      for (Key& each : section()) all.push_back(std::move(each));
    return all;
  }();
  return keys;
}

const std::vector<KeyList>& all_key_lists() {
  static const std::vector<KeyList> lists{
      key_list<&R::data, &DataSection::sources>("data.sources", true,
                                                "The members of the mixture."),
      key_list<&R::optimizer, &OptimizerSection::groups>(
          "optimizer.groups", false, "Overrides for the parameters whose name matches."),
      key_list<&R::run, &RunSection::stages>(
          "run.stages", false,
          "Parts of the run, one after the other: each begins with the weights of the one before, "
          "and writes into `<run.dir>/<number>-<name>`."),
  };
  return lists;
}

}  // namespace tributary::config
