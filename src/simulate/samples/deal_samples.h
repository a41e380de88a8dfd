#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/artifact/shape_histogram.h"
#include "config/plan/plan.h"
#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::simulate {

/// The size of one sample: what the backbone and the encoders see of it.
struct SampleSize {
  std::int64_t tokens = 1;   // backbone positions
  std::int64_t patches = 0;  // of all its images, before merging; of a model that has no encoder
                             // but of sound: audio frames
  std::int64_t items = 0;    // images, video frames: patches attend within one
  std::int64_t frames = 0;   // of sound, beside images
  std::int64_t clips = 0;    // of sound: frames attend within one

  /// What encoders of a medium work on, what that is in, and what all encoders work on.
  [[nodiscard]] std::int64_t units(cost::Media media) const {
    return media == cost::Media::kPatches ? patches : frames;
  }
  [[nodiscard]] std::int64_t items_of(cost::Media media) const {
    return media == cost::Media::kPatches ? items : clips;
  }
  [[nodiscard]] std::int64_t encoded() const { return patches + frames; }
  /// What comes first counts most.
  friend auto operator<=>(const SampleSize&, const SampleSize&) = default;
  friend bool operator==(const SampleSize&, const SampleSize&) = default;
};

/// Whether the samples of the mixture have sound.
enum class MixtureSound { kNone, kBesidePictures };

/// What a model is given of the mixture: sound where it encodes that beside images.
[[nodiscard]] MixtureSound mixture_sound(const config::ModuleGraph& model);

/// Draws samples of single photos, documents, groups of pictures and videos; with sound the same
/// ones, where each video has a clip as long as itself (a frame a second), and of the others one in
/// four a spoken one of 2 to 30 s.
///
/// shape:  `count` samples; the same for the same seed and step. What is longer than `most` is
///         drawn again, as the trainer leaves it out; without tokens every length will do.
/// errors: Fault::kInput when hardly any sample is short enough
/// source: docs/theory/planning.md, "Sample mixture"; a second of sound has 50
///         positions, 25 tokens, as of Whisper's encoder before and behind a pooling by two
[[nodiscard]] std::vector<SampleSize> draw_mixture(std::uint64_t seed, std::uint64_t step,
                                                   std::int64_t count,
                                                   MixtureSound sound = MixtureSound::kNone,
                                                   Tokens most = {});

/// Sizes seen in a data set, and how often each.
struct RecordedSizes {
  std::vector<SampleSize> sizes = {};
  std::vector<std::int64_t> times = {};  // [sizes]; empty: once each
};

/// The sizes of a histogram: images and the frames of videos are items, and clips those of sound.
[[nodiscard]] RecordedSizes sizes_of(const config::ShapeHistogram& histogram);

/// Draws from recorded sizes, as often as they were seen.
///
/// errors: Fault::kInput when nothing is recorded
[[nodiscard]] std::vector<SampleSize> draw_recorded(const RecordedSizes& recorded,
                                                    std::uint64_t seed, std::uint64_t step,
                                                    std::int64_t count);

/// The microbatches of one step: [modules of the pipeline][replicas][microbatches]; of a colocated
/// module there may be only those of its passes.
using StepShapes = std::vector<std::vector<std::vector<cost::MicrobatchShape>>>;

/// Deals samples whose buckets are known: these to the backbone's replicas and microbatches, and
/// the samples of a round to the replicas of each encoder, the largest first to the one with the
/// least; to those of a colocated one the samples of the whole step.
///
/// shape:  media [modules of the pipeline], of the backbone any; bucket b is microbatch
///         b / replicas of replica b mod replicas of the backbone
/// source: docs/theory/planning.md, "Dispatch of a round"
[[nodiscard]] StepShapes deal_samples(const schedule::Pipeline& pipeline,
                                      std::span<const cost::Media> media,
                                      std::span<const SampleSize> samples,
                                      std::span<const std::int32_t> bucket_of);

/// A microbatch of one sample.
[[nodiscard]] cost::MicrobatchShape shape_of(const SampleSize& sample);

/// A microbatch without samples, and one more sample in it.
[[nodiscard]] cost::MicrobatchShape empty_shape();
void add_sample(cost::MicrobatchShape& to, const SampleSize& sample);

/// Deals the samples of one round to an encoder's replicas: the largest first, to the one with the
/// least.
///
/// shape: members are places in `samples`; adds to replicas [replicas][microbatches] at `round`
void deal_round(std::span<const SampleSize> samples, std::vector<int> members, cost::Media media,
                int round, std::vector<std::vector<cost::MicrobatchShape>>& replicas);

/// Deals the samples of a step to the replicas of a colocated encoder, the largest first to the one
/// with the least, and what a replica has to its passes likewise.
///
/// shape: adds to replicas [replicas][microbatches] at the first `passes`
void deal_passes(std::span<const SampleSize> samples, cost::Media media, int passes,
                 std::vector<std::vector<cost::MicrobatchShape>>& replicas);

/// Puts the microbatches of colocated modules, as others have them, together in as many passes as
/// these take: neighbours go together. What lies in the first passes alone stays.
void gather_passes(const schedule::Pipeline& pipeline, StepShapes& shapes);

/// Whether samples of one size make equal microbatches on all replicas of every module.
[[nodiscard]] bool deals_evenly(const schedule::Pipeline& pipeline, std::int64_t samples);

/// The microbatches of one replica of each module, where all samples are of one size and deal
/// evenly: what deal_samples gives every replica.
[[nodiscard]] StepShapes equal_microbatches(const schedule::Pipeline& pipeline,
                                            std::span<const cost::Media> media,
                                            const SampleSize& sample, std::int64_t samples);

/// Every microbatch is one full sequence of the capacity; encoders have nothing to do.
[[nodiscard]] StepShapes full_microbatches(const config::Plan& plan,
                                           const schedule::Pipeline& pipeline);

}  // namespace tributary::simulate
