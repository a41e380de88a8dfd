#include "studies/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "plan/search/search_plan.h"
#include "simulate/samples/draw_classes.h"
#include "studies/compare/planned_methods.h"
#include "studies/compare/write_comparison.h"
#include "studies/methods/all_methods.h"
#include "studies/methods/problem_of_model.h"
#include "tests/studies/compare/round_numbers.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

config::Study read(const std::string& name) {
  return config::read_study(str(TRIB_SOURCE_DIR, "/configs/studies/", name));
}

TEST(Compare, GivesWhatTheMethodsGiveDirectly) {
  const config::Study study = read("small.yaml");
  const Comparison comparison = compare(study);
  ASSERT_EQ(comparison.settings.size(), 2U);
  for (std::size_t i = 0; i < study.settings.size(); ++i) {
    const config::StudySetting& setting = study.settings[i];
    ModelSetting model{.devices = setting.devices, .batches = {}, .frozen = setting.frozen};
    for (std::uint64_t batch = 0; batch < 2; ++batch)
      model.batches.push_back(simulate::draw_mixture(1, batch, setting.global_samples));
    ASSERT_EQ(comparison.settings[i].methods.size(), pipeline_baselines().size() + 1);
    const MethodResult* listed = comparison.settings[i].find("search");
    ASSERT_NE(listed, nullptr);
    const plan::PlanSearch search = plan::search_plan({.model = setting.model,
                                                       .cluster = setting.cluster,
                                                       .devices = setting.devices,
                                                       .batches = model.batches,
                                                       .frozen = setting.frozen});
    EXPECT_DOUBLE_EQ(listed->step_s, 1e-9 * double(search.certificate.value.count));
    EXPECT_FALSE(listed->plan.empty());
    for (const PipelineBaseline& baseline : pipeline_baselines()) {
      SCOPED_TRACE(str(setting.name, ": ", baseline.name));
      double min = 1e300;
      for (const auto level : {config::RecomputePlan::kNone, config::RecomputePlan::kFull}) {
        model.recompute = level;
        const TrainingProblem problem = problem_of_model(setting.model, setting.cluster, model);
        min = std::min(min, 1e-9 * double(baseline.solve(problem).certificate.value.count));
      }
      const MethodResult* found = comparison.settings[i].find(baseline.name);
      ASSERT_NE(found, nullptr);
      EXPECT_DOUBLE_EQ(found->step_s, min);
      EXPECT_GT(found->mfu, 0);
      EXPECT_LT(found->mfu, 1);
      EXPECT_FALSE(found->plan.empty());
    }
  }
}

TEST(Compare, TheBackboneAloneIsCreditedWithNoEncoder) {
  config::Study study = read("small.yaml");
  study.methods = {"megatron_uniform", "backbone_alone"};
  study.settings.resize(1);
  const config::StudySetting& setting = study.settings[0];
  const SettingResult found = compare(study).settings.at(0);
  const TrainingProblem problem = problem_of_model(
      setting.model, setting.cluster,
      {.devices = setting.devices, .batches = batches_of(setting), .frozen = setting.frozen});
  const auto flops = [&](const char* method) {
    const MethodResult& result = *found.find(method);
    return result.mfu * result.step_s * double(setting.devices) *
           setting.cluster.device.matrix_flops_per_s / double(setting.global_samples);
  };
  const double encoder = problem.costs.encoder.sample_flops;
  EXPECT_GT(encoder, 0);
  EXPECT_NEAR(flops("backbone_alone"), problem.costs.backbone.sample_flops, 1e-6 * encoder);
  EXPECT_NEAR(flops("megatron_uniform") - flops("backbone_alone"), encoder, 1e-6 * encoder);
}

TEST(Compare, RefusesExactWherePacksHaveACapacity) {
  config::Study study = read("small.yaml");
  study.methods = {"orchmllm", "search"};
  study.settings[1].capacity_tokens = 65536;
  EXPECT_THAT([&] { (void)compare(study); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("frozen encoder capacity_tokens"),
                                                  HasSubstr("found: 65536"))));
  study.methods = {};
  study.against = "search";
  EXPECT_THAT([&] { (void)compare(study); },
              ThrowsMessage<Error>(HasSubstr("search has no packed sequences")));
  study.against = "orchmllm";
  study.methods = {"orchmllm"};
  EXPECT_EQ(compare(study, {.quick = true}).settings[0].find("search"), nullptr);
}

TEST(Compare, GivesExactNoPlanWhereNothingFits) {
  config::Study study = read("small.yaml");
  study.methods = {"orchmllm", "search"};
  study.settings[1].memory = Bytes{1000};
  const Comparison comparison = compare(study);
  EXPECT_NE(comparison.settings[0].find("search"), nullptr);
  const MethodResult* none = comparison.settings[1].find("search");
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->certificate.status, plan::Status::kInfeasible);
  EXPECT_EQ(none->step_s, 0);
}

