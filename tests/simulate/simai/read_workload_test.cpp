#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "core/error.h"
#include "tests/simulate/simai/workload_case.h"

namespace tributary::simulate {
namespace {

using config::CollectiveOp;

const HeaderCase kSmall{.tensor = 2, .ranks = 4};
const std::string kRow =
    "layer\t-1\t10\tALLREDUCE\t4096\t20\tALLTOALL_EP\t64\t30\tALLGATHER\t8\t100";

void expect_refused(const std::string& text, const std::string& words) {
  EXPECT_THAT([&] { (void)parse_simai_workload(text, "w.txt"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(words)))
      << text;
}

/// A file of one row, in which the word of a column is another.
std::string with_field(std::size_t column, const std::string& word) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = kRow.find('\t', begin);
    fields.push_back(kRow.substr(begin, end - begin));
  }
  fields[column] = word;
  std::string row;
  for (const std::string& field : fields) row += (row.empty() ? "" : "\t") + field;
  return file_of(kSmall, {row});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(ReadWorkload, PassesOverAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string text = file_of(kSmall, {kRow});
  const SimaiWorkload marked = parse_simai_workload(mark + text, "w.txt");
  EXPECT_EQ(marked.rows, parse_simai_workload(text, "w.txt").rows);
  EXPECT_EQ(std::pair(marked.tensor, marked.ranks), std::pair(kSmall.tensor, kSmall.ranks));
  expect_refused(" " + mark + text, "not a workload of a transformer");
  expect_refused(mark + mark + text, "not a workload of a transformer");
}

TEST(ReadWorkload, KeepsEveryField) {
  const SimaiWorkload workload = parse_simai_workload(file_of({.tensor = 2,
                                                               .expert = 2,
                                                               .stages = 3,
                                                               .chunks = 1,
                                                               .microbatches = 1,
                                                               .ranks = 24,
                                                               .message = 77},
                                                              {kRow}),
                                                      "w.txt");
  EXPECT_EQ(workload.tensor, 2);
  EXPECT_EQ(workload.expert, 2);
  EXPECT_EQ(workload.stages, 3);
  EXPECT_EQ(workload.data(), 4);
  EXPECT_EQ(workload.message.count, 77);
  const WorkloadRow expected{
      .name = "layer",
      .forward = {{10},
                  WorkloadCollective{CollectiveOp::kAllReduce, WorkloadGroup::kTensor, {4096}}},
      .input_gradient = {{20},
                         WorkloadCollective{CollectiveOp::kAllToAll, WorkloadGroup::kExpert, {64}}},
      .weight_gradient = {{30},
                          WorkloadCollective{CollectiveOp::kAllGather, WorkloadGroup::kData, {8}}},
      .process = {100}};
  ASSERT_EQ(workload.rows.size(), 1u);
  EXPECT_EQ(workload.rows.front(), expected);
}

TEST(ReadWorkload, KnowsEveryCollectiveOverEveryGroup) {
  const std::pair<const char*, CollectiveOp> ops[] = {
      {"ALLREDUCE", CollectiveOp::kAllReduce},
      {"ALLGATHER", CollectiveOp::kAllGather},
      {"REDUCESCATTER", CollectiveOp::kReduceScatter},
      {"ALLTOALL", CollectiveOp::kAllToAll}};
  for (const auto& [name, op] : ops) {
    const auto read = [&, op = op](std::size_t column, const std::string& word) {
      const SimaiWorkload workload = parse_simai_workload(with_field(column, word), "w.txt");
      const WorkloadRow& row = workload.rows.front();
      const WorkloadPass& pass = column == 3   ? row.forward
                                 : column == 6 ? row.input_gradient
                                               : row.weight_gradient;
      EXPECT_EQ(pass.collective->op, op);
      return pass.collective->group;
    };
    for (const std::size_t column : {3u, 6u, 9u}) {
      EXPECT_EQ(read(column, name), column == 9 ? WorkloadGroup::kData : WorkloadGroup::kTensor);
      EXPECT_EQ(read(column, str(name, "_EP")), WorkloadGroup::kExpert);
      EXPECT_EQ(read(column, str(name, "_DP_EP")), WorkloadGroup::kExpertData);
    }
  }
}

TEST(ReadWorkload, TakesBlanksAndDecimalsAsAicbWritesThem) {
  const std::string text =
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 8 ga: 1 "
      "all_gpus: 4 checkpoints: 0 checkpoint_initiates: 0 pp_comm 0 \r\n1\r\n"
      "layer   -1 10.6  ALLREDUCE   4096.0      1       NONE 0        1      NONE   0      1 "
      "\r\n\n";
  const SimaiWorkload workload = parse_simai_workload(text, "w.txt");
  EXPECT_EQ(workload.chunks, 1);  // of one stage nothing is interleaved
  EXPECT_EQ(workload.rows.front().forward.compute.count, 11);
  EXPECT_EQ(workload.rows.front().forward.collective->bytes.count, 4096);
}

TEST(ReadWorkload, NamesWhatIsWrongWithTheHeader) {
  const std::string text = file_of(kSmall, {kRow});
  expect_refused("",
                 "simulate: not a workload of a transformer; where: w.txt:1; found: an empty line");
  expect_refused(replaced(text, "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO"),
                 "w.txt:1; found: \"MICRO\"; expected: HYBRID_TRANSFORMER_FWD_IN_BCKWD");
  expect_refused(replaced(text, "ep: 1 ", ""), "lacks a key; where: w.txt:1; found: no ep:");
  expect_refused(replaced(text, "ep: 1 ", "ep: 1 ep: 1 "), "has a key twice; where: w.txt:1:67");
  expect_refused(replaced(text, "ga:", "gas:"), "unknown key; where: w.txt:1:80; found: \"gas\"");
  expect_refused(replaced(text, "ga:", "gas:"), "did you mean ga?");
  expect_refused(
      replaced(text, " pp_comm: 0", " pp_comm:"),
      "header of a workload is cut off; where: w.txt:1:137; found: \"pp_comm\" without a value");
  expect_refused(
      replaced(text, "vpp: 1", "vpp: 0"),
      "simulate: vpp of a workload cannot be used; where: w.txt:1:78; found: \"0\"; expected: a "
      "whole number, 1 to 1048576");
  expect_refused(replaced(text, "checkpoints: 0", "checkpoints: 1"),
                 "layers that are computed again are not read from a workload; where: w.txt:1:111; "
                 "found: \"1\"");
}

TEST(ReadWorkload, NamesDegreesThatDoNotFitEachOther) {
  expect_refused(
      file_of({.tensor = 4, .stages = 2, .ranks = 12, .message = 1}, {kRow}),
      "degrees of a workload do not multiply to its ranks; where: w.txt:1:96; found: 12; "
      "expected: a multiple of model_parallel_NPU_group 4 x pp 2 = 8");
  expect_refused(file_of({.tensor = 2, .expert = 3, .ranks = 8}, {kRow}),
                 "experts of a workload do not divide over its replicas; where: w.txt:1:65; found: "
                 "3; expected: a divisor of all_gpus / (model_parallel_NPU_group x pp) = 4");
  expect_refused(file_of({.stages = 2, .chunks = 2, .microbatches = 3, .ranks = 2, .message = 1},
                         {kRow, kRow}),
                 "found: 3; expected: a multiple of pp 2; fix: or write vpp: 1");
  expect_refused(file_of({.stages = 2, .ranks = 2}, {kRow}),
                 "simulate: pp_comm of a workload cannot be used");
  expect_refused(replaced(file_of({.stages = 2, .ranks = 2}, {kRow}), " pp_comm: 0", ""),
                 "found: no pp_comm:; expected: pp_comm: and its value where pp is above 1");
  expect_refused(
      file_of({.stages = 2, .chunks = 2, .microbatches = 2, .ranks = 2, .message = 1}, {kRow}),
      "found: vpp 2; expected: at most 1 rows of a microbatch");
  expect_refused(
      file_of({.stages = 1024, .chunks = 1024, .microbatches = 1024, .ranks = 1024, .message = 1},
              {kRow}),
      "workload has too many passes");
}

TEST(ReadWorkload, NamesRowAndColumn) {
  expect_refused(with_field(2, "-1"),
                 "forward time of a workload cannot be used; where: w.txt:3:10");
  expect_refused(with_field(5, "nan"),
                 "input gradient time of a workload cannot be used; where: "
                 "w.txt:3:28; found: \"nan\"; expected: nanoseconds, 0 to");
  expect_refused(with_field(8, "inf"), "weight gradient time of a workload cannot be used");
  expect_refused(with_field(8, "1e300"), "found: \"1e300\"; expected: nanoseconds");
  expect_refused(with_field(11, "x"), "process time of a workload cannot be used");
  expect_refused(with_field(4, "1.5"),
                 "bytes of a collective of a workload cannot be used; where: "
                 "w.txt:3:23; found: \"1.5\"; expected: a whole number");
  expect_refused(with_field(4, "-4"), "found: \"-4\"");
  expect_refused(with_field(1, "none"), "dependency of a workload cannot be used");
  for (const char* name :
       {"BROADCAST", "ALLREDUCE_TP", "ALLREDUCEALLTOALL", "allreduce", "NONE_EP"})
    expect_refused(with_field(3, name),
                   str("collective of a workload is unknown; where: w.txt:3:13; found: \"", name,
                       "\"; expected: NONE, or ALLREDUCE"));
  expect_refused(file_of(kSmall, {compute_row("slow", 9'000'000'000'000, 0, 0),
                                  compute_row("slow", 9'000'000'000'000, 0, 0)}),
                 "rows of a workload take too long; where: w.txt:4");
}

TEST(ReadWorkload, NamesAFileThatIsCutOff) {
  const std::string text = file_of(kSmall, {kRow, kRow, kRow});
  expect_refused(header_of(kSmall), "does not say its rows; where: w.txt:1; found: nothing");
  expect_refused(header_of(kSmall) + "many\n", "number of rows of a workload cannot be used");
  expect_refused(header_of(kSmall) + "1 2\n", "where: w.txt:2; found: 2 fields");
  expect_refused(header_of(kSmall) + "0\n",
                 "where: w.txt:2:1; found: \"0\"; expected: a whole number, 1");
  expect_refused(text.substr(0, text.size() - kRow.size() - 1),
                 "another number of rows than it says; where: w.txt:4; found: 2 rows to the end; "
                 "expected: 3, as line 2 says; fix: the file may be cut off");
  expect_refused(text.substr(0, text.size() - 20),
                 "row of a workload is not whole; where: w.txt:5; found: 8 fields; expected: 12");
  expect_refused(text + kRow + "\n",
                 "where: w.txt:6; found: one more row; expected: 3 rows, as line 2 says");
  expect_refused(replaced(text, "\nlayer", "\n\nlayer"), "blank line between rows of a workload");
}

TEST(ReadWorkload, ChangedBytesAreReadOrRefused) {
  const std::string valid =
      file_of({.tensor = 2, .stages = 2, .microbatches = 2, .ranks = 4, .message = 9}, {kRow});
  const std::string_view bytes = "0129-.: \t\nABeN_\xff";
  std::mt19937_64 random(1);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = valid;
    for (std::uint64_t change = 0; change <= random() % 3; ++change)
      text[random() % text.size()] = bytes[random() % bytes.size()];
    try {
      const SimaiWorkload workload = parse_simai_workload(text, "w.txt");
      EXPECT_EQ(workload.end_row(), std::ssize(workload.rows));
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kInput) << error.what();
    }
  }
  // Few changes leave a file: others would be taken for rows that they are not.
  EXPECT_GT(read, 400);
  EXPECT_LT(read, 1000);
}

