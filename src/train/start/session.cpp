#include "train/start/session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "config/family/all_families.h"
#include "config/family/tokenizer_files.h"
#include "core/error.h"
#include "core/file/digest_file.h"
#include "core/machine/cores.h"
#include "core/machine/memory_limits.h"
#include "core/sha256.h"
#include "data/loader/encode_sample.h"
#include "data/preprocess/processor_file.h"
#include "data/text/chat_template.h"
#include "data/text/model_template.h"
#include "mesh/device.h"
#include "model/weights/peft_adapter.h"
#include "train/balance/measured_times.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/unit_parts.h"
#include "train/start/load_section.h"
#include "train/start/media_kernels.h"

namespace tributary::train {
namespace {

/// Dispatches samples by the planner's plans; without a planner, in turn.
data::Deal deal_by(const Session& session) {
  if (session.planner == nullptr) return {};
  return [planner = session.planner.get(), &router = *session.router, flow = session.flow.get(),
          arrival = session.arrival.get()](std::int64_t first_index,
                                           std::span<const SampleShape> shapes) {
    const StepPlanner::Dealt dealt = planner->plan(first_index, shapes);
    if (arrival != nullptr) arrival->note(first_index, shapes, dealt.replica_of);
    if (flow != nullptr)
      flow->plan({.first_index = first_index,
                  .shapes = shapes,
                  .microbatches = dealt.microbatches,
                  .trained = arrival != nullptr ? arrival->trained_ahead()
                                                : std::span<const std::int64_t>()});
    return router.deal(first_index, dealt.replica_of, dealt.media);
  };
}

/// Whether ranks leave pixels to encoders beside the run. A module ahead takes samples of the next
/// step, and an order by arrival those of later ones, which cannot be taken back; nor can what is
/// lent of a tower that trains. With encoders apart, a rank may read samples of another replica,
/// whose features it does not hear of.
bool leaves_rows(const Session& session) {
  return session.flow && !session.flow->trains() && !session.arrival &&
         !session.lanes.encodes_ahead() && !session.lanes.has_encoders_apart();
}

std::function<ModalitySet(std::int64_t)> leaves_by(const Session& session) {
  if (!leaves_rows(session)) return {};
  return [flow = session.flow.get()](std::int64_t sample) { return flow->made_elsewhere(sample); };
}

std::function<bool(const data::EncodedSample&)> lacks_by(const Session& session) {
  if (!leaves_rows(session)) return {};
  return [flow = session.flow.get()](const data::EncodedSample& sample) {
    return flow->must_read(sample);
  };
}

/// Swaps samples between ranks; null where each rank reads just what it takes.
data::Pass pass_by(SampleRouter& router) {
  if (!router.passes()) return {};
  return [&router](std::int64_t first_index, const data::WriteRead& write) {
    return router.pass_on(first_index, write);
  };
}

/// The planner of a run that balances samples, or whose encoders do not lie with the backbone; else
/// null.
std::unique_ptr<StepPlanner> make_planner(const Session& session) {
  const config::RunConfig& config = session.config;
  const bool balances =
      config.batch.balance != config::Balance::kNone &&
      (session.mesh->data_ranks() > 1 || config.batch.packing == config::Packing::kLevel);
  if (!balances && !session.lanes.has_encoders_apart() && !session.flow) return nullptr;
  return std::make_unique<StepPlanner>(config, session.model_config, *session.mesh,
                                       session.lanes.edges, session.times,
                                       session.lanes.beside.takes);
}

constexpr std::int64_t kLong = std::int64_t{256} << 20;  // bytes that take seconds to read

std::int64_t size_of(const std::string& file) {
  std::error_code unreadable;  // an error when the file is opened
  const std::uintmax_t bytes = std::filesystem::file_size(file, unreadable);
  return unreadable ? 0 : static_cast<std::int64_t>(bytes);
}

/// The line before the data are checked: every byte of them is read once, for its digest.
std::string announce_data(const config::DataSection& data) {
  std::int64_t bytes = 0;
  for (const config::SourceSection& source : data.sources)
    bytes += size_of(source.path) + (source.held_out.empty() ? 0 : size_of(source.held_out));
  return bytes < kLong ? "" : str("checking ", describe_bytes({bytes}), " of data ...");
}

std::string announce_weights(const config::ModelSection& model) {
  if (model.weights != config::Weights::kPretrained) return "";
  std::int64_t bytes = 0;
  std::error_code unreadable;  // an error when they are loaded
  for (const auto& file : std::filesystem::directory_iterator(model.path, unreadable))
    if (file.path().extension() == ".safetensors") bytes += size_of(file.path());
  return bytes < kLong
             ? ""
             : str("loading ", describe_bytes({bytes}), " of weights from ", model.path, " ...");
}

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

/// Counts all parameters and their elements, and the elements that train: those have moments.
std::string describe_shape(const model::Model& model) {
  std::int64_t parameters = 0;
  std::int64_t elements = 0;
  std::int64_t trained = 0;
  std::set<std::string> names;  // a head that is tied over pipeline stages is there twice
  for (const auto& unit : model.units()) {
    for (const auto& parameter : unit->parameters()) {
      if (!names.insert(parameter->name).second) continue;
      ++parameters;
      elements += parameter->elements();
      if (unit->trainable()) trained += parameter->elements();
    }
  }
  return str(parameters, " tensors, ", elements, " elements, ", trained, " trained");
}

/// SHA-256 of a short chat as the template writes it, so that a change of the program shows too.
std::string digest_template(const data::Tokenizer& tokenizer) {
  const data::ChatTemplate chat(tokenizer, {.system_prompt = "system"});
  const std::array<data::Turn, 2> turns{
      data::Turn{.role = data::Role::kUser, .parts = {std::string("question")}},
      data::Turn{.role = data::Role::kAssistant, .parts = {std::string("answer")}}};
  return sha256(chat.render(turns, data::ChatEnd::kLastTurn) +
                chat.render(std::span(turns).first(1), data::ChatEnd::kGenerationPrompt));
}

/// The identity of an opened run: describe_identity of its configuration, and what lies behind it:
/// `model.shape`, `optimizer.kind`, and digests of the tokenizer, the chat template, the image
/// settings (of the processor's files) and the data (files and first images).
///
/// errors: Fault::kResource when a file of the model cannot be read
RunIdentity identify(const Session& session) {
  const std::string& folder = session.config.model.path;
  std::string data;
  for (const data::SourceDigest& source : session.loader->state().sources)
    data += str(data.empty() ? "" : "; ", describe(source));
  RunIdentity identity = describe_identity(session.config);
  identity["model.shape"] = describe_shape(*session.model);
  identity["data.system_prompt"] = data::system_prompt_of(folder, session.model_config.family,
                                                          session.config.data.system_prompt);
  for (const std::string& file : config::tokenizer_files(folder))
    identity["model.tokenizer"] += digest_file(folder + "/" + file, kMaxFileBytes);
  identity["model.preprocessor"] = digest_file(folder + "/preprocessor_config.json", kMaxFileBytes);
  const std::string common = folder + "/processor_config.json";
  using Part = data::ProcessorPart;
  if (std::ranges::any_of(std::array{Part::kPictures, Part::kClips, Part::kSounds}, [&](Part part) {
        return data::find_processor_settings(folder, part).where.starts_with(common);
      }))
    identity["model.preprocessor"] += digest_file(common, kMaxFileBytes);
  identity["model.chat_template"] = digest_template(*session.tokenizer);
  identity["optimizer.kind"] = session.optimizer->kind();
  identity["data.digest"] = data;
  return identity;
}

}  // namespace

void set_compute(const config::RunSection& run, std::int64_t local_world, at::Device device) {
  at::set_num_threads(compute_threads(run.threads, local_world));
  // Some sums differ between runs without this: docs/theory/reliability.md, "Repeatable sums".
  const bool deterministic = is_deterministic(run.deterministic, device);
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // cuBLAS is repeatable only with workspaces of fixed sizes; libtorch refuses it without them.
  constexpr int kKeepWhatIsSet = 0;
  if (deterministic && device.is_cuda())
    (void)setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", kKeepWhatIsSet);
  // That mode also fills every empty tensor before its first use, which no kernel here reads.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

at::ScalarType dtype_of(const config::ModelSection& model, const at::Device& device) {
  if (model.dtype == config::Dtype::kFloat32) return at::kFloat;
  TRIB_REQUIRE(!device.is_cpu(), .what = "train: dtype is not supported on the device",
               .where = "model.dtype", .found = str("bfloat16 on ", device.str()),
               .expected = "float32 on a CPU", .fix = "set model.dtype to float32");
  return at::kBFloat16;
}

bool is_deterministic(config::Deterministic asked, at::Device device) {
  return asked == config::Deterministic::kAuto ? device.is_cpu()
                                               : asked == config::Deterministic::kYes;
}

config::RunConfig resolve_adapter(config::RunConfig config) {
  config::ModelSection& section = config.model;
  if (!section.asks_for_adapters()) return config;
  const config::ModelConfig model = config::read_model_config(section.path);
  section.adapter =
      model::read_peft_section(section.adapter, model.family, model::AdapterUse::kTrained);
  section = config::freeze_without_adapter(section, model::list_linear_maps(model));
  return config;
}

void set_first_weights(model::Model& model, const config::RunConfig& config,
                       const model::OnProgress& on_progress) {
  switch (config.model.weights) {
    case config::Weights::kPretrained:
      return model::load_weights(model, config.model.path, on_progress);
    case config::Weights::kCheckpoint:
      (void)load_model(find_checkpoint(config.model.checkpoint),
                       list_parameters(model, /*with_adapters=*/false));
      return;
    case config::Weights::kRandom:
      return model::initialize(model, config.run.seed, on_progress);
  }
}

std::unique_ptr<model::Model> build_model(const config::RunConfig& config,
                                          const config::ModelConfig& model_config,
                                          const model::ModelLayout& layouts, at::Device device,
                                          const model::OnProgress& on_progress) {
  auto model = model::make_model(model_config, layouts);
  bool any_trainable = false;
  for (const auto& unit : model->units()) {
    const bool trainable = model::trains(config.model, *unit);
    unit->materialize(device, dtype_of(config.model, device), trainable);
    any_trainable = any_trainable || trainable;
  }
  TRIB_REQUIRE(any_trainable, .what = "train: every module is frozen", .where = "model.freeze",
               .expected = "at least one module to train");
  set_first_weights(*model, config, on_progress);
  if (config.model.weights != config::Weights::kRandom)
    model::initialize_adapters(*model, config.run.seed, on_progress);
  if (config.model.has_adapters() && !config.model.adapter.path.empty())
    model::load_peft_adapter(*model, config.model.adapter.path);
  model->set_recompute(config.model.recompute, config.model.offload);
  return model;
}

std::int64_t steps_of_epochs(const config::RunConfig& config, std::int64_t records) {
  const double samples = config.run.epochs * static_cast<double>(records);
  const auto batch = static_cast<double>(config.batch.global_samples);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(samples / batch)));
}

