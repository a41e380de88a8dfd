#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/loader_state.h"
#include "data/loader/sample_bytes.h"
#include "data/loader/sample_encoder.h"
#include "data/sample.h"

namespace tributary::data {

/// What a loader does with a sample of a batch.
struct SampleDuty {
  bool takes = false;   // next_batch hands it out
  bool reads = false;   // it reads the sample; another loader may take it
  bool counts = false;  // it counts the bad and too long records in whose place the sample stands
};

/// Deals a global batch. A thread of the loader calls it ahead of time, batch by batch.
///
/// shape: shapes [batch_samples] of the samples from `first_index` on -> [batch_samples]
using Deal = std::function<std::vector<SampleDuty>(std::int64_t first_index,
                                                   std::span<const SampleShape> shapes)>;

/// The modalities whose rows go to a rank with a sample; null: the sample does not go there.
using RowsOf = std::function<std::optional<ModalitySet>(std::int64_t id)>;
/// Writes a message of the samples that this loader has read.
using WriteRead = std::function<std::string(const RowsOf&)>;
/// Exchanges the samples of a batch between loaders, so that each has those that it takes. Returns
/// the messages of the others. A thread of the loader calls it for the batch after the one that is
/// handed out, in the order of the batches.
using Pass =
    std::function<std::vector<std::string>(std::int64_t first_index, const WriteRead& write)>;

/// Seconds spent on dealing a batch.
struct DealSeconds {
  double describing = 0;  // by the thread that deals
  double dealing = 0;     // likewise
  double waited = 0;      // by the caller of next_batch, where dealing was not ahead enough
};

/// How many records of a source look() reads.
inline constexpr std::int64_t kLookedAt = 64;

/// What a few records of each source say of all its training records. Counts are estimates where a
/// source has more than kLookedAt of them.
struct DataLook {
  std::int64_t tokens = 0;                 // of one pass over the records that are not dropped
  std::int64_t dropped = 0;                // records that are too long, or bad by text and headers
  std::vector<std::string> findings = {};  // a sentence for each thing that a run leaves out
};

struct LoaderOptions {
  config::DataSection data;
  std::uint64_t seed = 0;
  std::int64_t batch_samples = 1;  // of one global batch
  std::string quarantine_path;     // JSONL, appended; empty: bad records are only counted
  std::chrono::milliseconds sample_deadline = std::chrono::minutes(10);  // to read one sample
  // Without a deal this loader takes the samples at positions part, part + parts, ... of every
  // batch, and reads those at reader, reader + readers, ... of them (-1: none). All loaders
  // together hand out what one would.
  Deal deal = {};
  std::int64_t part = 0;
  std::int64_t parts = 1;
  std::int64_t reader = 0;
  std::int64_t readers = 1;
  // Modalities of a sample whose rows this loader does not read, as others encode them. Before such
  // a sample is handed out or passed on, `lacks` says whether it has to be read whole after all.
  // Both are called by threads of the loader.
  std::function<ModalitySet(std::int64_t id)> leaves = {};
  std::function<bool(const EncodedSample&)> lacks = {};
  Pass pass = {};  // where others read what this one takes, or take what it reads
  std::function<void()> begin_thread = {};  // called first by each thread of the loader
};

/// An endless, reproducible stream of samples from a weighted mixture of JSONL files.
///
/// Sample `i` is a pure function of (seed, i): the source by a draw keyed by i, the record by a
/// permutation keyed by (source, epoch), and for a bad record, or one that is too long, a
/// replacement drawn from the same source by a stream keyed by i. Worker threads only fill slots
/// ahead of time.
///
/// A batch is dealt by the shapes of records whose text and image headers are good. Every loader
/// finds the same ones, and nothing is decoded for it. When the pixels of a record turn out bad
/// later, its reader reads the replacement, which is counted and handed out as without a deal. So a
/// batch has the same samples under any deal, but the replacement may have another shape.
///
/// owns:   its worker threads, which stop at destruction; the encoder must outlive the loader
/// errors: Fault::kInput at construction for a missing file or image folder, an empty source,
///         fewer samples than one batch, or with `data.too_long: refuse` a sample that is too long
class Loader {
 public:
  Loader(const LoaderOptions& options, const SampleEncoder& encoder);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Hands out this part of the next batch_samples samples, ids ascending; waits for the workers.
  /// Samples that another reader has decoded may come without the rows of their media (Pass).
  ///
  /// errors: Fault::kInput with ExitCode::kDataLimit when more records are bad than
  ///         data.bad_fraction of those read and more than data.bad_at_least; Fault::kResource with
  ///         ExitCode::kHang when a sample is not there within the deadline
  [[nodiscard]] std::vector<EncodedSample> next_batch();
  /// The first sample that is not handed out yet.
  [[nodiscard]] std::int64_t next_index() const;
  /// Times of the last batch handed out; 0 without a deal.
  [[nodiscard]] DealSeconds deal_seconds() const;
  /// The run ends before this sample: nothing is read from there on.
  void end_at(std::int64_t index);
  /// How many images and clips of the last batch this loader has decoded itself.
  [[nodiscard]] std::int64_t media_decoded() const;
  /// Reads a sample of the run as it is handed out, whether it was or not: for processes that take
  /// only some of them. Several threads may.
  ///
  /// cost: O(|id - the one before|) draws and one decode, in the calling thread
  [[nodiscard]] EncodedSample load(std::int64_t id) const;
  /// The pictures of that sample, as decoded, before resizing. units, cost: as load
  [[nodiscard]] std::vector<Picture> pictures(std::int64_t id) const;

  /// State after the batches handed out, in the order of the data.
  [[nodiscard]] LoaderState state() const;
  /// Continues after `state`; drops what was read ahead. `accepted` names allowed differences:
  /// `run.seed`, `data.held_out_fraction`, `data.digest` (files, images), `data.sources` (mixture).
  ///
  /// errors: Fault::kInput with ExitCode::kCheckpointRefused when seed, mixture or files differ
  void restore(const LoaderState& state, std::span<const std::string> accepted = {});

  /// The number of training records of all sources, in one epoch of each.
  [[nodiscard]] std::int64_t records() const;

  /// The number of records of this part that were left out as too long so far, each counted once.
  [[nodiscard]] std::int64_t left_out() const;

  /// Looks at kLookedAt records of each source, spread over it.
  ///
  /// errors: Fault::kInput with ExitCode::kDataLimit when a small source has only too long records
  [[nodiscard]] DataLook look();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The held-out records of every source, in the order of their file. Reads on demand, in the
/// calling thread.
class HeldOut {
 public:
  /// errors: as Loader; a source without held-out records is legal and has size 0
  HeldOut(const config::DataSection& data, const SampleEncoder& encoder);
  ~HeldOut();
  HeldOut(const HeldOut&) = delete;
  HeldOut& operator=(const HeldOut&) = delete;

  [[nodiscard]] std::int64_t size(int source) const;
  /// Sizes a record from its text and image headers; refuses what these show to be bad.
  [[nodiscard]] Result<SampleShape> describe(int source, std::int64_t position) const;
  /// Loads one record; refuses a bad one with its reason.
  [[nodiscard]] Result<HeldOutSample> load(int source, std::int64_t position) const;
  /// Reads only the expected answers; opens no picture.
  [[nodiscard]] Result<std::vector<std::string>> answers(int source, std::int64_t position) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::data
