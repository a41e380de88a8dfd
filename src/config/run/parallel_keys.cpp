#include <utility>

#include "config/run/run_field.h"
#include "config/run/run_keys.h"
#include "core/text.h"

namespace tributary::config {
namespace {

constexpr KeyRange kRanks{1, 65536};
constexpr KeyRange kShortTime{0, 86400, true};
constexpr KeyRange kTime{0, 86400};

/// The lines of `parallel.<module>` as they stand in every item of ParallelSection::modules.
std::vector<Key> keys_of_a_module(const std::string& module) {
  using M = ModuleSection;
  constexpr auto kParallel = &RunConfig::parallel;
  constexpr auto kModules = &ParallelSection::modules;
  const std::string section = str("parallel.", module, ".");
  return {
      key<kParallel, kModules, &M::placement>(
          {.path = section + "placement",
           .meaning = str("Where `", module,
                          "` runs: `inline` in the first stage of the backbone, with its degrees; "
                          "`separate` on ranks of its own, `colocated` on those of the backbone, "
                          "both with the degrees below (docs/guides/parallel.md); `flow` in "
                          "processes of `tributary encoder` beside the run, "
                          "`dp_replicate` of them in its plan (docs/guides/flow.md). The other "
                          "keys mean nothing of an inline module and must not be set.")}),
      key<kParallel, kModules, &M::ranks>(
          {.path = section + "ranks",
           .meaning = "Ranks of a separate module; the backbone has those that are left. Empty: "
                      "the ranks behind the backbone's, as many as the degrees multiply to."}),
      key<kParallel, kModules, &M::pp>({.path = section + "pp",
                                        .meaning = "Pipeline stages of a separate module.",
                                        .unit = "ranks",
                                        .range = kRanks}),
      key<kParallel, kModules, &M::dp_replicate>({.path = section + "dp_replicate",
                                                  .meaning = "Replicas of its sharded parameters.",
                                                  .unit = "ranks",
                                                  .range = kRanks}),
      key<kParallel, kModules, &M::dp_shard>(
          {.path = section + "dp_shard",
           .meaning = "Ranks that share one copy of its parameters; `auto`: what the other degrees "
                      "leave of its ranks, 1 where a separate module has no `ranks` given.",
           .unit = "ranks",
           .range = kRanks}),
      key<kParallel, kModules, &M::cp>({.path = section + "cp",
                                        .meaning = "As `parallel.cp`, of this module.",
                                        .unit = "ranks",
                                        .range = kRanks}),
      key<kParallel, kModules, &M::ulysses>({.path = section + "ulysses",
                                             .meaning = "As `parallel.ulysses`, of this module.",
                                             .unit = "ranks",
                                             .range = kRanks}),
      key<kParallel, kModules, &M::tp>({.path = section + "tp",
                                        .meaning = "Ranks that share every matrix of this module.",
                                        .unit = "ranks",
                                        .range = kRanks}),
      key<kParallel, kModules, &M::passes>(
          {.path = section + "passes",
           .meaning =
               "Passes in which a rank of a colocated module takes its part of a batch: each "
               "encodes the next microbatches, while features of the pass before travel.",
           .range = {1, 1 << 20}}),
      key<kParallel, kModules, &M::turns>(
          {.path = section + "turns",
           .meaning = "Whether the passes of a colocated module run among those of the backbone, "
                      "first of all where its pipeline waits, in place of before and behind them. "
                      "It takes two passes or more; ranks that share a pass, or parameters by "
                      "`dp_shard`, must lie on one stage."}),
      key<kParallel, kModules, &M::ahead>(
          {.path = section + "ahead",
           .meaning = "Whether a colocated module that is frozen encodes the media of the next "
                      "step during this one: where the pipeline of the backbone waits, else behind "
                      "its passes. Features of two steps are held then. Its ranks must lie as "
                      "`turns` needs them, which it replaces."}),
      key<kParallel, kModules, &M::features>(
          {.path = section + "features",
           .meaning = "Where features of a colocated module and their gradients wait until they "
                      "are used: on the `device`, or on the `host`, from which the features of a "
                      "microbatch come back while the one before it is computed."}),
      key<kParallel, kModules, &M::stages>(
          {.path = section + "stages",
           .meaning = "Stages of the backbone on whose ranks a colocated module lies: `all`, or "
                      "only the `first`."}),
  };
}

}  // namespace

std::vector<Key> parallel_keys() {
  using R = RunConfig;
  using P = ParallelSection;
  return {
      key<&R::parallel, &P::dp_replicate>(
          {.path = "parallel.dp_replicate",
           .meaning = "Replicas of the sharded parameters; they take different samples.",
           .unit = "ranks",
           .range = kRanks}),
      key<&R::parallel, &P::dp_shard>(
          {.path = "parallel.dp_shard",
           .meaning = "Ranks that share one copy of parameters, gradients and optimizer state and "
                      "take different samples; 1 when it is not set and another axis is `auto`.",
           .unit = "ranks",
           .range = kRanks}),
      key<&R::parallel, &P::cp>(
          {.path = "parallel.cp",
           .meaning = "Ranks that share a sequence and pass keys and values round a ring.",
           .unit = "ranks",
           .range = kRanks}),
      key<&R::parallel, &P::ulysses>(
          {.path = "parallel.ulysses",
           .meaning = "Ranks that share a sequence and exchange it for heads in attention.",
           .unit = "ranks",
           .range = kRanks}),
      key<&R::parallel, &P::tp>({.path = "parallel.tp",
                                 .meaning = "Ranks that share every matrix; keep them in one node.",
                                 .unit = "ranks",
                                 .range = kRanks}),
      key<&R::parallel, &P::pp>(
          {.path = "parallel.pp",
           .meaning = "Pipeline stages: ranks that each hold some of the layers.",
           .unit = "ranks",
           .range = kRanks}),
      key<&R::parallel, &P::schedule>(
          {.path = "parallel.schedule",
           .meaning =
               "Order of the passes on the pipeline stages (docs/guides/pipeline.md); of one "
               "stage it means nothing."}),
      key<&R::parallel, &P::vision_stages>(
          {.path = "parallel.vision_stages",
           .meaning = "Of the pipeline stages, the first so many hold the vision tower and nothing "
                      "else: a short form of a separate tower with the degrees of the backbone. 0: "
                      "`parallel.vision.placement` says where it lies.",
           .unit = "ranks",
           .range = {0, 65535}}),
      key<&R::parallel, &P::plan>(
          {.path = "parallel.plan",
           .meaning = "A plan (docs/formats/plan.md): its degrees, stages, schedule, recompute, "
                      "offload, frozen modules and batch stand in place of those of this file."}),
      key<&R::parallel, &P::virtual_stages>(
          {.path = "parallel.virtual_stages",
           .meaning =
               "Pieces of the model that each stage holds, under `interleaved`: 2 unless set; the "
               "V-shaped orders have 2 and the others 1.",
           .unit = "stages",
           .range = {1, 1024}}),
      key<&R::parallel, &P::ep>({.path = "parallel.ep",
                                 .meaning = "Ranks that share the experts; only 1 so far.",
                                 .unit = "ranks",
                                 .range = kRanks}),
      key<&R::parallel, &P::shard>(
          {.path = "parallel.shard",
           .meaning = "What `dp_shard`, `cp` and `ulysses` share: parameters, gradients and "
                      "optimizer state (FSDP), or the optimizer state alone (ZeRO-1)."}),
      key<&R::parallel, &P::release>(
          {.path = "parallel.release",
           .meaning = "When gathered parameters are freed: after each forward pass, to be gathered "
                      "again for backward, or not before the end of the step; `auto`: the first "
                      "without pipeline stages, else the second."}),
      key<&R::parallel, &P::prefetch>(
          {.path = "parallel.prefetch",
           .meaning = "Layers whose parameters are gathered ahead of the one that computes.",
           .unit = "layers",
           .range = {0, 64}}),
      key<&R::parallel, &P::reduce_dtype>(
          {.path = "parallel.reduce_dtype",
           .meaning = "Type in which gradients are summed over ranks; `same`: their own."}),
      key<&R::parallel, &P::offload>(
          {.path = "parallel.offload",
           .meaning = "What rests in host memory between uses: nothing, the optimizer state, or "
                      "that and the parameters."}),
      key<&R::parallel, &P::ulysses_async>(
          {.path = "parallel.ulysses_async",
           .meaning = "Overlap the exchange of queries, keys and values with their projections."}),
      key<&R::parallel, &P::collectives>(
          {.path = "parallel.collectives",
           .meaning =
               "How tensors of CUDA devices travel: from device to device (NCCL, which wants "
               "one device for each rank), or through the memory of the host, where ranks "
               "may share a device; that is slow. On a CPU both are the same."}),
      key<&R::parallel, &P::collective_timeout_seconds>(
          {.path = "parallel.collective_timeout_seconds",
           .meaning = "A collective that takes longer ends the run.",
           .unit = "s",
           .range = kShortTime}),
      key<&R::parallel, &P::bootstrap_timeout_seconds>(
          {.path = "parallel.bootstrap_timeout_seconds",
           .meaning = "All ranks must have found each other after this time.",
           .unit = "s",
           .range = kShortTime}),
      key<&R::parallel, &P::heartbeat_seconds>(
          {.path = "parallel.heartbeat_seconds",
           .meaning = "Period in which every rank says that it lives, where and at which step.",
           .unit = "s",
           .range = kShortTime}),
      key<&R::parallel, &P::lost_after_seconds>(
          {.path = "parallel.lost_after_seconds",
           .meaning = "A rank that is silent for longer is lost, and the others leave.",
           .unit = "s",
           .range = kShortTime}),
      key<&R::parallel, &P::setup_deadline_seconds>(
          {.path = "parallel.setup_deadline_seconds",
           .meaning =
               "Set-up, the first step or a validation without progress for longer counts as "
               "hung.",
           .unit = "s",
           .range = kShortTime}),
      key<&R::parallel, &P::step_deadline_seconds>(
          {.path = "parallel.step_deadline_seconds",
           .meaning = "A step without progress for longer counts as hung; 0: the larger of 60 s "
                      "and 8 times the median of the last 20 steps.",
           .unit = "s",
           .range = kTime}),
      key<&R::parallel, &P::checkpoint_deadline_seconds>(
          {.path = "parallel.checkpoint_deadline_seconds",
           .meaning =
               "A save or a load without progress for longer counts as hung, however long it "
               "takes as a whole.",
           .unit = "s",
           .range = kShortTime}),
  };
}

std::vector<Key> module_keys() {
  std::vector<Key> keys;
  const std::vector<ModuleSection> sections = inline_sections();
  for (std::size_t module = 0; module < sections.size(); ++module)
    for (Key& each : keys_of_a_module(sections[module].module)) {
      each.get = [get = each.get, module](const RunConfig& config, std::size_t) {
        return get(config, module);
      };
      each.set = [set = each.set, module](RunConfig& config, std::size_t, const KeyValue& value) {
        set(config, module, value);
      };
      keys.push_back(std::move(each));
    }
  return keys;
}

std::vector<Key> pool_keys() {
  using R = RunConfig;
  using P = PoolSection;
  return {
      key<&R::pool, &P::directory>(
          {.path = "pool.directory",
           .meaning = "Where processes of `tributary encoder` find the run, on a file system that "
                      "they share; empty: `pool` in the directory of the run."}),
      key<&R::pool, &P::bind>(
          {.path = "pool.bind",
           .meaning = "Where rank 0 listens for the other processes of a pool: an address of its "
                      "machine, or the name of an interface there, such as `eth0`. Processes of "
                      "other machines need one of a network. They listen, in their turn, at the "
                      "address of theirs that leads there."}),
      key<&R::pool, &P::engines>(
          {.path = "pool.engines",
           .meaning = "What may move features to ranks: `cuda`, from device to device on one "
                      "machine, of frozen towers; `memfd`, memory that is shared on one "
                      "machine; `ucx`, the library UCX, over RDMA where the network has it; `tcp`. "
                      "In this order, whatever that of the list, the first that works is taken, "
                      "and the next one when "
                      "it fails.",
           .choices = {"cuda", "memfd", "ucx", "tcp"}}),
      key<&R::pool, &P::encoders>(
          {.path = "pool.encoders",
           .meaning =
               "Encoder processes for which a run waits before its first step, at most "
               "`parallel.bootstrap_timeout_seconds`; `tributary launch --encoders` sets it.",
           .range = {0, 255}}),
      key<&R::pool, &P::min_encoders>(
          {.path = "pool.min_encoders",
           .meaning = "Fewest encoder processes that the run asks its launcher for; "
                      "`tributary launch --encoders MIN-MAX` sets it.",
           .range = {0, 255}}),
      key<&R::pool, &P::max_encoders>(
          {.path = "pool.max_encoders",
           .meaning = "Most encoder processes that the run asks its launcher for; 0: it leaves "
                      "their number alone. `tributary launch --encoders MIN-MAX` sets it.",
           .range = {0, 255}}),
      key<&R::pool, &P::window_seconds>(
          {.path = "pool.window_seconds",
           .meaning = "Time of steps, and at least eight of them, over which a run measures "
                      "encoders and ranks before it asks for more or fewer encoders.",
           .unit = "s",
           .range = kTime}),
      key<&R::pool, &P::ahead>(
          {.path = "pool.ahead",
           .meaning =
               "Steps that encoders may work on at a time, the current one among them; ranks read "
               "samples as far ahead.",
           .unit = "steps",
           .range = {1, 64}}),
      key<&R::pool, &P::patience_seconds>(
          {.path = "pool.patience_seconds",
           .meaning = "Longest time that a rank waits in a step for features that some encoder "
                      "could still send; then it encodes the samples itself.",
           .unit = "s",
           .range = kTime}),
      key<&R::pool, &P::encoder_mib>(
          {.path = "pool.encoder_mib",
           .meaning = "Memory of each encoder process for features that wait; one sample may take "
                      "a quarter of it.",
           .unit = "MiB",
           .range = {1, 1 << 20}}),
      key<&R::pool, &P::order>(
          {.path = "pool.order",
           .meaning = "What a step is made of: the next samples of the data, or those of the next "
                      "`pool.ahead` batches whose features are there already. An order by arrival "
                      "is kept in `plan.log`, and comes again with `pool.replay`."}),
      key<&R::pool, &P::replay>(
          {.path = "pool.replay",
           .meaning = "The `plan.log` of a run by arrival, whose order this run takes; empty: "
                      "what arrives makes it."}),
      key<&R::pool, &P::cache>(
          {.path = "pool.cache",
           .meaning =
               "Directory in which encoders keep features, so that pictures are encoded once "
               "and not in every epoch and run; empty: none. Runs with the same weights of "
               "the encoder may share it."}),
      key<&R::pool, &P::cache_gib>(
          {.path = "pool.cache_gib",
           .meaning = "Size of the directory beyond which an encoder keeps nothing more there.",
           .unit = "GiB",
           .range = {1, 1 << 20}}),
  };
}

std::vector<Key> drill_keys() {
  using R = RunConfig;
  using D = DrillSection;
  return {
      key<&R::drill, &D::fault>(
          {.path = "drill.fault",
           .meaning = "A fault on purpose, to rehearse recovery: the rank is killed (SIGKILL), "
                      "stopped (SIGSTOP), or raises an error. It strikes once, and never after a "
                      "restart by the launcher."}),
      key<&R::drill, &D::rank>({.path = "drill.rank",
                                .meaning = "The rank that is struck.",
                                .unit = "rank",
                                .range = {0, 65535}}),
      key<&R::drill, &D::step>({.path = "drill.step",
                                .meaning = "The step in which it is struck.",
                                .unit = "step",
                                .range = {1, 1'000'000'000'000}}),
      key<&R::drill, &D::section>(
          {.path = "drill.section",
           .meaning = "Where in the step: as it begins to compute forward, backward or the update; "
                      "with the first collective of backward under way; before action "
                      "`drill.action` of its list; or when its part of the checkpoint is written "
                      "and nothing is committed."}),
      key<&R::drill, &D::action>({.path = "drill.action",
                                  .meaning = "With `drill.section: action`: which, from 0.",
                                  .unit = "action",
                                  .range = {0, 1'000'000'000}}),
      key<&R::drill, &D::after_seconds>(
          {.path = "drill.after_seconds",
           .meaning = "How long the rank rests there before; longer than "
                      "`parallel.heartbeat_seconds`, the others know and name the section.",
           .unit = "s",
           .range = {0, 86400}}),
  };
}

}  // namespace tributary::config
