#include "train/checkpoint/checkpoint.h"

#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <nlohmann/json.hpp>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/json.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/small_run.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/directory_lock.h"
#include "train/checkpoint/retention.h"

namespace tributary::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::string& path) {
  return read_text_file(real_file_system(), path, std::uint64_t{1} << 30);
}

std::vector<std::int64_t> steps_in(const std::string& root) {
  return committed_steps(real_file_system(), root);
}

TEST(Checkpoint, IsLoadedBitForBitAsItWasSaved) {
  const std::string root = scratch_directory();
  for (const bool async : {false, true}) {
    CheckpointWriter writer({.root = root + (async ? "/async" : "/now"), .async = async});
    writer.save(small_run(5));
    writer.finish();
  }
  EXPECT_EQ(load_and_compare(root + "/async/step-5"), 5);
  EXPECT_EQ(text_of(root + "/async/step-5/optim/shard-00001-model-00001-of-00001.safetensors"),
            text_of(root + "/now/step-5/optim/shard-00001-model-00001-of-00001.safetensors"));
  EXPECT_EQ(text_of(root + "/async/LATEST"), "step-5\n");
}

TEST(Checkpoint, SavedLoadedAndSavedAgainIsTheSameDirectory) {
  const std::string root = scratch_directory();
  CheckpointWriter({.root = root + "/a"}).save(small_run(3));
  CheckpointContent content = small_run(0);  // other values, to be overwritten
  static_cast<CheckpointFacts&>(content) = read_checkpoint_facts(root + "/a/step-3");
  (void)load_checkpoint(root + "/a/step-3", content.model, content.optimizer);
  CheckpointWriter({.root = root + "/b"}).save(content);

  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root + "/a/step-3")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string other = root + "/b" + entry.path().string().substr(root.size() + 2);
    if (entry.path().filename() != kManifestName) {
      EXPECT_EQ(text_of(entry.path()), text_of(other)) << other;
      continue;
    }
    Json a = parse_json(text_of(entry.path()), "a");
    Json b = parse_json(text_of(other), "b");
    for (const char* own : {"job", "incarnation", "self_crc"}) {
      a.erase(own);
      b.erase(own);
    }
    EXPECT_EQ(a, b);
  }
  EXPECT_EQ(files, 5);
}

/// A disk that writes nothing until it is told to.
class GatedDisk final : public MemoryFileSystem {
 public:
  std::int64_t write(std::int64_t file, std::span<const std::byte> bytes) override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
    return MemoryFileSystem::write(file, bytes);
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards is_open_
  std::condition_variable opened_;
  bool is_open_ = false;
};

TEST(Checkpoint, HoldsTheValuesOfTheMomentOfSave) {
  const std::string root = scratch_directory();
  GatedDisk disk;
  make_directories(disk, root);
  {
    CheckpointWriter writer({.root = root}, disk);
    const CheckpointContent content = small_run(8);
    writer.save(content);  // returns although nothing can be written yet
    for (const NamedTensor& tensor : content.model) tensor.value.fill_(-1);
    for (const NamedTensor& tensor : content.optimizer) tensor.value.zero_();
    disk.open_gate();
    writer.finish();
  }
  EXPECT_EQ(load_and_compare(root + "/step-8", disk), 8);
}

TEST(Checkpoint, TakesViewsThatAreNotContiguous) {
  const std::string root = scratch_directory();
  CheckpointContent content = small_run(1);
  const at::Tensor flat = at::arange(60, at::kFloat);
  content.model = {{"turned", flat.view({6, 10}).t()}, {"piece", flat.slice(0, 7, 19)}};
  content.optimizer.clear();
  CheckpointWriter({.root = root}).save(content);
  const std::vector<NamedTensor> loaded{{"turned", at::zeros({6, 10}).t()},
                                        {"piece", at::zeros({12})}};
  const LoadReport report = load_checkpoint(root + "/step-1", loaded, {});
  EXPECT_TRUE(at::equal(loaded[0].value, content.model[0].value));
  EXPECT_TRUE(at::equal(loaded[1].value, content.model[1].value));
  EXPECT_EQ(report.needed.count, 4 * 72);
}

