#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "schedule/correct_costs/batch_correction.h"
#include "train/balance/flops.h"
#include "train/balance/rank_load.h"
#include "train/executor/gradients.h"
#include "train/first_samples.h"
#include "train/loop.h"
#include "train/measured_parts.h"
#include "train/optimizer/apply_update.h"
#include "train/optimizer/gradient_norm.h"
#include "train/take_step.h"

namespace tributary::train {

/// A step after its update.
struct ComputedStep {
  BatchResult batch;
  StepMetrics metrics;  // only the counts so far: step, samples, tokens, microbatches
  TrainFlops work;
  std::int64_t in_vain = 0;  // 1: some rank found bad pixels, and nothing was updated
  ModuleSquares gradients;   // of all ranks once they are shared
  Update update;
  double prepared = 0;   // [s] of now_seconds(): the gradients were complete
  double updated = 0;    // likewise: the parameters were updated
  double optimizer = 0;  // [s] of the sums and the update
};

namespace {

/// Counts what this rank's replica trains on.
StepMetrics count_own(const Session& session, const TakenStep& taken) {
  StepMetrics metrics;
  metrics.samples = static_cast<std::int64_t>(taken.samples.size());
  metrics.left_out = taken.left_out;
  metrics.microbatches = taken.microbatches.bins();
  metrics.media_decoded = taken.media_decoded;
  metrics.balance = taken.balance;
  metrics.drawn.resize(session.sources.size());
  for (std::size_t i = 0; i < taken.shapes.size(); ++i) {
    const SampleShape& shape = taken.shapes[i];
    SourceDraw& drawn = metrics.drawn[static_cast<std::size_t>(taken.samples[i].source)];
    drawn.samples += 1;
    drawn.tokens += shape.tokens.count;
    drawn.target_tokens += shape.target_tokens.count;
    metrics.tokens += shape.tokens.count;
    metrics.target_tokens += shape.target_tokens.count;
  }
  return metrics;
}

/// The FLOP of training on these samples.
TrainFlops work_of(const Session& session, const std::vector<SampleShape>& shapes) {
  ForwardFlops forward;
  for (const SampleShape& shape : shapes)
    add_work(forward, count_forward(session.model_config, shape));
  std::erase_if(forward, [&](const config::ModuleWork& module) {
    return std::ranges::count(session.lanes.beside.modules, module.module) > 0;
  });
  const config::ModelSection& model = session.config.model;
  TrainFlops work = count_training(
      forward, model.freeze, config::run_again(model.recompute, model.offload), session.adapters);
  if (session.config.objective.compares_pairs()) work += count_inference(forward, session.adapters);
  return work;
}

/// The work of this rank in the step.
WorkLoad own_load(const Session& session, const TakenStep& taken) {
  return load_of_rank({.model = session.model_config,
                       .section = session.config.model,
                       .lanes = session.lanes,
                       .backbone = *session.mesh,
                       .times = session.times.get()},
                      taken.shapes, taken.media.items);
}

/// Turns the numbers of this rank into those of all ranks. Returns whether any rank was asked to
/// stop, from what this one was.
/// collective: one, over all ranks
bool share_sums(const Session& session, ComputedStep& step, const WorkLoad& load, bool stops) {
  const mesh::Mesh& mesh = *session.mesh;
  const bool counts = mesh.leads_replica();
  StepMetrics& metrics = step.metrics;
  StepSums sums;
  name_slots(step.batch, *session.model, session.lanes, sums);
  sums.sum(step.gradients.all);
  for (double& each : step.gradients.by_module) sums.sum(each);
  for (std::int64_t* count :
       {&metrics.samples, &metrics.microbatches, &metrics.tokens, &metrics.target_tokens,
        &metrics.left_out, &metrics.balance.repacked, &step.batch.attention_rows})
    sums.sum(*count, counts);
  for (SourceDraw& drawn : metrics.drawn)
    for (std::int64_t* count : {&drawn.samples, &drawn.tokens, &drawn.target_tokens})
      sums.sum(*count, counts);
  sums.sum(metrics.media_decoded);
  sums.sum(metrics.feature_bytes);
  if (metrics.flow) {
    for (std::int64_t* count : metrics.flow->counts()) sums.sum(*count);
    for (double* each : metrics.flow->sums()) sums.sum(*each);
  }
  for (double* flops : {&step.work.causal, &step.work.full, &step.work.hardware})
    sums.sum(*flops, counts);
  WorkLoad largest = load;
  WorkLoad all = load;
  for (double* each : largest.numbers()) sums.largest(*each);
  for (double* each : all.numbers()) sums.sum(*each);
  sums.largest(step.in_vain);
  std::int64_t asked = stops ? 1 : 0;
  sums.largest(asked);
  sums.share(mesh.world());
  if (!mesh.world().is_single())
    metrics.balance.imbalance =
        imbalance_of(session.model_config, largest, all,
                     parts_of_load(session.model_config, session.lanes, mesh));
  return asked != 0;
}

/// A batch without target tokens has no gradient to update with.
Update update_after(const BatchResult& batch, double sum_squared, const Session& session,
                    Measure measure) {
  if (batch.targets == 0)
    return {.learning_rate = next_learning_rate(*session.optimizer, session.config),
            .grad_norm = std::numeric_limits<double>::quiet_NaN(),
            .not_finite = {}};
  return apply_update(*session.model, *session.optimizer, session.config, batch.loss, sum_squared,
                      measure);
}

/// Whether the step measures how far it moves the parameters.
Measure measure_of(std::int64_t step, std::int64_t every) {
  const bool is_due = every > 0 && (step == 1 || step % every == 0);
  return is_due ? Measure::kUpdate : Measure::kNothing;
}

/// The norms of a step by module. collective: over all ranks, where the update was measured
std::vector<ModuleNorms> norms_of(const Session& session, ComputedStep& step) {
  std::vector<ModuleNorms> norms;
  std::optional<UpdateSquares>& squares = step.update.squares;
  if (squares) {
    StepSums sums;
    for (ModuleSquares* each : {&squares->change, &squares->parameters})
      for (double& square : each->by_module) sums.sum(square);
    sums.share(session.mesh->world());
  }
  if (step.batch.targets == 0) return norms;
  const std::vector<std::string> modules = trained_modules(session.model->units());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    norms.push_back({.module = modules[i], .gradient = std::sqrt(step.gradients.by_module[i])});
    if (!squares) continue;
    norms.back().update = std::sqrt(squares->change.by_module[i]);
    norms.back().parameters = std::sqrt(squares->parameters.by_module[i]);
  }
  return norms;
}

/// Why the parameters were left as they were; empty when they were updated.
std::string reason_to_skip(const BatchResult& batch, const Update& update) {
  if (batch.targets == 0) return "no target token in the batch";
  return update.not_finite.empty() ? "" : "not finite: " + update.not_finite;
}

CollectiveCost cost_between(const mesh::Traffic& before, const mesh::Traffic& after) {
  return {.calls = after.calls - before.calls,
          .bytes = after.bytes - before.bytes,
          .seconds = after.under_way - before.under_way,
          .waited = after.waited - before.waited};
}

/// The keys of the samples of all replicas. collective: over all ranks
std::vector<std::string> keys_of_all(const mesh::Mesh& mesh,
                                     const std::vector<data::EncodedSample>& samples) {
  std::string own;
  if (mesh.leads_replica())
    for (const data::EncodedSample& sample : samples) own += sample.key + "\n";
  std::vector<std::string> all;
  for (const std::string& keys : mesh.world().gather_text(own)) {
    std::istringstream lines(keys);
    for (std::string key; std::getline(lines, key);) all.push_back(key);
  }
  return all;
}

/// What the planner's encoders count of an item: patches, or positions of sound.
Grid counted(Modality modality, const Grid& grid) {
  return modality == Modality::kAudio ? Grid{1, 1, grid.patches() / kFramesOfPosition} : grid;
}

/// Sound, where a model takes images too.
ModalitySet beside_images(const config::ModelConfig& model) {
  return model.vision && model.audio ? ModalitySet{Modality::kAudio} : ModalitySet{};
}

/// Tokens, of images and clips, and of sound where a model takes it beside them: the sum, that of
/// the squared lengths, and how many there are.
struct ShapeSums {
  std::array<std::int64_t, 9> sums{};
  ModalitySet beside = {};  // modalities that are counted apart: of sound, or none

