#include "core/file/given_file.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/stat.h>
#include <thread>

namespace tributary {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GivenOutput : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "given-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& path, std::string_view text) {
    write_given_file(path, text, {.what = "test: not written"});
  }
  static void check(const std::string& path) {
    check_given_output(path, {.what = "test: not written"});
  }
  /// The message with which check_given_output and write_given_file both refuse.
  static std::string refusal(const std::string& path) {
    std::string words[2];
    for (const bool writes : {false, true}) {
      try {
        writes ? write(path, "text") : check(path);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::kResource);
        words[writes] = error.what();
        words[writes].resize(words[writes].rfind(" ["));
      }
    }
    EXPECT_EQ(words[0], words[1]);
    return words[0];
  }
  [[nodiscard]] std::size_t names() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(GivenOutput, IsReplacedWhole) {
  check(path("a"));
  EXPECT_EQ(names(), 0u);
  write(path("a"), "one text");
  write(path("a"), "two");
  check(path("a"));
  EXPECT_EQ(read(path("a")), "two");
  EXPECT_EQ(names(), 1u);
}

TEST_F(GivenOutput, StaysALinkOrAPipe) {
  std::filesystem::create_symlink("target", path("link"));
  check(path("link"));
  write(path("link"), "through it");
  write(path("link"), "twice");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read(path("target")), "twice");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read(path("pipe")); });
  write(path("pipe"), std::string(300'000, 'x'));
  reader.join();
  EXPECT_EQ(got, std::string(300'000, 'x'));
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_EQ(names(), 3u);
}

TEST_F(GivenOutput, StaysADevice) {
  std::filesystem::create_symlink("/dev/null", path("null"));  // the device itself is everybody's
  check(path("null"));
  write(path("null"), "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  std::filesystem::create_symlink("/dev/full", path("full"));
  EXPECT_THROW(write(path("full"), "text"), Error);
  EXPECT_EQ(names(), 2u);
}

TEST_F(GivenOutput, IsRefusedEarlyWhereItCannotBeWritten) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_THAT(refusal(path("folder")),
              AllOf(HasSubstr("where: " + path("folder") + "; found: a directory"),
                    HasSubstr("fix: name a file in it")));
  EXPECT_THAT(refusal(path("none/a")), AllOf(HasSubstr("found: No such file or directory"),
                                             HasSubstr("or make the folder")));
  write(path("file"), "");
  EXPECT_THAT(refusal(path("file/a")), HasSubstr("found: Not a directory"));
  EXPECT_THAT(refusal("/proc/none"), HasSubstr("where: /proc/none; found: "));
  EXPECT_THAT(refusal(""), HasSubstr("found: "));
  EXPECT_EQ(names(), 2u);
}

}  // namespace
}  // namespace tributary