TEST(Compare, RunsTheMethodsOfTheStudyAlone) {
  config::Study study = read("small.yaml");
  study.methods = {"dflop", "fsdp"};
  std::vector<std::string> seen;
  const Comparison comparison =
      compare(study, {.quick = true, .on_search = [&](const auto&, std::string_view method) {
                        seen.emplace_back(method);
                      }});
  EXPECT_THAT(seen, testing::ElementsAre("fsdp", "dflop"));  // in the order of the list
  EXPECT_EQ(comparison.settings.size(), 1U);
  study.methods = {"dflopp"};
  EXPECT_THAT([&] { (void)compare(study); }, ThrowsMessage<Error>(HasSubstr("found: dflopp")));
}

TEST(Compare, RunsTheDegreesThatVeomniGivesOnTextAlone) {
  config::Study study = read("veomni_text.yaml");
  study.settings.resize(2);  // one rank a sequence, and four
  const Comparison comparison = compare(study);
  ASSERT_EQ(comparison.settings.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const SettingResult& setting = comparison.settings[i];
    ASSERT_EQ(setting.methods.size(), 1U);
    EXPECT_EQ(setting.tokens_per_sample, 8192);
    // Forward, both gradients and forward again at the peak is the least that it can take.
    const MethodResult& veomni = setting.methods.front();
    const double flops = veomni.mfu * veomni.step_s * double(setting.devices) *
                         study.settings[i].cluster.device.matrix_flops_per_s;
    EXPECT_GT(flops, 6.0 * 7e9 * 8192 * double(setting.global_samples));
    EXPECT_LT(flops, 6.0 * 9e9 * 8192 * double(setting.global_samples));
    EXPECT_LT(veomni.mfu, 0.75);
    EXPECT_THAT(veomni.plan, HasSubstr("sharded"));
  }
  const auto rate = [&](std::size_t i) {
    const SettingResult& setting = comparison.settings[i];
    return double(setting.global_samples) / setting.methods.front().step_s;
  };
  EXPECT_LT(rate(1), rate(0));
  study.settings[1].ulysses = 3;
  EXPECT_THAT([&] { (void)compare(study); },
              ThrowsMessage<Error>(HasSubstr("found: ulysses 3; expected: a divisor of 8")));
  study.settings[1].ulysses = 8;  // of 28 heads
  EXPECT_THAT([&] { (void)compare(study); },
              ThrowsMessage<Error>(HasSubstr("the model cannot be cut so")));
  study.settings[0].global_samples = 12;  // on 8 replicas
  EXPECT_THAT([&] { (void)compare(study); },
              ThrowsMessage<Error>(HasSubstr("where: setting Qwen2 7B, sp 1, 8k global_samples; "
                                             "found: 12; expected: a multiple of 8")));
}

TEST(Compare, SimulatesTheMfuOfExactWhereNoMethodHasTables) {
  config::Study study = read("small.yaml");
  study.settings.resize(1);
  study.methods = {"search", "veomni"};
  const SettingResult alone = compare(study).settings[0];
  study.methods = {"search", "fsdp"};
  const SettingResult beside = compare(study).settings[0];
  const double mfu = alone.find("search")->mfu;
  EXPECT_GT(mfu, 0);
  EXPECT_DOUBLE_EQ(alone.find("search")->step_s, beside.find("search")->step_s);
  EXPECT_NEAR(mfu, beside.find("search")->mfu, 0.05 * mfu);  // FLOPs by mean sizes, and by samples
  const MethodResult& veomni = *alone.find("veomni");        // the same FLOPs in another time
  EXPECT_NEAR(mfu * alone.find("search")->step_s / (veomni.mfu * veomni.step_s), 1, 1e-9);
}

TEST(NoteOnExact, NamesTheRowsWhosePlansAreOutsideOfItsSpace) {
  SettingResult setting;
  const auto note_on = [&](std::vector<std::string> names) {
    setting.methods.clear();
    for (const std::string& name : names) setting.methods.push_back({.method = name});
    return note_on_search(setting);
  };
  EXPECT_EQ(note_on({"dflop", "best_of_methods"}), "");
  EXPECT_EQ(note_on({"search", "veomni"}), "");   // both simulated
  EXPECT_EQ(note_on({"search", "spindle"}), "");  // both by the same tables
  EXPECT_THAT(note_on({"dflop", "search"}),
              testing::AllOf(testing::StartsWith("search is judged by the simulator"),
                             testing::EndsWith("need not be a better plan.")));
  EXPECT_THAT(
      note_on({"fsdp", "disttrain_batch_serial", "orchmllm", "disttrain_batch_double", "search"}),
      testing::EndsWith(" Outside of its space: orchmllm (samples dealt anew between encoder and "
                        "backbone in every microbatch); disttrain_batch_serial, "
                        "disttrain_batch_double (encoder and backbone "
                        "in turn by whole batches)."));
  // Phases of an encoder on all ranks are those of a colocated one, and so not outside.
  EXPECT_THAT(note_on({"loongforge_3", "search"}), testing::EndsWith("need not be a better plan."));
  EXPECT_THAT(note_on({"loongforge_1", "loongforge_2", "loongforge_3", "optimus", "search"}),
              testing::EndsWith(" Outside of its space: optimus (the encoder in idle time of all "
                                "stages); loongforge_1, loongforge_2 (the encoder at a tp of its "
                                "own on the first stage alone)."));
  // Systems whose plans are degrees and stages of one pipeline are inside.
  for (const PipelineBaseline& each : pipeline_baselines()) {
    const std::string name(each.name);
    const bool is_inside = name == "megatron_encoder_stage" || name == "pytorch_3d" ||
                           name == "fsdp" || name == "disttrain_microbatch" || name == "dflop" ||
                           name == "dflop_fewest" || name == "dflop_without_scheduler" ||
                           name == "loongforge_3" || name == "megatron_first_stage";
    EXPECT_EQ(each.beyond_search.empty(), is_inside) << name;
  }
}

