#include <filesystem>
#include <iostream>
#include <memory>

#include "app/cli/commands.h"
#include "app/report/write_report.h"
#include "core/error.h"

namespace tributary::app {
Run declare_report(Verb& verb) {
  struct Arguments {
    std::string run;
    std::string output;
    std::int64_t examples = 8;
  };
  const auto arguments = std::make_shared<Arguments>();
  verb.positional("RUN_DIR", arguments->run, "directory of a run, for example runs/demo");
  verb.option("-o,--output", arguments->output, "HTML file; default: RUN_DIR/report.html");
  verb.option("--examples", arguments->examples, "predictions shown of each source");
  verb.example("tributary report runs/demo");
  return [arguments] {
    TRIB_REQUIRE(arguments->examples >= 0 && arguments->examples <= 1000,
                 .what = "report: value cannot be used", .where = "--examples",
                 .found = str(arguments->examples), .expected = "0 to 1000");
    const RunRecord run = read_run(arguments->run);
    const std::string path = arguments->output.empty()
                                 ? (std::filesystem::path(arguments->run) / "report.html").string()
                                 : arguments->output;
    ReportLimits limits;
    limits.examples_per_source = static_cast<std::size_t>(arguments->examples);
    write_report_file(run, path, limits);
    std::cout << path << "\n";
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