TEST(FindMicrobatches, RowsAtTheEndsRunOnceAStep) {
  const SimaiWorkload workload = parse_simai_workload(
      file_of({.microbatches = 3}, {compute_row("a", 1, 1, 1), compute_row("b", 1, 1, 1)},
              {compute_row("grad_gather", 1, 1, 1), compute_row("moe_grad_norm2", 1, 1, 1)},
              {compute_row("cross_entropy1", 1, 1, 1), compute_row("optimizer4", 1, 1, 1)}),
      "w.txt");
  EXPECT_EQ(workload.first_row, 2);
  EXPECT_EQ(workload.microbatch_rows, 2);
  EXPECT_EQ(workload.end_row(), 8);
  EXPECT_EQ(describe(workload),
            "tp 1, ep 1, dp 1, pp 1; 3 microbatches of 2 rows, 4 rows once a step");
}

TEST(FindMicrobatches, RefusesRowsThatDoNotRepeat) {
  const std::string row = compute_row("a", 1, 1, 1);
  const std::string other = compute_row("b", 1, 1, 1);
  const auto with_ga = [](const std::string& text, int microbatches) {
    return replaced(text, "ga: 1", str("ga: ", microbatches));
  };
  expect_refused(with_ga(file_of({}, {row, row, row}), 2),
                 "rows of a workload do not divide into its microbatches; where: w.txt:3; found: 3 "
                 "rows from here to line 5; expected: ga 2 times the same rows");
  expect_refused(
      with_ga(file_of({}, {row, other, row, row}), 2),
      "other rows than the first one; where: w.txt:6; found: \"a\"; expected: \"b\", as in line "
      "4");
  expect_refused(file_of({}, {compute_row("optimizer1", 1, 1, 1)}),
                 "workload has no rows of a microbatch");
}

}  // namespace
}  // namespace tributary::simulate
