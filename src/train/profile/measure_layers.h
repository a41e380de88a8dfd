#pragma once

#include <functional>
#include <iosfwd>
#include <set>
#include <string>
#include <vector>

#include "config/artifact/profile.h"
#include "train/profile/crowded_rounds.h"
#include "train/start/session.h"

namespace tributary::train {

/// What the measurements of layers in one job share.
struct LayerJob {
  const config::RunConfig& config;
  const config::ModelConfig& model;
  const mesh::Group& world;
  std::int64_t threads = 1;                // of each rank
  std::function<bool()> goes_on;           // together; false: stop
  std::function<void(const Crowd&)> bind;  // as a run with these ranks
  std::function<void()> write;             // the profile, after it has changed
  std::ostream& out;
};

/// How the layers are cut, and who works at once.
struct LayerCut {
  std::int64_t tp = 1;
  std::set<std::string> whole = {};  // modules that tp does not cut; nothing is noted of them
  std::vector<Crowd> crowds = {};
};

/// Whether a profile lacks layers at some size, or attention at some length.
[[nodiscard]] bool lacks_layers(const config::Profile& profile, const LayerJob& job,
                                const LayerCut& cut);

/// Draws samples for all microbatches of the largest size.
[[nodiscard]] std::vector<data::EncodedSample> draw_samples(const Session& session);

/// Measures what the profile lacks: attention at sequences and images of several lengths, then
/// layers at the sizes of the grid, a part of the capacity each. The model lies as `layouts` say.
///
/// collective: over the ranks of the layouts, and the world; all ranks have drawn the same samples
void measure_layers(const LayerJob& job, const LayerCut& cut, model::ModelLayout layouts,
                    const Session& session, const std::vector<data::EncodedSample>& samples,
                    config::Profile& profile);

}  // namespace tributary::train
