#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/open_message.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TableFile, IsNamedByABuildWithoutArrow) {
  const TemporaryFolder folder;
  for (const auto& [content, kind] : {std::pair("PAR1", "Parquet"), std::pair("ARROW1", "Arrow"),
                                      std::pair("\xff\xff\xff\xff", "Arrow")})
    EXPECT_THAT(message_of(folder.write("a", content)),
                AllOf(HasSubstr("data: this build reads no Parquet and no Arrow"),
                      HasSubstr(str("found: ", kind)), HasSubstr("`make setup`")));
}

}  // namespace
}  // namespace tributary::data