TEST(Checkpoint, ReadsBoxesOfATensorOverSeveralBlocks) {
  const std::string root = scratch_directory();
  CheckpointContent content = small_run(1);
  const at::Tensor big = at::arange(1500 * 2000, at::kInt).view({1500, 2000});  // 12 MB
  content.model = {{"big", big}};
  CheckpointWriter({.root = root}).save(content);
  CheckpointReader reader(root + "/step-1");
  const at::Tensor part = at::zeros({300, 700}, at::kInt);
  const std::array requests{ReadRequest{"model/big",
                                        {{600, 900}, {300, 700}},
                                        {static_cast<std::byte*>(part.data_ptr()), part.nbytes()}}};
  reader.read(requests);
  EXPECT_TRUE(at::equal(part, big.slice(0, 600, 900).slice(1, 900, 1600)));
  EXPECT_LE(reader.bytes_read(), 2 * kChecksumBlock) << "rows 600 to 900 touch two blocks";
  EXPECT_EQ(reader.manifest().files.front().block_crc32c.size(), 3U);
}

TEST(Checkpoint, ReadsLittleMoreThanItNeeds) {
  const std::string root = scratch_directory();
  CheckpointContent content = small_run(1);
  content.model = {{"big", at::zeros({6000000})}};
  content.optimizer.clear();
  CheckpointWriter({.root = root}).save(content);
  const LoadReport report = load_checkpoint(root + "/step-1", content.model, {});
  EXPECT_LE(static_cast<double>(report.read.count), 1.1 * static_cast<double>(report.needed.count));
}

TEST(Checkpoint, ConvertsTheFloatTypesOfAModelThatOnlyAnswers) {
  const std::string root = scratch_directory();
  CheckpointContent content = small_run(1);
  const at::Tensor exact = at::arange(24, at::kFloat) / 8;  // bf16 holds these as they are
  content.model = {{"narrow", exact.to(at::kBFloat16)}, {"count", at::arange(3, at::kLong)}};
  content.optimizer.clear();
  CheckpointWriter({.root = root}).save(content);
  std::vector<NamedTensor> loaded{{"narrow", at::zeros({24})},
                                  {"count", at::zeros({3}, at::kLong)}};
  const LoadReport report = load_model(root + "/step-1", loaded);
  EXPECT_TRUE(at::equal(loaded[0].value, exact));
  EXPECT_EQ(report.converted, std::set{StoredDtype::kBfloat16});
  EXPECT_EQ(report.needed.count, 24 * 2 + 3 * 8);

  loaded[1].value = at::zeros({3});
  EXPECT_THAT(
      message_of([&] { (void)load_model(root + "/step-1", loaded); }, ExitCode::kCheckpointRefused),
      HasSubstr("1 of another shape or dtype: model/count is I64 [3] in the file, F32 [3]"));
}

TEST(Checkpoint, ListsEveryTensorThatDoesNotMatch) {
  const std::string root = scratch_directory();
  CheckpointWriter({.root = root}).save(small_run(2));
  CheckpointContent content = small_run(2);
  content.model[0].name = "model.other.weight";
  content.model[1].value = at::zeros({48, 25});
  content.model[2].value = at::zeros({24});
  const std::string message =
      message_of([&] { (void)load_checkpoint(root + "/step-2", content.model, content.optimizer); },
                 ExitCode::kCheckpointRefused);
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("tensors do not match the model; where: " + root + "/step-2"),
            HasSubstr("1 missing: model/model.other.weight"),
            HasSubstr("1 unexpected: model/model.embed_tokens.weight"),
            HasSubstr(
                "model.layers.0.mlp.up_proj.weight is F32 [48,24] in the file, F32 [48,25] here"),
            HasSubstr("model.norm.weight is BF16 [24] in the file, F32 [24] here")));
  EXPECT_THAT(
      message_of([&] { (void)load_model(root + "/step-2", {}); }, ExitCode::kCheckpointRefused),
      HasSubstr("3 unexpected"));
}

TEST(CheckpointWriter, KeepsTheLatestAndTheBest) {
  const std::string root = scratch_directory();
  {
    CheckpointWriter writer({.root = root, .keep_latest = 2, .keep_best = true});
    writer.save(small_run(1), 0.2);
    writer.save(small_run(2), 0.9);
    writer.save(small_run(3), 0.5);
    writer.save(small_run(4), std::nan(""));  // no score
    writer.save(small_run(5), 0.9);
    writer.finish();
    EXPECT_THAT(steps_in(root), ElementsAre(5, 4)) << "of equal scores the latest is the best";
    writer.save(small_run(6), 0.1);
    writer.save(small_run(7), 0.1);
    writer.finish();
  }
  EXPECT_THAT(steps_in(root), ElementsAre(7, 6, 5)) << "the best stays, also across starts";
  CheckpointWriter second({.root = root, .keep_best = true, .start_step = 7});
  second.save(small_run(8), 0.2);
  second.finish();
  EXPECT_THAT(steps_in(root), ElementsAre(8, 7, 5));
  for (const std::int64_t step : steps_in(root))
    EXPECT_EQ(load_and_compare(str(root, "/step-", step)), step);
  for (const auto& entry : fs::directory_iterator(root))
    EXPECT_THAT(entry.path().filename().string(),
                testing::AnyOf("LOCK", "LATEST", "step-8", "step-7", "step-5"));
}

