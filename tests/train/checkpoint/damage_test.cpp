#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/train/checkpoint/small_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_reader.h"

namespace tributary::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kShard = "shard-00001-model-00001-of-00001.safetensors";

/// A run with steps 1 and 2, of which step 2 will be damaged.
class DamagedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    root_ = scratch_directory();
    CheckpointWriter writer({.root = root_, .async = false});
    writer.save(small_run(1));
    writer.save(small_run(2));
    for (const auto& entry : fs::recursive_directory_iterator(newest()))
      if (entry.is_regular_file()) files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  }

  [[nodiscard]] std::string newest() const { return root_ + "/step-2"; }

  /// Loads the damaged checkpoint, which must be refused; the one before is whole.
  [[nodiscard]] std::string refusal() const {
    return message_of([&] { (void)load_and_compare(newest()); }, ExitCode::kCheckpointRefused);
  }

  std::string root_;
  std::vector<std::string> files_;
};

std::string read_file(const std::string& path) {
  return read_text_file(real_file_system(), path, 1 << 30);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST_F(DamagedCheckpoint, IsRefusedForEveryTruncation) {
  for (const std::string& path : files_) {
    const std::string whole = read_file(path);
    const std::size_t header = path.ends_with(".safetensors") ? 4096 : 16;
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{8}, header - 1,
                                     whole.size() / 2, whole.size() - 1}) {
      SCOPED_TRACE(str(path, " cut to ", length));
      write_file(path, whole.substr(0, length));
      const std::string message = refusal();
      EXPECT_THAT(message, HasSubstr(path));
      if (path.ends_with(kShard)) {
        EXPECT_THAT(message, AllOf(HasSubstr("file has another size"), HasSubstr("tensor "),
                                   HasSubstr("train --resume auto --fallback=previous would use " +
                                             root_ + "/step-1")));
      }
    }
    write_file(path, whole);
  }
  EXPECT_EQ(load_and_compare(newest()), 2);
}

TEST_F(DamagedCheckpoint, IsRefusedForAManifestThatIsNoPlainFile) {
  const std::string path = newest() + "/MANIFEST.json";
  const std::string aside = root_ + "/aside.json";
  fs::rename(path, aside);
  const auto expect_refusal = [&](const std::string& found) {
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr("not a regular file; where: " + path + "; found: " + found),
                      HasSubstr("--fallback=previous would use " + root_ + "/step-1")));
    fs::remove(path);
  };
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_refusal("a pipe");
  fs::create_directory(path);
  expect_refusal("a directory");
  fs::create_symlink(aside, path);
  expect_refusal("a symbolic link");
  fs::rename(aside, path);
  EXPECT_EQ(load_and_compare(newest()), 2);
}

TEST_F(DamagedCheckpoint, IsRefusedForEveryFlippedBit) {
  RandomStream random(1, "bit flips");
  for (int flip = 0; flip < 1000; ++flip) {
    const std::string path = random.pick(std::span(files_));
    std::string bytes = read_file(path);
    const std::size_t at = random.below(bytes.size());
    const auto bit = static_cast<int>(random.below(8));
    SCOPED_TRACE(str(path, " byte ", at, " bit ", bit));
    const std::string whole = bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    write_file(path, bytes);
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(path));
    if (path.ends_with(kShard)) {
      EXPECT_THAT(message, AllOf(HasSubstr("block checksum differs"),
                                 HasSubstr("block 0 (bytes 0-"), HasSubstr("tensor ")));
    }
    write_file(path, whole);
  }
  EXPECT_EQ(load_and_compare(root_ + "/step-1"), 1);
  EXPECT_EQ(load_and_compare(newest()), 2);
}

TEST_F(DamagedCheckpoint, NamesTheBlockAndItsTensor) {
  CheckpointContent content = small_run(3);
  content.model = {{"first", at::zeros({1 << 20})}, {"second", at::zeros({2 << 20})}};
  CheckpointWriter({.root = root_, .start_step = 2}).save(content);
  const std::string path = root_ + "/step-3/model/" + kShard;
  std::string bytes = read_file(path);
  bytes[9 << 20] = 'x';
  write_file(path, bytes);
  const auto load = [&](std::vector<NamedTensor> wanted, Verify verify) {
    (void)load_model(root_ + "/step-3", wanted, verify);
  };
  EXPECT_THAT(
      message_of([&] { load(content.model, Verify::kTouched); }, ExitCode::kCheckpointRefused),
      HasSubstr("block 2 (bytes 8388608-12582912), tensor model/second; found: crc32c "));
  load(content.model, Verify::kSizes);  // it does not look when it is told not to
  CheckpointReader reader(root_ + "/step-3", Verify::kTouched);
  std::vector<std::byte> first(std::size_t{4} << 20);
  const std::array request{
      ReadRequest{"model/first", whole_box(std::array{std::int64_t{1} << 20}), first}};
  reader.read(request);  // touches no damaged block
  EXPECT_THAT(message_of([&] { CheckpointReader(root_ + "/step-3", Verify::kFull); },
                         ExitCode::kCheckpointRefused),
              HasSubstr("block checksum differs"));
}

TEST_F(DamagedCheckpoint, IsRefusedWhenFilesAreMissingSwappedOrAdded) {
  const std::string model = newest() + "/model/" + kShard;
  const std::string bytes = read_file(model);
  fs::remove(model);
  EXPECT_THAT(refusal(), HasSubstr("file is missing; where: " + model));
  fs::create_symlink(root_ + "/step-1/model/" + kShard, model);
  EXPECT_THAT(refusal(), HasSubstr("not a regular file; where: " + model));
  fs::remove(model);
  fs::copy(root_ + "/step-1/model/" + kShard, model);
  EXPECT_THAT(refusal(), HasSubstr("block checksum differs; where: " + model)) << "of another step";
  write_file(model, bytes);
  write_file(newest() + "/model/extra.safetensors", bytes);
  EXPECT_THAT(refusal(), HasSubstr("file is not in the manifest; where: " + newest() +
                                   "/model/extra.safetensors"));
  fs::remove(newest() + "/model/extra.safetensors");
  fs::remove(newest() + "/MANIFEST.json");
  EXPECT_THAT(refusal(), HasSubstr("no manifest; where: " + newest()));
  fs::copy(root_ + "/step-1/MANIFEST.json", newest() + "/MANIFEST.json");
  EXPECT_THAT(refusal(), HasSubstr("directory and manifest disagree about the step; where: " +
                                   newest() + "; found: manifest of step 1"));
  fs::remove_all(newest());
  fs::copy(root_ + "/step-1", newest(), fs::copy_options::recursive);
  EXPECT_THAT(refusal(), HasSubstr("directory and manifest disagree about the step"));
}

}  // namespace
}  // namespace tributary::train
