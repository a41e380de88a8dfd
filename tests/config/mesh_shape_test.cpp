#include "config/run/mesh_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <tuple>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "tests/config/minimal_run.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A backbone with 28 heads on 4 key-value heads, as in Qwen2.5-VL-7B; vision with 16 heads.
ModelConfig vision_language_model() {
  ModelConfig model;
  model.backbone.heads = 28;
  model.backbone.kv_heads = 4;
  model.backbone.mlp_width = 18944;
  model.backbone.vocab = 152064;
  VisionConfig vision;
  vision.heads = 16;
  vision.mlp_width = 3420;
  model.vision = vision;
  return model;
}

/// 16 heads on 2 key-value heads, no vision.
ModelConfig text_model() {
  ModelConfig model;
  model.backbone.heads = 16;
  model.backbone.kv_heads = 2;
  model.backbone.mlp_width = 512;
  model.backbone.vocab = 1001;  // odd: the block pads it
  return model;
}

std::string refusal_of(const ParallelSection& parallel, std::int64_t world,
                       const ModelConfig& model) {
  try {
    return "accepted " + describe(resolve_mesh(parallel, world, model));
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
}

TEST(MeshShape, RanksAndCoordinatesAreOneToOneWithTpInnermost) {
  const MeshShape shape{
      .pp = 2, .dp_replicate = 3, .dp_shard = 2, .cp = 2, .ulysses = 3, .tp = 2, .ep = 1};
  std::int64_t rank = 0;
  for (std::int64_t pp = 0; pp < 2; ++pp)
    for (std::int64_t replicate = 0; replicate < 3; ++replicate)
      for (std::int64_t shard = 0; shard < 2; ++shard)
        for (std::int64_t cp = 0; cp < 2; ++cp)
          for (std::int64_t ulysses = 0; ulysses < 3; ++ulysses)
            for (std::int64_t tp = 0; tp < 2; ++tp) {
              const MeshCoordinates at{pp, replicate, shard, cp, ulysses, tp};
              ASSERT_EQ(coordinates_of(shape, rank), at) << "rank " << rank;
              ASSERT_EQ(rank_of(shape, at), rank);
              ++rank;
            }
  EXPECT_EQ(rank, shape.world());
}

TEST(MeshShape, RefusesRanksAndCoordinatesOutsideTheMesh) {
  const MeshShape shape{.dp_shard = 2, .tp = 2};
  for (const std::int64_t rank : {-1, 4}) {
    try {
      (void)coordinates_of(shape, rank);
      FAIL() << "rank " << rank;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank is not in the mesh"),
                                      HasSubstr(str("rank ", rank)), HasSubstr("0 to 3")));
    }
  }
  try {
    (void)rank_of(shape, {.tp = 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("coordinate is not in the mesh"),
                                    HasSubstr("found: 2"), HasSubstr("0 to 1")));
  }
}

TEST(ResolveMesh, GivesTheAutoAxisWhatTheOthersLeave) {
  ParallelSection parallel;
  EXPECT_EQ(resolve_mesh(parallel, 6, text_model()), (MeshShape{.dp_shard = 6}));
  parallel.tp = {2};
  parallel.cp = {3};
  EXPECT_EQ(resolve_mesh(parallel, 24, text_model()), (MeshShape{.dp_shard = 4, .cp = 3, .tp = 2}));
  parallel.dp_shard = {2};
  parallel.dp_replicate = {0};
  EXPECT_EQ(resolve_mesh(parallel, 24, text_model()),
            (MeshShape{.dp_replicate = 2, .dp_shard = 2, .cp = 3, .tp = 2}));
  parallel = {.dp_shard = {1}, .tp = {0}};
  EXPECT_EQ(resolve_mesh(parallel, 8, text_model()), (MeshShape{.tp = 8}));
}

/// The rules of docs/theory/parallelism.md, "What must divide", as they are written there.
bool keeps_rules(const ModelConfig& model, std::int64_t tp, std::int64_t ulysses) {
  const std::int64_t heads = model.backbone.heads;
  const std::int64_t kv = model.backbone.kv_heads;
  if (heads % (tp * ulysses) != 0) return false;
  if (kv % tp != 0 && tp % kv != 0) return false;
  const std::int64_t kv_of_rank = kv % tp == 0 ? kv / tp : 1;
  if (kv_of_rank % ulysses != 0 && ulysses % kv_of_rank != 0) return false;
  if (model.backbone.mlp_width % tp != 0) return false;
  return !model.vision || (model.vision->heads % tp == 0 && model.vision->mlp_width % tp == 0);
}