  void add(std::size_t first, std::int64_t length, std::int64_t times = 1) {
    sums[first] += times * length;
    sums[first + 1] += times * length * length;
    sums[first + 2] += times;
  }
  void add(const SampleShape& sample) {
    add(0, sample.tokens.count - sample.rejected.count);
    if (sample.rejected.count > 0) add(0, sample.rejected.count);
    for (const Modality modality : kMediaModalities)
      for (const Grid& item : sample.grids(modality)) {
        const Grid grid = counted(modality, item);
        add(beside.has(modality) ? 6 : 3, grid.rows * grid.columns, grid.time);
      }
  }
  [[nodiscard]] Json json() const {
    const std::size_t count = beside.empty() ? 6 : sums.size();
    return std::vector<std::int64_t>(sums.begin(),
                                     sums.begin() + static_cast<std::ptrdiff_t>(count));
  }
};

/// The media of a microbatch, without those of `beside`: first all images, as schedule::list_media
/// has them.
Json describe_media(std::span<const SampleShape> samples, std::span<const std::int32_t> members,
                    ModalitySet beside) {
  Json media = Json::array();
  for (const Modality modality : kMediaModalities) {
    if (beside.has(modality)) continue;
    for (const std::int32_t member : members)
      for (const Grid& item : samples[static_cast<std::size_t>(member)].grids(modality)) {
        const Grid grid = counted(modality, item);
        media.push_back({grid.time, grid.rows, grid.columns});
      }
  }
  return media;
}

/// What the microbatches of one replica hold in a step, for a simulation of it: a line of
/// shapes.jsonl.
///
/// shape: `microbatches` hold places in `samples`; each becomes [tokens, sum of squared lengths of
///        the samples, samples, patches, sum of squared patches of images and frames, images and
///        frames], and of a model that hears and sees [positions of sound, their squares, sounds];
///        with_media: and the grid of each image and clip
Json describe_shapes(std::int64_t step, std::span<const SampleShape> samples,
                     const schedule::PackedBins& microbatches, ModalitySet beside,
                     bool with_media) {
  Json list = Json::array();
  for (std::int64_t bin = 0; bin < microbatches.bins(); ++bin) {
    ShapeSums sums{.beside = beside};
    for (const std::int32_t member : microbatches.bin(bin))
      sums.add(samples[static_cast<std::size_t>(member)]);
    list.push_back(sums.json());
  }
  Json line{{"step", step}, {"microbatches", std::move(list)}};
  if (!with_media) return line;
  line["media"] = Json::array();
  for (std::int64_t bin = 0; bin < microbatches.bins(); ++bin)
    line["media"].push_back(describe_media(samples, microbatches.bin(bin), beside));
  return line;
}

}  // namespace