/// Everything but times, planner, data, model and optimizer.
Session begin_session(const config::RunConfig& config, const Ranks& ranks) {
  Session session;
  session.config = config;
  session.mesh = &ranks.mesh();
  session.health = ranks.health.get();
  session.drill = ranks.drill.get();
  session.device = mesh::open_device(config.run.device, ranks.launch.local_rank);
  set_compute(config.run, ranks.launch.local_world, session.device);
  session.model_config = config::read_model_config(config.model.path);
  for (const config::SourceSection& source : config.data.sources)
    session.sources.push_back(source.name);
  session.tokenizer = std::make_unique<data::Tokenizer>(data::Tokenizer::load(config.model.path));
  session.encoder = data::make_encoder(config, session.model_config, *session.tokenizer,
                                       resize_picture, frame_samples);
  session.plan = ranks.plan;
  session.lanes = lanes_of_run(ranks.plan, ranks.pipeline, ranks.meshes,
                               config::front_modules(session.model_config));
  session.router =
      std::make_unique<SampleRouter>(session.lanes, ranks.meshes, config.batch.global_samples);
  return session;
}

Session open_session(const config::RunConfig& config, const Ranks& ranks,
                     const std::string& quarantine_path,
                     const std::function<void(const std::string&)>& say) {
  const mesh::Mesh& mesh = ranks.mesh();
  const auto announce = [&say](const std::string& line) {
    if (!line.empty()) say(line);
  };
  Session session = begin_session(config, ranks);
  const model::ModelLayout layouts = lay_out(config, ranks.plan, ranks.pipeline, ranks.meshes);
  if (!config.batch.costs.empty())
    session.times = std::make_shared<const MeasuredTimes>(
        config, session.plan, session.mesh->world().size(), at::get_num_threads());
  const std::vector<FlowModule> flowing = flow_modules(config, session.model_config);
  if (!flowing.empty()) {
    session.flow = std::make_unique<Flow>(config, flowing);
    if (config.pool.order == config::PoolOrder::kArrival)
      session.arrival = std::make_unique<ArrivalOrder>(config);
    if (config.pool.max_encoders > 0 && session.leads())
      session.encoder_request = std::make_unique<EncoderRequest>(config, mesh);
    int& prefetched = session.config.data.prefetch_batches;  // encoders learn of dealt batches
    prefetched = std::max(prefetched, static_cast<int>(config.pool.ahead));
  }
  session.planner = make_planner(session);
  announce(announce_data(config.data));
  session.loader = std::make_unique<data::Loader>(
      data::LoaderOptions{.data = session.config.data,
                          .seed = config.run.seed,
                          .batch_samples = config.batch.global_samples,
                          .quarantine_path = quarantine_path,
                          .deal = deal_by(session),
                          .part = mesh.data_index(),
                          .parts = mesh.data_ranks(),
                          .reader = session.router->reader(),
                          .readers = session.router->readers(),
                          .leaves = leaves_by(session),
                          .lacks = lacks_by(session),
                          .pass = pass_by(*session.router),
                          .begin_thread = unbind_from_cores},
      *session.encoder);
  if (config.run.epochs > 0) {
    session.config.run.steps = steps_of_epochs(config, session.loader->records());
    session.config.run.epochs = 0;
  }
  session.held_out = std::make_unique<data::HeldOut>(config.data, *session.encoder);
  announce(announce_weights(config.model));
  {
    const LoadSection loading(session.health);
    session.model =
        build_model(config, session.model_config, layouts, session.device, loading.on_progress());
  }
  session.adapters.trains_alone = config.model.has_adapters();
  if (config.model.has_adapters())
    session.adapters.shares =
        config::adapter_shares(config.model, model::list_linear_maps(session.model_config));
  session.optimizer = make_optimizer(config.optimizer, session.model->units(),
                                     /*keeps_start=*/config.objective.compares_pairs());
  session.identity = identify(session);
  return session;
}

Session open_evaluation(const config::RunConfig& config, const Ranks& ranks,
                        const std::function<void(model::Model&)>& load) {
  Session session = begin_session(config, ranks);
  session.held_out = std::make_unique<data::HeldOut>(config.data, *session.encoder);
  const LoadSection loading(session.health);
  session.model = model::make_model(session.model_config,
                                    lay_out(config, ranks.plan, ranks.pipeline, ranks.meshes));
  for (const auto& unit : session.model->units())
    unit->materialize(session.device, dtype_of(config.model, session.device), /*trainable=*/false);
  load(*session.model);
  return session;
}

}  // namespace tributary::train
