#include <iostream>

#include "app/cli/commands.h"
#include "core/error.h"
#include "data/demo/make_demo.h"

namespace tributary::app {

Run declare_data_make_demo(Verb& verb) {
  struct Arguments {
    std::string directory;
    std::int64_t seed = 1;
    std::int64_t samples = data::DemoOptions{}.samples;
    std::int64_t held_out = data::DemoOptions{}.held_out;
  };
  const auto given = std::make_shared<Arguments>();
  verb.required("-o,--output", given->directory, "Directory to make");
  verb.option("--seed", given->seed, "Seed of the pictures and questions");
  verb.option("--samples", given->samples, "Training records of the five sources together");
  verb.option("--held-out", given->held_out, "Held-out records of each source");
  verb.example("tributary data make-demo -o runs/demo-data");
  return [given] {
    TRIB_REQUIRE(given->seed >= 0, .what = "app: seed below 0", .where = "--seed",
                 .found = str(given->seed), .expected = "0 or more");
    const bool is_new = data::make_demo({.directory = given->directory,
                                         .seed = static_cast<std::uint64_t>(given->seed),
                                         .samples = given->samples,
                                         .held_out = given->held_out});
    std::cout << (is_new ? "made " : "there already: ") << given->directory << "\n";
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