TEST(ResolveMesh, AcceptsExactlyWhatTheRulesAllow) {
  int accepted = 0;
  int refused = 0;
  ModelConfig odd = text_model();  // 12 heads on 6: tp and ulysses restrict each other
  odd.backbone.heads = 12;
  odd.backbone.kv_heads = 6;
  odd.backbone.mlp_width = 48;
  for (const ModelConfig& model : {vision_language_model(), text_model(), odd}) {
    for (std::int64_t tp = 1; tp <= 33; ++tp) {
      for (std::int64_t ulysses = 1; ulysses <= 33; ++ulysses) {
        SCOPED_TRACE(str("heads ", model.backbone.heads, " tp ", tp, " ulysses ", ulysses));
        const ParallelSection parallel{.ulysses = {ulysses}, .tp = {tp}};
        const std::string answer = refusal_of(parallel, 2 * tp * ulysses, model);
        const bool allowed = keeps_rules(model, tp, ulysses);
        ASSERT_EQ(answer.starts_with("accepted"), allowed) << answer;
        ++(allowed ? accepted : refused);
      }
    }
  }
  EXPECT_GT(accepted, 30);
  EXPECT_GT(refused, 2000);
}

TEST(ResolveMesh, RefusesAxesThatDoNotMakeTheWorld) {
  ParallelSection parallel{.dp_shard = {3}, .tp = {2}};
  EXPECT_THAT(refusal_of(parallel, 8, text_model()),
              AllOf(HasSubstr("axes do not multiply to the world size"),
                    HasSubstr("dp_shard 3, cp 1, ulysses 1, tp 2: 6 ranks"), HasSubstr("8 ranks"),
                    HasSubstr("fix: set parallel.dp_shard to 4, or start 6 processes")));
  EXPECT_THAT(refusal_of(parallel, 7, text_model()), HasSubstr("fix: start 6 processes"));
  parallel.dp_shard = {0};
  EXPECT_THAT(refusal_of(parallel, 7, text_model()),
              AllOf(HasSubstr("other axes do not divide the world size"),
                    HasSubstr("parallel.dp_shard = auto"), HasSubstr("7 ranks"),
                    HasSubstr("a multiple of 2"), HasSubstr("start 6 or 8 processes")));
  parallel.tp = {8};
  EXPECT_THAT(refusal_of(parallel, 7, text_model()), HasSubstr("fix: start 8 processes"));
}

TEST(ResolveMesh, RefusesTwoAutosAndAnAutoThatIsNoFactorOfTheWorld) {
  EXPECT_THAT(refusal_of({.tp = {0}}, 8, text_model()),
              AllOf(HasSubstr("more than one axis of the mesh is auto"),
                    HasSubstr("parallel.dp_shard, parallel.tp")));
  EXPECT_THAT(refusal_of({.dp_shard = {1}, .ep = {0}}, 1, text_model()),
              HasSubstr("ep cannot be auto"));
}

TEST(ResolveMesh, RefusesExpertsForNow) {
  EXPECT_THAT(refusal_of({.dp_shard = {4}, .pp = {2}, .ep = {4}}, 8, text_model()),
              HasSubstr("axis is not available yet; where: parallel.ep = 4"));
}

