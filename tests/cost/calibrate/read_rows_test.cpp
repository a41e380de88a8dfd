#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "cost/calibrate/calibrate.h"
#include "cost/calibrate/training_row.h"
#include "tests/config/temporary_folder.h"

namespace tributary::cost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kHeader =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";

std::string message_of(const std::string& text) {
  try {
    (void)parse_training_rows(text, "rows.csv");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    return error.what();
  }
  return "read";
}

TEST(ReadTrainingRows, ReadsRowsInAnyOrderOfColumns) {
  const TrainingTable table = parse_training_rows(
      "note,pipeline parallelism,# GPUs,global batch,micro batch,hidden size,attention heads,"
      "# layers,sequence length,tensor parallelism,data parallelism,recompute\r\n"
      "x,2,8,16,1,1024,16,24,1024,2,2,full\r\ny,1,8,16,1,1024,16,24,1024,2,4,\r\n\r\n",
      "rows.csv");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].microbatches(), 8);
  EXPECT_EQ(table.rows[0].recompute, config::RecomputePlan::kFull);
  EXPECT_EQ(table.rows[1].recompute, std::nullopt);
  EXPECT_EQ(table.rows[1].seconds, std::nullopt);
  EXPECT_EQ(table.lines[1], "y,1,8,16,1,1024,16,24,1024,2,4,");
}

TEST(ReadTrainingRows, NamesLineAndColumnOfEveryFault) {
  const std::string good = kHeader + "8,16,1,1024,16,24,1024,2,2,2,100\n";
  EXPECT_EQ(message_of(good), "read");
  EXPECT_THAT(message_of(good + "8,16,nan,1024,16,24,1024,2,2,2,100\n"),
              AllOf(HasSubstr("rows.csv:3"), HasSubstr("micro batch"), HasSubstr("nan")));
  EXPECT_THAT(message_of(good + "8,16,1,1024,16,24,1024,2,2,2,inf\n"),
              AllOf(HasSubstr("rows.csv:3"), HasSubstr("iteration time")));
  EXPECT_THAT(message_of(good + "8,16,0,1024,16,24,1024,2,2,2,1\n"), HasSubstr("rows.csv:3"));
  EXPECT_THAT(message_of(good + "8,16,1,1024,16,24,1024,2,2,4,1\n"),
              HasSubstr("tp 2, dp 2, pp 4 on 8"));
  EXPECT_THAT(message_of(good + "8,15,1,1024,16,24,1024,2,2,2,1\n"),
              HasSubstr("batch does not divide"));
  EXPECT_THAT(message_of(good + "8,16,1,1000,16,24,1024,2,2,2,1\n"),
              HasSubstr("heads do not divide"));
  EXPECT_THAT(message_of(good + "8,16,1,1024,16,1,1024,2,2,2,1\n"),
              HasSubstr("fewer layers than stages"));
  EXPECT_THAT(message_of(good + "8,16,1\n"), HasSubstr("3 fields"));
  EXPECT_THAT(message_of(kHeader), HasSubstr("holds no rows"));
  EXPECT_THAT(message_of("# GPUs,global bach\n1,2\n"), HasSubstr("column is missing"));
  EXPECT_THAT(message_of(""), HasSubstr("holds no rows"));
}

TEST(ReadTrainingRows, RefusesAColumnThatIsNearlyAnOptionalOne) {
  const auto with = [](const std::string& column, const std::string& value) {
    return kHeader.substr(0, kHeader.size() - 1) + "," + column +
           "\n8,16,1,1024,16,24,1024,2,2,2,100," + value + "\n";
  };
  for (const auto& [slip, name] : {std::pair{"Recompute", "recompute"},
                                   {"recompte", "recompute"},
                                   {"RECOMPUTED", "recompute"},
                                   {"Vocabulary", "vocabulary"},
                                   {"virtual stage", "virtual stages"},
                                   {"sequence_parallelism", "sequence parallelism"}})
    EXPECT_THAT(message_of(with(slip, "1")), AllOf(HasSubstr("where: rows.csv:1; found: \""),
                                                   HasSubstr(str("is it \"", name, "\"?"))))
        << slip;
  std::string seconds = with("note", "1");
  seconds.replace(seconds.find("(ms)"), 4, "(s)");
  EXPECT_THAT(message_of(seconds), HasSubstr("is it \"iteration time (ms)\"?"));
  for (const char* other : {"note", "loss", "predicted_s", "Predicted_ms", "vocal range"})
    EXPECT_EQ(message_of(with(other, "1")), "read") << other;
  EXPECT_EQ(message_of(with("recompute,Recompute", "full,x")), "read");  // the column is there
}

