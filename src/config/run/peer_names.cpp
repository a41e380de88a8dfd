#include "config/run/peer_names.h"

#include <algorithm>
#include <iterator>

namespace tributary::config {
namespace {

/// A key's name without its section, or its whole path where the bare name is a key here too.
struct PeerName {
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view kEpochs = "run.epochs, in place of run.steps";
constexpr std::string_view kAccumulation =
    "batch.global_samples: gradients are accumulated over as many microbatches of "
    "batch.capacity_tokens as a step needs";
constexpr std::string_view kAdamW = "optimizer.kind: adamw, muon or adamw_8bit";
constexpr std::string_view kCutoff = "data.max_tokens, or batch.capacity_tokens";
constexpr std::string_view kTooLong = "data.too_long: drop, truncate or refuse";
constexpr std::string_view kLora = "adapter.kind: lora or dora";
constexpr std::string_view kObjective = "objective.kind: next_token or dpo";
constexpr std::string_view kPairLoss = "objective.loss: sigmoid or ipo";
constexpr std::string_view kReference = "nothing: the reference is the model as the run starts";
constexpr std::string_view kPacked = "nothing: samples that are packed never attend to each other";
constexpr std::string_view kTrackers =
    "metrics.tensorboard: true; `tributary metrics export` writes for W&B and MLflow";
constexpr std::string_view kRates = "optimizer.groups, a list with match and learning_rate_scale";
constexpr std::string_view kQuantized = "nothing: frozen weights are not quantized";

constexpr PeerName kPeerNames[]{
    {"lora_alpha", "adapter.alpha"},
    {"lora_r", "adapter.rank"},
    {"lora_target", "adapter.targets"},
    {"lora_target_modules", "adapter.targets"},
    {"target_modules", "adapter.targets"},
    {"lora_dropout", "nothing: adapters train without dropout"},
    {"use_dora", "adapter.kind: dora"},
    {"use_rslora", "adapter.rslora"},
    {"rlhf_type", kObjective},
    {"stage", kObjective},
    {"pref_beta", "objective.beta"},
    {"dpo_beta", "objective.beta"},
    {"pref_loss", kPairLoss},
    {"loss_type", kPairLoss},
    {"pref_ftx", "objective.sft_weight"},
    {"rpo_alpha", "objective.sft_weight"},
    {"dpo_label_smoothing", "objective.label_smoothing"},
    {"ref_model", kReference},
    {"precompute_ref_log_probs", kReference},
    {"tuner_type", kLora},
    {"load_in_4bit", kQuantized},
    {"load_in_8bit", kQuantized},
    {"quantization_bit", kQuantized},
    {"lr", "optimizer.learning_rate"},
    {"early_stopping_patience", "validation.stop_after"},
    {"early_stopping_steps", "validation.stop_after"},
    {"early_stopping_threshold", "validation.min_gain"},
    {"use_ema", "optimizer.ema_decay"},
    {"weight_decay_rate", "optimizer.weight_decay"},
    {"adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"adam_epsilon", "optimizer.epsilon"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"gradient_clipping", "optimizer.clip_norm"},
    {"optim", kAdamW},
    {"optimizer.name", kAdamW},
    {"optimizer.type", kAdamW},
    {"warmup_ratio", "schedule.warmup_steps, a number of steps"},
    {"lr_scheduler_type", "schedule.decay"},
    {"lr_scheduler", "schedule.decay"},
    {"min_lr", "schedule.final_ratio, a fraction of the peak"},
    {"min_lr_ratio", "schedule.final_ratio"},
    {"epochs", kEpochs},
    {"num_epochs", kEpochs},
    {"num_train_epochs", kEpochs},
    {"max_steps", "run.steps"},
    {"output_dir", "run.dir"},
    {"run_name", "run.name"},
    {"model_name_or_path", "model.path"},
    {"torch_dtype", "model.dtype"},
    {"bf16", "model.dtype: bfloat16"},
    {"fp16", "model.dtype: float32 or bfloat16 is what there is"},
    {"gradient_checkpointing", "model.recompute, a list of modules"},
    {"activation_checkpointing", "model.recompute, a list of modules"},
    {"freeze_vision_tower", "model.freeze: [vision]"},
    {"freeze_vit", "model.freeze: [vision]"},
    {"lora", kLora},
    {"lora_rank", "adapter.rank"},
    {"finetuning_type", kLora},
    {"dataset", "data.sources, a list with name and path"},
    {"dataset_dir", "data.sources.0.path"},
    {"image_folder", "data.sources.0.images"},
    {"media_dir", "data.sources.0.images"},
    {"cutoff_len", kCutoff},
    {"max_length", kCutoff},
    {"max_seq_len", kCutoff},
    {"sequence_len", kCutoff},
    {"image_max_pixels", "data.max_pixels"},
    {"image_min_pixels", "data.min_pixels"},
    {"val_size", "data.held_out_fraction"},
    {"split_dataset_ratio", "data.held_out_fraction"},
    {"dataloader_num_workers", "data.workers"},
    {"global_batch_size", "batch.global_samples"},
    {"train_batch_size", "batch.global_samples"},
    {"batch_size", "batch.global_samples"},
    {"per_device_train_batch_size", kAccumulation},
    {"micro_batch_size", kAccumulation},
    {"gradient_accumulation", kAccumulation},
    {"gradient_accumulation_steps", kAccumulation},
    {"logging_steps", "metrics.console_every"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep_latest"},
    {"eval_steps", "validation.every"},
    {"resume_from_checkpoint", "the option --resume of `tributary train`"},
    {"tensor_parallel_degree", "parallel.tp"},
    {"tensor_model_parallel_size", "parallel.tp"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"context_parallel_size", "parallel.cp"},
    {"data_parallel_shard_degree", "parallel.dp_shard"},
    {"data_parallel_replicate_degree", "parallel.dp_replicate"},
    {"pipeline_parallel_degree", "parallel.pp"},
    {"context_parallel_degree", "parallel.cp"},
    {"expert_parallel_degree", "parallel.ep"},
    {"sequence_parallel_size", "parallel.ulysses"},
    {"truncation", kTooLong},
    {"truncation_strategy", kTooLong},
    {"attn_implementation", kPacked},
    {"flash_attn", kPacked},
    {"sample_packing", "batch.packing"},
    {"neat_packing", "batch.packing"},
    {"template",
     "nothing: the tokenizer says which chat is written, and data.system_prompt begins it"},
    {"chat_template",
     "nothing: the tokenizer says which chat is written, and data.system_prompt begins it"},
    {"system", "data.system_prompt"},
    {"freeze_llm", "model.freeze: [backbone]"},
    {"freeze_language_model", "model.freeze: [backbone]"},
    {"freeze_aligner", "model.freeze: [projector]"},
    {"freeze_multi_modal_projector", "model.freeze: [projector]"},
    {"train_file", "data.sources.0.path"},
    {"train_dataset", "data.sources.0.path"},
    {"val_dataset", "data.sources.0.held_out"},
    {"eval_dataset", "data.sources.0.held_out"},
    {"eval_strategy", "validation.every, a number of steps"},
    {"save_strategy", "checkpoint.every, a number of steps"},
    {"report_to", kTrackers},
    {"use_wandb", kTrackers},
    {"wandb_project", kTrackers},
    {"enable_wandb", kTrackers},
    {"enable_tensorboard", "metrics.tensorboard"},
    {"plot_loss", "nothing: `tributary report` draws it"},
    {"trust_remote_code", "nothing: code of the model's directory is not run"},
    {"overwrite_output_dir", "run.dir, another directory: no run is overwritten"},
    {"video_max_pixels", "data.max_pixels, which holds for frames too"},
    {"ddp_timeout", "parallel.collective_timeout_seconds"},
    {"base_model", "model.path"},
    {"hf_assets_path", "model.path"},
    {"datasets", "data.sources, a list with name and path"},
    {"val_set_size", "data.held_out_fraction"},
    {"evals_per_epoch", "validation.every, a number of steps"},
    {"saves_per_epoch", "checkpoint.every, a number of steps"},
    {"lora_model_dir", "adapter.path"},
    {"lora_target_linear", "adapter.targets: [all-linear]"},
    {"train_type", kLora},
    {"vit_lr", kRates},
    {"aligner_lr", kRates},
    {"betas", "optimizer.beta1 and optimizer.beta2"},
    {"eps", "optimizer.epsilon"},
    {"max_norm", "optimizer.clip_norm"},
    {"decay_type", "schedule.decay"},
    {"min_lr_factor", "schedule.final_ratio"},
    {"training", "run.steps, data.max_tokens and batch.global_samples for what it holds"},
    {"seq_len", kCutoff},
    {"local_batch_size", kAccumulation},
    {"log_freq", "metrics.console_every"},
    {"checkpoint.interval", "checkpoint.every"},
    {"checkpoint.folder", "run.dir"},
    {"activation_checkpoint", "model.recompute, a list of modules"},
    {"attn_impl", kPacked},
    {"flash_attention", kPacked},
    {"padding_free", kPacked},
    {"dataset_num_proc", "data.workers"},
    {"max_samples", "nothing: take lines of the file, `head -n 100 a.jsonl > b.jsonl`"},
    {"preprocessing_num_workers", "data.workers"},
    {"num_workers", "data.workers"},
    {"local_rank", "nothing: `tributary launch` tells each process its rank"},
    {"deepspeed", "parallel.dp_shard; parallel.shard: optimizer is ZeRO-1"},
    {"fsdp", "parallel.dp_shard"},
};

}  // namespace

std::string advice_for_peer_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  const auto* found =
      std::find_if(std::begin(kPeerNames), std::end(kPeerNames),
                   [&](const PeerName& each) { return each.name == path || each.name == name; });
  return found == std::end(kPeerNames) ? std::string() : std::string(found->advice);
}

}  // namespace tributary::config
