#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/data_order.h"
#include "data/loader/quarantine.h"
#include "data/loader/sample_bytes.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/source_files.h"

namespace tributary::data {

/// The place in the data that sample `index` of a run is drawn from.
struct Draw {
  std::int64_t index = 0;
  int source = 0;
  std::int64_t position = 0;  // in the source, over all epochs
};

/// The records that were passed over before a sample was found, and other findings.
struct Passed {
  std::vector<Rejection> bad;  // in the order tried
  /// Whether the record drawn was left out as too long. False after the source's first epoch, so
  /// that each record counts once.
  bool is_left_out = false;
  std::vector<std::string> unread_keys;  // of the record that was used
  std::string limit;                     // not empty: why there is no sample
};

/// A sample, and what was passed over to find it.
struct ReadSample {
  EncodedSample sample;
  Passed passed;
};

/// Reads the sample of a draw. A record that cannot be used is replaced by another draw from the
/// same source, so that the result depends only on the draw.
///
/// owns: borrows sources, order and encoder
class SampleReader {
 public:
  SampleReader(const std::vector<std::unique_ptr<SourceFiles>>& sources, const DataOrder& order,
               const SampleEncoder& encoder, config::TooLong too_long)
      : sources_(sources), order_(order), encoder_(encoder), too_long_(too_long) {}

  /// Reads, decodes and encodes into `read`, which has `passed` filled in even when this raises.
  /// The rows of the modalities in `without` may be missing: then bad pixels go unnoticed.
  ///
  /// errors: Fault::kInput with ExitCode::kDataLimit when 101 records in a row are bad, or 1000 are
  ///         too long
  void read(const Draw& draw, ReadSample& read, ModalitySet without = {}) const;
  /// The pictures of the sample that read() gives.
  [[nodiscard]] std::vector<Picture> pictures(const Draw& draw) const;
  /// The shape of the first candidate record whose text and image headers are good. It does not
  /// count the records before it; read() does.
  [[nodiscard]] SampleShape describe(const Draw& draw) const;

 private:
  template <class Use>
  void find_usable(const Draw& draw, Passed& passed, const Use& use) const;

  const std::vector<std::unique_ptr<SourceFiles>>& sources_;
  const DataOrder& order_;
  const SampleEncoder& encoder_;
  config::TooLong too_long_;
};

/// Appends a sample that this rank has read, and what it met on the way, to a message for others;
/// `with_rows` as append_sample takes it.
void append_read(std::string& message, const ReadSample& read, ModalitySet with_rows);

/// Reads all samples of a message, in its order.
///
/// errors: Fault::kBug when it is cut
[[nodiscard]] std::vector<ReadSample> take_read(std::string_view message);

}  // namespace tributary::data
