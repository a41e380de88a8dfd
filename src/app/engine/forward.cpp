#include <map>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "app/engine/engine_verbs.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "mesh/device.h"
#include "model/model.h"
#include "model/processed_batch.h"
#include "model/weights/peft_adapter.h"
#include "model/weights/stored_tensors.h"
#include "ops/to_device.h"

namespace tributary::app {
namespace {

config::MropeMode read_mrope_mode(const std::string& name) {
  TRIB_REQUIRE(name == "hf5" || name == "official", .what = "app: unknown position mode",
               .where = "--mrope", .found = escaped(name), .expected = "hf5 or official");
  return name == "hf5" ? config::MropeMode::kHf5 : config::MropeMode::kOfficial;
}

/// Puts the logits at their places in the padded batch; padding gets zeros.
at::Tensor spread_logits(const at::Tensor& logits, const model::ProcessedBatch& batch) {
  at::Tensor all = at::zeros({batch.rows * batch.columns, logits.size(1)}, logits.options());
  all.index_copy_(0, batch.places, logits);
  return all.view({batch.rows, batch.columns, logits.size(1)});
}

void add_gradients(const model::Model& model, std::map<std::string, at::Tensor>& outputs) {
  for (const auto& unit : model.units())
    for (const auto& parameter : unit->parameters())
      if (unit->trainable()) outputs[parameter->name] = unit->gradient_of(*parameter);
}

}  // namespace

ExitCode run_forward(const ForwardOptions& options) {
  const config::MropeMode mode = read_mrope_mode(options.mrope);
  const config::ModelConfig config = config::read_model_config(options.model);
  constexpr std::uint64_t kOneByte = 1;  // enough to see whether the file can be read
  (void)read_given_file(
      options.inputs, kOneByte,
      {.what = "app: inputs cannot be read", .expected = "a file of safetensors"});
  model::ProcessedBatch batch =
      model::pack_processed(config, model::read_tensors(options.inputs), mode);
  TRIB_REQUIRE(!options.gradients || batch.targets.defined(), .what = "app: gradients need a loss",
               .where = options.inputs, .found = "no tensor `labels`",
               .fix = "add labels or leave --gradients out");

  const at::Device device = mesh::open_device(options.device, /*local_rank=*/0);
  config::ModelSection section;
  section.adapter.path = options.adapter;
  section.adapter =
      model::read_peft_section(section.adapter, config.family, model::AdapterUse::kReadAlone);
  const std::unique_ptr<model::Model> model =
      model::make_model(config, model::one_rank_layout(section));
  for (const auto& unit : model->units())
    unit->materialize(device, at::kFloat, options.gradients && model::trains(section, *unit));
  model::load_weights(*model, options.model);
  if (section.has_adapters()) model::load_peft_adapter(*model, options.adapter);

  for (auto& [modality, media] : batch.pack.media)
    if (media.rows.defined()) media.rows = ops::to_device(media.rows, device);
  const at::AutoGradMode record(options.gradients);
  const at::Tensor hidden = model->forward(batch.pack);
  std::map<std::string, at::Tensor> outputs;
  {
    const at::NoGradGuard no_grad;
    outputs["logits"] = spread_logits(model->head(hidden).to(at::kCPU), batch);
  }
  if (batch.targets.defined()) {
    const model::LossSum loss =
        model::sum_loss(*model, hidden, batch.targets, batch.pack.cu_seqlens);
    TRIB_REQUIRE(loss.targets > 0, .what = "app: labels hold no target", .where = options.inputs,
                 .expected = "a label other than -100 after the first token of a sample");
    const at::Tensor mean = loss.sum / loss.targets;
    outputs["loss"] = mean;
    if (options.gradients) torch::autograd::backward({mean});
  }
  if (options.gradients) add_gradients(*model, outputs);
  model::write_tensors(options.output, outputs);
  return ExitCode::kDone;
}

}  // namespace tributary::app
