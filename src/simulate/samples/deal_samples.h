#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/artifact/shape_histogram.h"
#include "config/plan/plan.h"
#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::simulate {

/// The size of one sample, as the backbone and the encoders see it.
struct SampleSize {
  std::int64_t tokens = 1;   // backbone positions
  std::int64_t patches = 0;  // of all its images, before merging; audio frames in a model
                             // that only encodes sound
  std::int64_t items = 0;    // images, video frames: patches attend within one
  std::int64_t frames = 0;   // of sound, in a model with images
  std::int64_t clips = 0;    // of sound: frames attend within one

  /// What encoders of a medium work on, the items it comes in, and what all encoders work on.
  [[nodiscard]] std::int64_t units(cost::Media media) const {
    return media == cost::Media::kPatches ? patches : frames;
  }
  [[nodiscard]] std::int64_t items_of(cost::Media media) const {
    return media == cost::Media::kPatches ? items : clips;
  }
  [[nodiscard]] std::int64_t encoded() const { return patches + frames; }
  /// Compares member by member.
  friend auto operator<=>(const SampleSize&, const SampleSize&) = default;
  friend bool operator==(const SampleSize&, const SampleSize&) = default;
};

/// Whether the samples of the mixture have sound.
enum class MixtureSound { kNone, kBesidePictures };

/// The sound that the mixture has for a model: only where it encodes sound beside images.
[[nodiscard]] MixtureSound mixture_sound(const config::ModuleGraph& model);

/// Draws samples of single photos, documents, groups of pictures and videos. With sound the samples
/// are the same, and each video has a clip of its own length (a frame is a second); of the others
/// one in four has a spoken clip of 2 to 30 s.
///
/// shape:  `count` samples; the same for the same seed and step. Samples longer than `max` are
///         drawn again, since the trainer leaves them out; null allows every length.
/// errors: Fault::kInput when hardly any sample is short enough
/// source: docs/theory/planning.md, "Sample mixture"; a second of sound has 50 positions and 25
///         tokens, as in Whisper's encoder before and after pooling by two
[[nodiscard]] std::vector<SampleSize> draw_mixture(std::uint64_t seed, std::uint64_t step,
                                                   std::int64_t count,
                                                   MixtureSound sound = MixtureSound::kNone,
                                                   Tokens max = {});

/// Sizes seen in a data set, and how often each.
struct RecordedSizes {
  std::vector<SampleSize> sizes = {};
  std::vector<std::int64_t> times = {};  // [sizes]; empty: once each
};

/// The size of a shape: images and video frames are items, sounds are clips.
[[nodiscard]] SampleSize size_of(const SampleShape& shape);

/// The sizes of a histogram, as size_of.
[[nodiscard]] RecordedSizes sizes_of(const config::ShapeHistogram& histogram);

/// Sizes as the encoders of a model take them: one that encodes nothing but sound has its positions
/// where others have patches.
[[nodiscard]] RecordedSizes sizes_for(const config::ModuleGraph& model, RecordedSizes recorded);

/// Draws from recorded sizes by their counts.
///
/// errors: Fault::kInput when nothing is recorded
[[nodiscard]] std::vector<SampleSize> draw_recorded(const RecordedSizes& recorded,
                                                    std::uint64_t seed, std::uint64_t step,
                                                    std::int64_t count);

/// The microbatches of one step: [modules of the pipeline][replicas][microbatches]. A colocated
/// module may have only those of its passes.
using StepShapes = std::vector<std::vector<std::vector<cost::MicrobatchShape>>>;

/// Dispatches samples with known buckets. Backbone replicas and microbatches get theirs by bucket.
/// For each microbatch index, the samples go to the replicas of each encoder, the largest first,
/// always to the replica with the least so far; for a colocated encoder this covers the whole step.
///
/// shape:  media [modules of the pipeline], ignored for the backbone; bucket b is microbatch
///         b / replicas of replica b mod replicas of the backbone
/// source: docs/theory/planning.md, "Dispatch of a round"
[[nodiscard]] StepShapes deal_samples(const schedule::Pipeline& pipeline,
                                      std::span<const cost::Media> media,
                                      std::span<const SampleSize> samples,
                                      std::span<const std::int32_t> bucket_of);

/// A microbatch of one sample.
[[nodiscard]] cost::MicrobatchShape shape_of(const SampleSize& sample);

/// A microbatch without samples; add_sample() adds one.
[[nodiscard]] cost::MicrobatchShape empty_shape();
void add_sample(cost::MicrobatchShape& to, const SampleSize& sample);

/// Dispatches samples of one microbatch index to an encoder's replicas: the largest first, always
/// to the replica with the least so far.
///
/// shape: members are indices of `samples`; adds to replicas [replicas][microbatches] at `round`
void deal_round(std::span<const SampleSize> samples, std::vector<int> members, cost::Media media,
                int round, std::vector<std::vector<cost::MicrobatchShape>>& replicas);

/// Dispatches the samples of a colocated encoder to its replicas: the largest first, always to the
/// one with the least so far in the step; pass by pass where it takes turns, else all at once.
///
/// shape: rounds [microbatches] indices of samples; adds to replicas [replicas][microbatches] at
/// the
///        first `passes`
void deal_passes(std::span<const SampleSize> samples, const std::vector<std::vector<int>>& rounds,
                 cost::Media media, const schedule::PipelineModule& module,
                 std::vector<std::vector<cost::MicrobatchShape>>& replicas);

/// Merges the microbatches of colocated modules into their number of passes, neighbours together.
/// Nothing changes where only the first passes have samples.
void gather_passes(const schedule::Pipeline& pipeline, StepShapes& shapes);

/// Whether samples of equal size make equal microbatches on all replicas of every module.
[[nodiscard]] bool deals_evenly(const schedule::Pipeline& pipeline, std::int64_t samples);

/// The microbatches of one replica of each module when samples are equal and dispatch evenly: what
/// deal_samples gives every replica.
[[nodiscard]] StepShapes equal_microbatches(const schedule::Pipeline& pipeline,
                                            std::span<const cost::Media> media,
                                            const SampleSize& sample, std::int64_t samples);

/// Every microbatch is one sequence of full capacity; encoders have no input.
[[nodiscard]] StepShapes full_microbatches(const config::Plan& plan,
                                           const schedule::Pipeline& pipeline);

}  // namespace tributary::simulate
