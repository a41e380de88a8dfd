#include "data/record/media_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MediaFolderTest : public testing::TestWithParam<Confinement> {
 protected:
  void SetUp() override {
    inside_.write("pictures/a.png", "picture");
    outside_.write("secret.png", "secret");
  }
  Refusal refusal(const std::string& path) const {
    const MediaFolder folder(inside_.path(), GetParam());
    const auto read = folder.read(path);
    return read ? Refusal{"read", "it was read"} : read.refusal();
  }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, inside_.at(name));
  }

  TemporaryFolder inside_;
  TemporaryFolder outside_;
};

TEST_P(MediaFolderTest, ReadsAFileBeneath) {
  const MediaFolder folder(inside_.path(), GetParam());
  const auto bytes = folder.read("pictures/a.png").value();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "picture");
  EXPECT_EQ(folder.read("./pictures//a.png").value().size(), 7u);
  EXPECT_EQ(folder.read_beginning("pictures/a.png", 3).value().size(), 3u);
  link("pictures/a.png", "inner.png");
  EXPECT_EQ(folder.read("inner.png").value().size(), 7u);
}

TEST_P(MediaFolderTest, TakesAnAbsolutePathThatLiesBeneath) {
  const MediaFolder folder(inside_.path(), GetParam());
  EXPECT_EQ(folder.read(inside_.at("pictures/a.png")).value().size(), 7u);
  link(outside_.at("secret.png"), "link.png");
  EXPECT_EQ(refusal(inside_.at("link.png")).code, "path_escapes");
  EXPECT_EQ(refusal(inside_.at("pictures/../a.png")).code, "path_escapes");
  EXPECT_EQ(refusal(inside_.path() + "x/a.png").code, "path_escapes");
  EXPECT_EQ(refusal(inside_.path()).code, "path_escapes");
  // The folder may be named by a link, and the picture by the path behind it, or the other way.
  std::filesystem::create_directory_symlink(inside_.path(), outside_.at("door"));
  const MediaFolder door(outside_.at("door"), GetParam());
  EXPECT_EQ(door.read(inside_.at("pictures/a.png")).value().size(), 7u);
  EXPECT_EQ(door.read(outside_.at("door/pictures/a.png")).value().size(), 7u);
  EXPECT_THAT(refusal("/etc/passwd").reason,
              AllOf(HasSubstr("is absolute and not below " + inside_.path()),
                    HasSubstr("set `images` of the source")));
}

TEST_P(MediaFolderTest, RefusesPathsThatLeaveIt) {
  EXPECT_EQ(refusal(outside_.at("secret.png")).code, "path_escapes");
  EXPECT_THAT(refusal("/etc/passwd").reason, HasSubstr("is absolute"));
  EXPECT_EQ(refusal("pictures/../../x").code, "path_escapes");
  EXPECT_THAT(refusal("../x").reason, HasSubstr("holds \"..\""));
  link(outside_.at("secret.png"), "link.png");
  link(outside_.path(), "linked");
  EXPECT_EQ(refusal("link.png").code, "path_escapes");
  EXPECT_EQ(refusal("linked/secret.png").code, "path_escapes");
  EXPECT_THAT(refusal("linked/secret.png").reason, HasSubstr("leads out of the folder by a link"));
}

TEST_P(MediaFolderTest, RefusesUrlsAndEmptyPaths) {
  for (const char* url : {"http://host/a.png", "https://host/a.png"}) {
    EXPECT_EQ(refusal(url).code, "bad_path");
    EXPECT_THAT(refusal(url).reason, HasSubstr("nothing is fetched from the network"));
  }
  EXPECT_EQ(refusal("file:///etc/passwd").code, "bad_path");
  EXPECT_THAT(refusal("file:///etc/passwd").reason, HasSubstr("without `file://`"));
  EXPECT_THAT(refusal("").reason, HasSubstr("path is empty"));
  EXPECT_EQ(refusal(std::string("a\0b", 3)).code, "bad_path");
}

TEST_P(MediaFolderTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo(inside_.at("fifo").c_str(), 0600), 0);
  EXPECT_EQ(refusal("fifo").code, "not_a_file");  // and does not wait for a writer
  EXPECT_EQ(refusal("pictures").code, "not_a_file");
  EXPECT_THAT(refusal("pictures").reason, HasSubstr("is a directory"));
  EXPECT_EQ(refusal("none.png").code, "missing_file");
  EXPECT_EQ(refusal("pictures/a.png/b").code, "missing_file");
  EXPECT_THAT(refusal("none.png").reason,
              AllOf(HasSubstr("\"none.png\""), HasSubstr(inside_.path()), HasSubstr("not exist")));
}

TEST_P(MediaFolderTest, SeesThatAPathNamesTheFolderOnceMore) {
  const MediaFolder folder(inside_.at("pictures"), GetParam());
  const auto read = folder.read("pictures/a.png");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.refusal().reason, HasSubstr("leave out pictures/, or name the folder above"));
}

TEST_P(MediaFolderTest, MissingFolderIsOneError) {
  try {
    const MediaFolder folder(inside_.at("nowhere"), GetParam());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("data: image folder does not exist"),
                                    HasSubstr("nowhere"), HasSubstr("No such file")));
  }
}

INSTANTIATE_TEST_SUITE_P(Confinement, MediaFolderTest,
                         testing::Values(Confinement::kKernel, Confinement::kResolvedPath),
                         [](const auto& one) {
                           return one.param == Confinement::kKernel ? "Kernel" : "ResolvedPath";
                         });

TEST(MediaRoots, TakeAbsolutePathsBelowAnyOfThem) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  const TemporaryFolder outside;
  first.write("a.png", "1");
  second.write("sub/b.png", "2");
  outside.write("c.png", "3");
  const MediaRoots roots(first.path(), {second.path()});
  const auto text = [&](const std::string& path) {
    const auto bytes = roots.read(path);
    return bytes ? std::string(bytes.value().begin(), bytes.value().end()) : bytes.refusal().code;
  };
  EXPECT_EQ(text("a.png"), "1");
  EXPECT_EQ(text(first.at("a.png")), "1");
  EXPECT_EQ(text(second.at("sub/b.png")), "2");
  EXPECT_EQ(roots.read_beginning(second.at("sub/b.png"), 0).value().size(), 0u);
  EXPECT_EQ(text("sub/b.png"), "missing_file") << "relative paths start from the first alone";
  EXPECT_EQ(text(outside.at("c.png")), "path_escapes");
  EXPECT_EQ(text(second.at("../c.png")), "path_escapes");
  EXPECT_THAT(roots.read(outside.at("c.png")).refusal().reason, testing::HasSubstr("`roots`"));
  EXPECT_TRUE(roots.holds(second.at("sub/b.png")));
  EXPECT_FALSE(roots.holds(outside.at("c.png")));
}

}  // namespace
}  // namespace tributary::data