TEST(ReadTrainingRows, TakesWholeNumbersThatAreWrittenAsFloats) {
  std::string header = kHeader;
  header.pop_back();
  header += ",sequence parallelism\n";
  const auto read = [&](const std::string& row) {
    return parse_training_rows(header + row, "rows.csv").rows.front();
  };
  const TrainingRow plain = read("8,16,1,1024,16,24,1024,2,2,2,100,1\n");
  const TrainingRow floats = read("8.0,1.6e1,1.,1024.0,16.0,24.0,1024.0,2.0,2.0,2.0,100,1.0\n");
  EXPECT_EQ(floats.devices, plain.devices);
  EXPECT_EQ(floats.global_batch, plain.global_batch);
  EXPECT_EQ(floats.micro_batch, plain.micro_batch);
  EXPECT_EQ(floats.width, plain.width);
  EXPECT_EQ(floats.pp, plain.pp);
  EXPECT_EQ(floats.sequence_parallel, plain.sequence_parallel);
  for (const char* bad : {"8.5", "inf", "nan", "-8.0", "0.0", "1e300", "0x8", "8.0.0"})
    EXPECT_THAT(message_of(kHeader + bad + ",16,1,1024,16,24,1024,2,2,2,100\n"),
                AllOf(HasSubstr("column \"# GPUs\""), HasSubstr("a whole number, 1 to ")))
        << bad;
  EXPECT_THAT(message_of(header + "8,16,1,1024,16,24,1024,2,2,2,100,0.5\n"),
              HasSubstr("expected: 0 or 1"));
}

TEST(ReadTrainingRows, NamesTheFileOfARowThatDoesNotFitTheCluster) {
  const TrainingTable table = parse_training_rows(
      kHeader +
          "8,16,1,1024,16,24,1024,2,2,2,100\n\n16777216,16777216,1,64,4,1,64,1,16777216,1,1\n",
      "rows.csv");
  EXPECT_THAT([&] { (void)step_seconds(data_sheet_cluster(), table.rows.back()); },
              testing::ThrowsMessage<Error>(HasSubstr("where: rows.csv:4; found: 16777216 GPUs")));
}

TEST(WritePredictions, AddsAColumnOrReplacesTheOneThatIsThere) {
  const std::string row = "8,16,1,1024,16,24,1024,2,2,2,100";
  const auto written = [](const std::string& text, double seconds) {
    const TrainingTable table = parse_training_rows(text, "rows.csv");
    return write_predictions(table, std::vector<double>(table.rows.size(), seconds));
  };
  const std::string header = kHeader.substr(0, kHeader.size() - 1);
  const std::string once = written(kHeader + row + "\r\n" + row + "\n", 0.25);
  EXPECT_EQ(once, header + ",predicted_ms\n" + row + ",250\n" + row + ",250\n");
  EXPECT_EQ(written(once, 0.5), header + ",predicted_ms\n" + row + ",500\n" + row + ",500\n");
  EXPECT_EQ(written("predicted_ms," + kHeader + "," + row + "\n", 2),
            "predicted_ms," + kHeader + "2000," + row + "\n");
  EXPECT_EQ(written("note,predicted_ms," + kHeader + "a,7," + row + "\n", 2),
            "note,predicted_ms," + kHeader + "a,2000," + row + "\n");
  EXPECT_THAT(message_of(header + ",predicted_ms,predicted_ms\n" + row + ",1,1\n"),
              AllOf(HasSubstr("column stands twice"), HasSubstr("fix: keep one of them")));
}

