#include "data/loader/check_same_data.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace tributary::data {

std::string describe(const SourceDigest& source) {
  return str(source.name, ": ", source.records, " records, ", source.bytes, " bytes, content ",
             source.content, source.images.empty() ? "" : ", first images ", source.images);
}

void check_same_data(const LoaderState& saved, const LoaderState& own,
                     std::span<const std::string> accepted) {
  const auto refuse_if = [&](bool differs, const char* what, const char* key,
                             const std::string& found, const std::string& expected) {
    const bool may_differ = std::ranges::find(accepted, key) != accepted.end();
    TRIB_REQUIRE(!differs || may_differ, .what = str("data: resumed run has another ", what),
                 .found = found, .expected = expected,
                 .fix = "resume with the data section of the first run",
                 .exit = ExitCode::kCheckpointRefused);
  };
  refuse_if(saved.seed != own.seed, "seed", "run.seed", str(own.seed), str(saved.seed));
  refuse_if(saved.held_out_fraction != own.held_out_fraction, "held_out_fraction",
            "data.held_out_fraction", str(own.held_out_fraction), str(saved.held_out_fraction));
  refuse_if(saved.sources.size() != own.sources.size() ||
                saved.cursors.size() != own.cursors.size() ||
                saved.left_out.size() != own.left_out.size(),
            "number of sources", "", str(own.sources.size()), str(saved.sources.size()));
  for (std::size_t i = 0; i < own.sources.size(); ++i) {
    refuse_if(saved.sources[i] != own.sources[i], "data set", "data.digest",
              describe(own.sources[i]), describe(saved.sources[i]));
  }
  refuse_if(saved.weights != own.weights || saved.start_steps != own.start_steps, "mixture",
            "data.sources", "other weights or start steps", "the saved ones");
  const std::int64_t drawn =
      std::accumulate(saved.cursors.begin(), saved.cursors.end(), std::int64_t{0});
  refuse_if(drawn != saved.next_index ||
                std::ranges::any_of(saved.cursors, [](std::int64_t cursor) { return cursor < 0; }),
            "cursor", "", str("cursors that sum up to ", drawn), str(saved.next_index));
}

}  // namespace tributary::data