TEST(CheckpointWriter, KeepsNoBestWhenNotAsked) {
  const std::string root = scratch_directory();
  CheckpointWriter writer({.root = root, .keep_best = false});
  for (const std::int64_t step : {10, 20, 30})
    writer.save(small_run(step), 1.0 / static_cast<double>(step));
  writer.finish();
  EXPECT_THAT(steps_in(root), ElementsAre(30, 20));
}

TEST(CheckpointWriter, DoesNotWriteACommittedStepAgain) {
  const std::string root = scratch_directory();
  CheckpointWriter writer({.root = root});
  writer.save(small_run(1));
  writer.finish();
  const auto before = fs::last_write_time(root + "/step-1/MANIFEST.json");
  CheckpointContent other = small_run(2);
  other.step = 1;
  writer.save(other);
  writer.finish();
  EXPECT_EQ(fs::last_write_time(root + "/step-1/MANIFEST.json"), before);
  EXPECT_EQ(load_and_compare(root + "/step-1"), 1);
}

TEST(CheckpointWriter, RefusesSettingsAndDirectoriesThatLoseCheckpoints) {
  const std::string root = scratch_directory();
  EXPECT_THAT(
      message_of([&] { CheckpointWriter({.root = root, .keep_latest = 1}); }, ExitCode::kInput),
      HasSubstr("too few checkpoints would be kept; where: checkpoint.keep_latest; found: 1; "
                "expected: at least 2"));
  CheckpointWriter({.root = root}).save(small_run(9));
  EXPECT_THAT(
      message_of([&] { CheckpointWriter({.root = root, .start_step = 4}); }, ExitCode::kInput),
      AllOf(HasSubstr("the directory holds later steps than this run begins with"),
            HasSubstr(root + "/step-9; found: begin at step 4"), HasSubstr("--resume auto")));
}

TEST(CheckpointWriter, RatesACommittedStepAfterwards) {
  const std::string root = scratch_directory();
  const auto score_of = [&](const std::string& step) {
    return CheckpointReader(root + "/" + step).manifest().score;
  };
  CheckpointWriter writer({.root = root, .keep_latest = 2, .keep_best = true});
  writer.save(small_run(1), 0.5);
  writer.save(small_run(2));
  writer.save(small_run(3));
  writer.rate(3, 0.75);  // waits for the save
  EXPECT_EQ(score_of("step-3"), "0.75");
  EXPECT_THAT(steps_in(root), ElementsAre(3, 2)) << "the former best is no longer kept";
  EXPECT_EQ(load_and_compare(root + "/step-3"), 3);
  writer.rate(2, std::nan(""));
  EXPECT_EQ(score_of("step-2"), "");
  writer.rate(99, 1);  // not there
  EXPECT_THAT(steps_in(root), ElementsAre(3, 2));
}

TEST(CheckpointWriter, CleansUpAfterItsOwnDeadIncarnationsAlone) {
  const std::string root = scratch_directory();
  const std::string job = [&] { return DirectoryLock(root).job(); }();
  for (const std::string& name : {"step-7.tmp-" + job + "-1", std::string(".trash-step-1"),
                                  std::string("step-7.tmp-ffffffff-1"), std::string("notes")})
    fs::create_directories(root + "/" + name + "/model");
  testing::internal::CaptureStderr();
  CheckpointWriter({.root = root}).finish();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("another job's unfinished save stays: " + root + "/step-7.tmp-ffffffff-1"));
  EXPECT_FALSE(fs::exists(root + "/step-7.tmp-" + job + "-1"));
  EXPECT_FALSE(fs::exists(root + "/.trash-step-1"));
  EXPECT_TRUE(fs::exists(root + "/step-7.tmp-ffffffff-1"));
  EXPECT_TRUE(fs::exists(root + "/notes"));
}