TEST(WriteComparison, HoldsWhatWasFound) {
  const Json json = parse_json(write_comparison(round_numbers()), "test");
  EXPECT_EQ(json.at("format"), kComparisonFormat);
  EXPECT_EQ(json.at("settings").at(0).at("methods").at(1).at("step_s"), 4);
  EXPECT_EQ(json.at("settings").at(1).at("devices"), 8);
}

TEST(DrawSamples, FollowsWeightsAndDistributions) {
  config::StudyData data;
  data.classes = {{.weight = 3,
                   .items = {config::DrawKind::kUniform, 1, 3},
                   .patches = {config::DrawKind::kConstant, 80, 0},
                   .patches_per_token = 4,
                   .text = {config::DrawKind::kLogNormal, 100, 0.5}},
                  {.weight = 1, .text = {config::DrawKind::kConstant, 7, 0}}};
  const std::vector<simulate::SampleSize> samples =
      simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 0, 4000);
  EXPECT_EQ(samples, simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 0, 4000));
  EXPECT_NE(samples, simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 1, 4000));
  double with_items = 0;
  std::vector<double> text;
  for (const simulate::SampleSize& sample : samples) {
    EXPECT_EQ(sample.patches, 80 * sample.items);
    if (sample.items == 0) {
      EXPECT_EQ(sample.tokens, 7);
      continue;
    }
    ++with_items;
    EXPECT_GE(sample.items, 1);
    EXPECT_LE(sample.items, 2);
    text.push_back(double(sample.tokens - 20 * sample.items));
  }
  EXPECT_NEAR(with_items / 4000, 0.75, 0.03);
  std::nth_element(text.begin(), text.begin() + std::ssize(text) / 2, text.end());
  EXPECT_NEAR(text[text.size() / 2], 100, 5);
}

TEST(DrawSamples, CutsWhatIsTooLong) {
  config::StudyData data;
  data.max_tokens = 50;
  data.classes = {{.items = {config::DrawKind::kConstant, 10, 0},
                   .patches = {config::DrawKind::kConstant, 20, 0},
                   .text = {config::DrawKind::kConstant, 15, 0}}};
  EXPECT_EQ(simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 0, 1).front(),
            (simulate::SampleSize{35, 20, 1}));
}

TEST(DrawSamples, HasClipsBesideImages) {
  config::StudyData data;
  data.classes = {{.items = {config::DrawKind::kConstant, 2, 0},
                   .patches = {config::DrawKind::kConstant, 20, 0},
                   .patches_per_token = 4,
                   .clips = {config::DrawKind::kConstant, 3, 0},
                   .frames = {config::DrawKind::kConstant, 100, 0},
                   .frames_per_token = 2,
                   .text = {config::DrawKind::kConstant, 15, 0}}};
  EXPECT_EQ(
      simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 0, 1).front(),
      (simulate::SampleSize{.tokens = 175, .patches = 40, .items = 2, .frames = 300, .clips = 3}));
  data.max_tokens = 130;
  EXPECT_EQ(
      simulate::draw_samples(data, simulate::MixtureSound::kNone, 1, 0, 1).front(),
      (simulate::SampleSize{.tokens = 125, .patches = 40, .items = 2, .frames = 200, .clips = 2}));
  data.classes.clear();
  EXPECT_EQ(simulate::draw_samples(data, simulate::MixtureSound::kBesidePictures, 1, 0, 8),
            simulate::draw_mixture(1, 0, 8, simulate::MixtureSound::kBesidePictures));
}

TEST(DrawNumber, HasTheMeansOfItsDistributions) {
  RandomStream random(3);
  const auto mean = [&](config::DrawKind kind, double first, double second) {
    double sum = 0;
    for (int i = 0; i < 20'000; ++i) sum += simulate::draw_number({kind, first, second}, random);
    return sum / 20'000;
  };
  EXPECT_NEAR(mean(config::DrawKind::kUniform, 2, 6), 4, 0.05);
  EXPECT_NEAR(mean(config::DrawKind::kExponential, 2, 3), 5, 0.1);
  EXPECT_NEAR(mean(config::DrawKind::kLogUniform, 1, std::exp(2.0)), (std::exp(2.0) - 1) / 2, 0.05);
  EXPECT_NEAR(mean(config::DrawKind::kLogNormal, 10, 0.5), 10 * std::exp(0.125), 0.15);
  EXPECT_EQ(simulate::draw_number({config::DrawKind::kConstant, 4, 0}, random), 4);
}

}  // namespace
}  // namespace tributary::studies