std::optional<StepMetrics> Loop::do_step(const StopRequest& stop) {
  std::unique_ptr<const TakenStep> taken = take();
  ComputedStep step = compute(*taken, stop);
  if (step.in_vain != 0) {
    taken = take_again(*taken);
    step = compute(*taken, stop);
  }
  if (step.batch.refused) {
    data_refusal_ = give_back(session_, *taken);
    return std::nullopt;
  }
  StepMetrics metrics = account(*taken, std::move(step));
  const bool leads_first = session_.mesh->leads_replica() && session_.mesh->data_index() == 0;
  if (state_.step == 0 && leads_first) write_first_samples(run_, session_, taken->samples);
  return metrics;
}

ComputedStep Loop::compute(const TakenStep& taken, const StopRequest& stop) {
  const config::ModelSection& model = session_.config.model;
  const PairObjective pairs{.section = session_.config.objective,
                            .reference = session_.optimizer->reference()};
  NextStep next;
  if (next_)
    next = {.microbatches = next_->microbatches.bins(),
            .refused = !next_->refusal.empty(),
            .media = &next_->media};
  ComputedStep step;
  if (session_.flow) session_.flow->begin_step(taken.first_index);
  step.batch = accumulate_gradients(*session_.model, taken.samples, taken.microbatches,
                                    {.mrope = model.mrope,
                                     .device = session_.device,
                                     .sources = static_cast<int>(session_.sources.size()),
                                     .pairs = pairs.section.compares_pairs() ? &pairs : nullptr,
                                     .refused = !taken.refusal.empty(),
                                     .plan = taken.plan,
                                     .lanes = &session_.lanes,
                                     .media = &taken.media,
                                     .flow = session_.flow.get(),
                                     .ready = ready_.get(),
                                     .next = next_ ? &next : nullptr,
                                     .on_section = [&](mesh::Section section) { enter(section); },
                                     .on_action = action_observer()});
  ready_ = std::move(step.batch.ahead);
  if (step.batch.refused) return step;
  const bool has_targets = step.batch.targets > 0;
  step.metrics = count_own(session_, taken);
  if (has_targets) step.work = work_of(session_, taken.shapes);
  if (session_.flow) {
    step.in_vain = session_.flow->is_in_vain() ? 1 : 0;
    step.metrics.flow = session_.flow->use();
    if (session_.arrival && leads())
      step.metrics.flow->out_of_turn = session_.arrival->out_of_turn();
  }
  step.metrics.feature_bytes = session_.lanes.sent_bytes() - taken.feature_bytes;
  const WorkLoad load = own_load(session_, taken);
  const Stopwatch watch;
  enter(mesh::Section::kOptimizer);
  step.prepared = now_seconds();
  if (has_targets) step.gradients = square_gradients(session_.model->units());
  stops_ = share_sums(session_, step, load, stop.asked());
  if (step.in_vain != 0) return step;
  if (session_.flow) end_flow(taken.first_index);
  const config::MetricsSection& metrics = session_.config.metrics;
  step.update = update_after(step.batch, step.gradients.all, session_,
                             measure_of(state_.step + 1, metrics.update_norms_every));
  step.updated = now_seconds();
  step.metrics.norms = norms_of(session_, step);
  step.optimizer = watch.seconds();
  return step;
}