TEST(ReadTrainingRows, SaysWhatToDoAboutAFile) {
  EXPECT_THAT([] { (void)read_training_rows("/nowhere/rows.csv"); },
              testing::ThrowsMessage<Error>(HasSubstr("fix: correct the path")));
  EXPECT_THAT([] { (void)read_training_rows("/"); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("found: a directory; expected: rows of step times, "
                            "docs/formats/training_rows.md; fix: name a file in it")));
  EXPECT_THAT(message_of("# GPUs\n1\n"), HasSubstr("expected: global batch; fix: add it"));
}

TEST(ReadTrainingRows, ReadsAMillionRowsAndNamesTheBadOne) {
  std::string text = kHeader;
  for (int i = 0; i < 1'000'000; ++i) text += "8,16,1,1024,16,24,1024,2,2,2,100\n";
  EXPECT_EQ(parse_training_rows(text, "rows.csv").rows.size(), 1'000'000u);
  EXPECT_THAT(message_of(text + "8,16,1,1024,16,24,1024,2,2,2,-5\n"),
              HasSubstr("rows.csv:1000002"));
}

TEST(ReadAllReduceSweeps, NamesTheLine) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      (void)parse_all_reduce_sweep(text, "s.csv", 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(message("h\n1024,1,float,5,1\n2048,1,float,6,1\n"), "read");
  EXPECT_THAT(message("h\n1024,1,float,nan,1\n"), HasSubstr("s.csv:2"));
  EXPECT_THAT(message("h\n1024,1,float,0,1\n"), HasSubstr("s.csv:2"));
  EXPECT_THAT(message("h\n1024,1,float,5,1\n1024,1,float,6,1\n"), HasSubstr("do not ascend"));
  EXPECT_THAT(message("h\n"), HasSubstr("holds no rows"));
  EXPECT_THAT([] { (void)read_all_reduce_sweeps("/nowhere"); },
              testing::ThrowsMessage<Error>(HasSubstr("directory holds no sweep")));
}

TEST(ReadAllReduceSweeps, TakesOneFileForEachNumberOfRanks) {
  const auto message = [](const std::vector<std::string>& names) -> std::string {
    const TemporaryFolder folder;
    for (const std::string& name : names) folder.write(name, "h\n1024,1,float,5,1\n");
    try {
      std::string ranks = "ranks";
      for (const AllReduceSweep& sweep : read_all_reduce_sweeps(folder.path()))
        ranks += str(' ', sweep.points.front().ranks);
      return ranks;
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message({"a_gpu8.csv", "a_gpu2.csv", "b_gpu16.csv", "gpu4.csv", "notes.txt"}),
            "ranks 2 8 16");
  EXPECT_THAT(message({"b_gpu8.csv", "c_gpu8.csv", "b_gpu4.csv"}),
              AllOf(HasSubstr("two sweeps of one number"), HasSubstr("/b_gpu8.csv and "),
                    HasSubstr("/c_gpu8.csv; ")));
  EXPECT_THAT(message({"b_gpu8.csv", "b_gpu08.csv"}), HasSubstr("two sweeps of one number"));
  for (const char* bad :
       {"a_gpu99999999999.csv", "a_gpu99999999999999999999.csv", "a_gpu1.csv", "a_gpu0.csv"})
    EXPECT_THAT(message({"a_gpu2.csv", bad}), AllOf(HasSubstr(bad), HasSubstr("N of 2 to 1048576")))
        << bad;
}

TEST(FitAllReduce, NamesTheSweepOfMoreRanksThanANodeHas) {
  const AllReduceSweep large{.source = "a_gpu16.csv", .points = {{16, {1024}, {5}}}};
  EXPECT_THAT([&] { (void)fit_all_reduce(data_sheet_cluster().levels[0], std::vector{large}); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("where: a_gpu16.csv; found: 16 ranks; expected: at most the 8"),
                        HasSubstr("--base"))));
}

}  // namespace
}  // namespace tributary::cost
