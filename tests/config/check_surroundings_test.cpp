#include <array>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "tests/config/temporary_folder.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunConfig surroundings(const TemporaryFolder& folder) {
  folder.write("model/config.json", "{}");
  folder.write("model/tokenizer.json", "{}");
  folder.write("data/a.jsonl", "");
  RunConfig config;
  config.run.dir = folder.path("runs/new/one");
  config.model.path = folder.path("model");
  config.data.sources = {{.name = "a", .path = folder.path("data/a.jsonl")}};
  return config;
}

std::string refusal_of_surroundings(const RunConfig& config) {
  return input_error_of([&] { check_surroundings(config); });
}

TEST(CheckSurroundings, AcceptsWhatIsThereAndMakesNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal_of_surroundings(surroundings(folder)), "accepted");
  EXPECT_FALSE(std::filesystem::exists(folder.path("runs")));
}

TEST(CheckSurroundings, LeavesDirectoriesAndPatternsToWhoOpensThem) {
  const TemporaryFolder folder;
  RunConfig config = surroundings(folder);
  config.data.sources[0].path = folder.path("data");
  config.data.sources[0].held_out = folder.path("shard-{00..09}.tar");
  EXPECT_EQ(refusal_of_surroundings(config), "accepted");
}

TEST(CheckSurroundings, ListsEveryPathThatIsMissing) {
  const TemporaryFolder folder;
  RunConfig config = surroundings(folder);
  config.model.path = "models/none";
  config.data.sources[0].path = folder.path("none.jsonl");
  config.data.sources[0].held_out = folder.path("no_directory");
  config.data.sources[0].roots = {folder.path("no_root")};
  config.data.sources[0].images = folder.path("data/a.jsonl");
  config.run.dir = folder.path("data/a.jsonl/run");
  const std::string refusal = refusal_of_surroundings(config);
  EXPECT_THAT(refusal, HasSubstr("6 problems"));
  EXPECT_THAT(refusal,
              HasSubstr("directory does not exist; where: model.path = models/none (from /"));
  EXPECT_THAT(refusal, HasSubstr("file does not exist; where: data.sources.0.path = " +
                                 folder.path("none.jsonl")));
  EXPECT_THAT(refusal, AllOf(HasSubstr("file does not exist; where: data.sources.0.held_out"),
                             HasSubstr("docs/formats/data.md lists the kinds of sources")));
  EXPECT_THAT(refusal, HasSubstr("directory does not exist; where: data.sources.0.roots"));
  EXPECT_THAT(refusal, HasSubstr("not a directory; where: data.sources.0.images"));
  EXPECT_THAT(refusal, HasSubstr("run directory cannot be made; where: run.dir"));
}

TEST(CheckSurroundings, KnowsTheNameOfAHubAndARun) {
  const TemporaryFolder folder;
  RunConfig config = surroundings(folder);
  config.model.path = "Qwen/Qwen2.5-VL-3B-Instruct";
  EXPECT_THAT(refusal_of_surroundings(config),
              HasSubstr("nothing is fetched here: hf download Qwen/Qwen2.5-VL-3B-Instruct "
                        "--local-dir models/Qwen2.5-VL-3B-Instruct"));
  config.model.path = folder.path("absent");
  EXPECT_THAT(refusal_of_surroundings(config), Not(HasSubstr("hf download")));
  folder.write("run/checkpoints/step-3/MANIFEST.json", "{}");
  config.model.path = folder.path("run");
  EXPECT_THAT(refusal_of_surroundings(config),
              AllOf(HasSubstr("config: a run in place of a model"),
                    HasSubstr("fix: tributary checkpoint export " + folder.path("run") + " -o DIR"),
                    Not(HasSubstr("tokenizer.json"))));
}

TEST(CheckSurroundings, WantsWeightsOnlyForPretrained) {
  const TemporaryFolder folder;
  RunConfig config = surroundings(folder);
  config.model.weights = Weights::kPretrained;
  EXPECT_THAT(refusal_of_surroundings(config),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("random starts without weights")));
  folder.write("model/model.safetensors.index.json", "{}");
  EXPECT_EQ(refusal_of_surroundings(config), "accepted");
}

/// Runs `body` in a thread without the right of root to ignore the permission bits of files.
void without_capabilities(const std::function<void()>& body) {
  std::thread([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> none{};
    ASSERT_EQ(syscall(SYS_capset, &header, none.data()), 0);
    body();
  }).join();
}

TEST(CheckSurroundings, NamesWhatMayNotBeReadOrWritten) {
  const TemporaryFolder folder;
  const RunConfig config = surroundings(folder);
  using std::filesystem::perms;
  std::filesystem::create_directories(folder.path("runs"));
  std::filesystem::permissions(folder.path("data/a.jsonl"), perms::none);
  std::filesystem::permissions(folder.path("runs"), perms::owner_read | perms::owner_exec);
  without_capabilities([&] {
    EXPECT_THAT(refusal_of_surroundings(config),
                AllOf(HasSubstr("2 problems"),
                      HasSubstr("file cannot be read; where: data.sources.0.path = " +
                                folder.path("data/a.jsonl") + "; found: Permission denied"),
                      HasSubstr("run directory cannot be written; where: run.dir = " +
                                folder.path("runs/new/one") + "; found: " + folder.path("runs") +
                                ": Permission denied")));
  });
  std::filesystem::permissions(folder.path("runs"), perms::owner_all);
}

}  // namespace
}  // namespace tributary::config