StepMetrics Loop::account(const TakenStep& taken, ComputedStep step) {
  BatchResult& batch = step.batch;
  StepMetrics& metrics = step.metrics;
  metrics.step = state_.step + 1;
  metrics.waiting = taken.waiting;
  metrics.seconds = batch.seconds;
  metrics.seconds.data += taken.waiting.samples + taken.waiting.packing;
  metrics.seconds.optimizer = step.optimizer;
  metrics.loss = batch.loss;
  metrics.by_source = batch.by_source;
  metrics.pairs = batch.pairs;
  metrics.pipeline = batch.pipeline;
  metrics.learning_rate = step.update.learning_rate;
  metrics.grad_norm = step.update.grad_norm;
  metrics.collectives = cost_between(taken.traffic, session_.mesh->all_ranks().traffic());
  metrics.skip_reason = reason_to_skip(batch, step.update);
  if (!metrics.skip_reason.empty())
    metrics.sample_keys = keys_of_all(*session_.mesh, taken.samples);
  const auto tokens = static_cast<double>(metrics.tokens);
  metrics.fill = tokens / static_cast<double>(metrics.microbatches *
                                              session_.config.batch.capacity_tokens.count);
  if (batch.attention_rows > 0)
    metrics.padding = 1 - tokens / static_cast<double>(batch.attention_rows);
  metrics.peak_bytes = peak_bytes(session_.device);
  if (shapes_file_)
    shapes_ = describe_shapes(metrics.step, taken.shapes, taken.microbatches,
                              beside_images(session_.model_config),
                              session_.lanes.has_encoders_apart() || session_.flow != nullptr)
                  .dump();
  const double seconds = taken.watch.seconds();
  metrics.seconds.other = seconds - metrics.seconds.sum();
  const double available = seconds * peak_flops_ * session_.mesh->world().size();
  metrics.mfu_causal = step.work.causal / available;
  metrics.mfu_full = step.work.full / available;
  metrics.hfu = step.work.hardware / available;
  if (batch.targets == 0) return metrics;
  if (taken.predicted)
    session_.planner->correction()->end_step(
        taken.first_index, *taken.predicted,
        gather_parts(measured_parts(session_, taken, batch, seconds), session_.mesh->world()));
  // The last step encodes for no other one, so the trace is of the one before it.
  if (session_.lanes.encodes_ahead() && !next_ && !last_times_.passes.empty()) return metrics;
  last_times_ = {.began = batch.began,
                 .reduced = batch.reduced,
                 .prepared = step.prepared,
                 .updated = step.updated,
                 .seconds = seconds,
                 .mfu = metrics.mfu_causal,
                 .peak_bytes = metrics.peak_bytes,
                 .passes = std::move(batch.passes)};
  return metrics;
}

}  // namespace tributary::train