TEST(CheckpointWriter, GoesOnAfterAFailedSaveAndStopsAfterSeveral) {
  const std::string root = scratch_directory();
  MemoryFileSystem disk;
  make_directories(disk, root);
  FaultyFileSystem full(disk, FaultyFileSystem::Fault::kError, 40, ENOSPC, /*stays=*/true);
  CheckpointWriter writer({.root = root, .max_failed_saves = 2}, full);
  testing::internal::CaptureStderr();
  writer.save(small_run(1));
  writer.save(small_run(2));  // the first failure is on record, and nothing else
  EXPECT_EQ(writer.failed_saves(), 2);
  EXPECT_THAT(message_of([&] { writer.save(small_run(3)); }, ExitCode::kResource),
              HasSubstr("No space left on device"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("save 1 of 2 that may fail in a row failed, training goes on: "),
                    HasSubstr("save 2 of 2 that may fail in a row failed, the run ends: ")));
}

TEST(CheckpointWriter, RefusesToBeginASaveThatDoesNotFit) {
  class SmallDisk final : public MemoryFileSystem {
   public:
    std::int64_t free_bytes(const std::string&, std::uint64_t& bytes) override {
      bytes = 20000;
      return 0;
    }
  };
  const std::string root = scratch_directory();
  SmallDisk disk;
  make_directories(disk, root);
  CheckpointWriter writer({.root = root, .async = false}, disk);
  writer.save(small_run(1));
  EXPECT_THAT(message_of([&] { writer.finish(); }, ExitCode::kResource),
              HasSubstr("not enough space for a save; where: " + root + "; found: 19.53 KiB free"));
}

void damage(const std::string& path) {
  std::string text = text_of(path);
  text.back() ^= 1;
  std::ofstream(path, std::ios::binary) << text;
}

TEST(NewestIntactCheckpoint, GoesPastDamagedOnesWhichAreSetAside) {
  const std::string root = scratch_directory();
  EXPECT_EQ(newest_intact_checkpoint(root).path, "");
  {
    CheckpointWriter writer({.root = root, .keep_latest = 3});
    for (const std::int64_t step : {1, 2, 3}) writer.save(small_run(step));
  }
  EXPECT_EQ(newest_intact_checkpoint(root).path, root + "/step-3");
  damage(root + "/step-3/extra/global.json");
  fs::remove(root + "/step-2/MANIFEST.json");
  const IntactCheckpoint found = newest_intact_checkpoint(root);
  EXPECT_EQ(found.path, root + "/step-1");
  EXPECT_THAT(found.damaged, ElementsAre(root + "/step-3", root + "/step-2"));
  CheckpointWriter writer({.root = root, .start_step = 1, .damaged = found.damaged});
  EXPECT_THAT(steps_in(root), ElementsAre(3, 2, 1)) << "the run may still be refused";
  writer.set_damaged_aside();
  EXPECT_THAT(steps_in(root), ElementsAre(1));
  EXPECT_TRUE(fs::exists(root + "/step-3.damaged-2/extra/global.json"));

  damage(root + "/step-1/extra/global.json");
  EXPECT_THAT(
      message_of([&] { (void)newest_intact_checkpoint(root); }, ExitCode::kCheckpointRefused),
      HasSubstr("block checksum differs; where: " + root + "/step-1/extra/global.json"));
}

TEST(FindCheckpoint, TakesARunADirectoryOrACheckpoint) {
  const std::string run = scratch_directory();
  const std::string root = run + "/checkpoints";
  EXPECT_EQ(newest_checkpoint(root), std::nullopt);
  EXPECT_THAT(message_of([&] { (void)find_checkpoint(run); }, ExitCode::kInput),
              HasSubstr("checkpoint: none in the directory; where: " + run));
  EXPECT_THAT(message_of([&] { (void)find_checkpoint(run + "/none"); }, ExitCode::kInput),
              HasSubstr("no such directory"));
  std::ofstream(run + "/run.yaml") << "model: {}";
  EXPECT_THAT(message_of([&] { (void)find_checkpoint(run + "/run.yaml"); }, ExitCode::kInput),
              HasSubstr("a file in place of a directory; where: " + run + "/run.yaml"));
  {
    CheckpointWriter writer({.root = root});
    writer.save(small_run(9));
    writer.save(small_run(10));
  }
  EXPECT_EQ(find_checkpoint(run), root + "/step-10") << "newest by number, not by text";
  EXPECT_EQ(find_checkpoint(root + "/"), root + "/step-10");
  EXPECT_EQ(find_checkpoint(root + "/step-9/"), root + "/step-9");
}

}  // namespace
}  // namespace tributary::train
