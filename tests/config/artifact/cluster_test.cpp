#include "config/artifact/cluster.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "tests/config/replaced.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

const char* const kSmall = R"(
format: tributary.cluster/1
devices: 16
device: {name: tiny, matrix_flops_per_s: 1e12, memory_bytes_per_s: 1e11, memory_bytes: 17179869184}
levels:
  - {name: node, ranks: 4, bytes_per_s: 1e10, start_s: 1e-5, hop_s: 1e-6}
  - {name: network, ranks: 16, bytes_per_s: 1e9}
)";

/// The message of reading a text in which `from` was replaced.
std::string message_of(const std::string& from, const std::string& to) {
  const std::string text = replaced(kSmall, from, to);
  return input_error_of([&] { (void)parse_cluster(text, "a.yaml"); }, "read");
}

TEST(Cluster, ReadsKeysAndDefaults) {
  const Cluster cluster = parse_cluster(kSmall, "a.yaml");
  EXPECT_EQ(cluster.devices, 16);
  EXPECT_EQ(cluster.devices_per_node(), 4);
  EXPECT_EQ(cluster.device.memory, Bytes{std::int64_t{16} << 30});
  EXPECT_EQ(cluster.device.reserve, Bytes{std::int64_t{2} << 30});
  EXPECT_EQ(cluster.levels[1].bytes_per_s, 1e9);
}

TEST(Cluster, ReadsBackWhatItWrites) {
  Cluster cluster = parse_cluster(kSmall, "a.yaml");
  cluster.name = "quote \" and: colon #";
  cluster.device.matrix_share = 0.1 + 0.2;
  cluster.levels[0].small_all_reduce = {{2, {1024}, {7}}, {4, {1024}, {9}}};
  EXPECT_EQ(parse_cluster(write_cluster(cluster), "written"), cluster);
}

TEST(Cluster, ReadsJson) {
  const Cluster cluster = parse_cluster(
      R"({"format": "tributary.cluster/1", "devices": 1, "device": {"name": "d",
          "matrix_flops_per_s": 1e9, "memory_bytes_per_s": 1e9, "memory_bytes": 100},
          "levels": [{"name": "l", "ranks": 1, "bytes_per_s": 1.5e9}]})",
      "a.json");
  EXPECT_EQ(cluster.levels[0].bytes_per_s, 1.5e9);
}

TEST(Cluster, NamesTheKeyOfEveryFault) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(message_of("bytes_per_s: 1e10", "bytes_per_s: 0"),
              AllOf(HasSubstr("levels.0.bytes_per_s"), HasSubstr("found: 0")));
  EXPECT_THAT(message_of("bytes_per_s: 1e9", "bytes_per_s: nan"),
              HasSubstr("levels.1.bytes_per_s"));
  EXPECT_THAT(message_of("memory_bytes_per_s: 1e11", "memory_bytes_per_s: inf"),
              HasSubstr("device.memory_bytes_per_s"));
  EXPECT_THAT(message_of("matrix_flops_per_s: 1e12", "matrix_flops_per_s: 312"),  // TFLOP/s
              AllOf(HasSubstr("device.matrix_flops_per_s; found: 312"), HasSubstr("from 1e+06")));
  EXPECT_THAT(message_of("memory_bytes_per_s: 1e11", "memory_bytes_per_s: 2039"),  // GB/s
              HasSubstr("device.memory_bytes_per_s; found: 2039"));
  EXPECT_THAT(message_of("bytes_per_s: 1e10", "bytes_per_s: 1800"),
              HasSubstr("levels.0.bytes_per_s; found: 1800"));
  EXPECT_THAT(message_of("start_s: 1e-5", "start_s: -1e-5"), HasSubstr("levels.0.start_s"));
  EXPECT_THAT(message_of("name: tiny", "name: tiny, matrix_shara: 1"),
              AllOf(HasSubstr("device.\"matrix_shara\""), HasSubstr("did you mean matrix_share?")));
  EXPECT_THAT(message_of("ranks: 16", "ranks: 15"),
              AllOf(HasSubstr("levels.1.ranks"), HasSubstr("a multiple of 4")));
  EXPECT_THAT(message_of("memory_bytes: 17179869184",
                         "memory_bytes: 17179869184, reserve_bytes: 17179869184"),
              HasSubstr("device.reserve_bytes; found: 17179869184"));
  EXPECT_THAT(message_of("memory_bytes_per_s: 1e11",
                         "memory_bytes_per_s: 1e11, memory_share: 0.5, cache_bytes_per_s: 4.9e10"),
              HasSubstr("device.cache_bytes_per_s; found: 4.9e+10"));
  EXPECT_EQ(message_of("memory_bytes_per_s: 1e11",
                       "memory_bytes_per_s: 1e11, memory_share: 0.5, cache_bytes_per_s: 5e10"),
            "read");
  EXPECT_THAT(message_of("devices: 16", "devices: 17"), HasSubstr("at most 16"));
  EXPECT_THAT(message_of("cluster/1", "cluster/2"), HasSubstr("not a cluster of this version"));
  EXPECT_THAT(message_of("devices: 16", "devices: 16\ndevices: 16"), HasSubstr("duplicate key"));
  EXPECT_THAT(message_of("hop_s: 1e-6",
                         "small_all_reduce: [{ranks: 2, bytes: 8, ns: 1}, {ranks: 2, bytes: 8, "
                         "ns: 1}]"),
              HasSubstr("levels.0.small_all_reduce.1"));
}

TEST(Cluster, NamesAFileThatIsNotThere) {
  EXPECT_THAT([] { (void)read_cluster("/nowhere/a.yaml"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("/nowhere/a.yaml")));
  EXPECT_THAT([] { (void)read_cluster("/"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("found: a directory")));
}

TEST(Cluster, ReadsEveryFileOfTheProject) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(str(TRIB_SOURCE_DIR, "/configs/clusters"))) {
    if (entry.path().extension() != ".yaml") continue;
    const Cluster cluster = read_cluster(entry.path().string());
    EXPECT_FALSE(cluster.origin.empty()) << entry.path();
    EXPECT_EQ(parse_cluster(write_cluster(cluster), "written"), cluster) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace tributary::config