TEST(ResolveMesh, NamesRuleValueAndNearestValues) {
  EXPECT_THAT(refusal_of({.tp = {3}}, 3, vision_language_model()),
              AllOf(HasSubstr("attention heads do not divide over the ranks"),
                    HasSubstr("where: parallel.tp = 3"), HasSubstr("found: 28 attention heads"),
                    HasSubstr("set parallel.tp to 2 or 4")));
  EXPECT_THAT(refusal_of({.tp = {7}}, 7, vision_language_model()),
              AllOf(HasSubstr("key-value heads can be neither cut nor repeated"),
                    HasSubstr("found: 4 key-value heads"), HasSubstr("set parallel.tp to 4 or 28"),
                    HasSubstr("vision heads do not divide"), HasSubstr("16 vision heads"),
                    HasSubstr("columns of the vision mlp_width"), HasSubstr("3420")));
  ModelConfig narrow = text_model();
  narrow.backbone.mlp_width = 516;
  EXPECT_THAT(refusal_of({.tp = {8}}, 8, narrow),
              AllOf(HasSubstr("columns of model.mlp_width do not divide"), HasSubstr("516"),
                    HasSubstr("set parallel.tp to 6 or 12")));
  EXPECT_THAT(refusal_of({.ulysses = {3}, .tp = {2}}, 6, vision_language_model()),
              AllOf(HasSubstr("attention heads do not divide over tp * ulysses ranks"),
                    HasSubstr("where: parallel.ulysses = 3"),
                    HasSubstr("28 attention heads, 14 on each of 2 tp ranks"),
                    HasSubstr("set parallel.ulysses to 2 or 7")));
  EXPECT_THAT(refusal_of({.ulysses = {7}, .tp = {2}}, 14, vision_language_model()),
              AllOf(HasSubstr("neither exchanged nor repeated"),
                    HasSubstr("2 key-value heads on each of 2 tp ranks"),
                    HasSubstr("set parallel.ulysses to 2 or 14")));
}

TEST(ParallelSection, ReadsNumbersAutoAndChoices) {
  const RunConfig config = parse_run_config(kMinimalRun + R"(parallel:
  dp_replicate: 2
  dp_shard: 4
  cp: auto
  shard: optimizer
  release: never
  reduce_dtype: same
  offload: parameters
  ulysses_async: true
)",
                                            "run.yaml");
  EXPECT_EQ(config.parallel.dp_replicate, (Degree{2}));
  EXPECT_EQ(config.parallel.dp_shard, (Degree{4}));
  EXPECT_TRUE(config.parallel.cp.is_auto());
  EXPECT_EQ(config.parallel.shard, Shard::kOptimizer);
  EXPECT_EQ(config.parallel.release, Release::kNever);
  EXPECT_EQ(config.parallel.reduce_dtype, ReduceDtype::kSame);
  EXPECT_EQ(config.parallel.offload, Offload::kParameters);
  EXPECT_TRUE(config.parallel.ulysses_async);
}

TEST(ParallelSection, TheDefaultAutoGivesWayToOneThatTheUserWrote) {
  const std::vector<std::string> automatic{"parallel.tp=auto"};
  const RunConfig config = parse_run_config(kMinimalRun, "run.yaml", automatic);
  EXPECT_EQ(config.parallel.dp_shard, (Degree{1}));
  EXPECT_TRUE(config.parallel.tp.is_auto());
  EXPECT_EQ(parse_run_config(write_run_config(config), "again.yaml"), config);
}

TEST(ParallelSection, RefusesTwoAutosWrongValuesAndBeatsThatComeTooLate) {
  const auto refusal = [](const std::vector<std::string>& overrides) {
    return input_error_of([&] { (void)parse(kMinimalRun, overrides); });
  };
  EXPECT_THAT(refusal({"parallel.tp=auto", "parallel.dp_shard=auto"}),
              AllOf(HasSubstr("more than one axis of the mesh is auto"),
                    HasSubstr("parallel.dp_shard, parallel.tp")));
  EXPECT_THAT(refusal({"parallel.tp=auto", "parallel.cp=auto"}),
              HasSubstr("parallel.cp, parallel.tp"));
  for (const char* value : {"0", "-1", "1.5", "automatic", "65537", "[2]"})
    EXPECT_THAT(refusal({str("parallel.tp=", value)}),
                AllOf(HasSubstr("value cannot be used"),
                      HasSubstr("a whole number from 1 to 65536, or auto")))
        << value;
  EXPECT_THAT(refusal({"parallel.heartbeat_seconds=3"}),
              AllOf(HasSubstr("lost_after_seconds is below two heartbeats"),
                    HasSubstr("lost_after_seconds 5"), HasSubstr("heartbeat_seconds 3")));
}

}  // namespace
}  // namespace tributary::config
