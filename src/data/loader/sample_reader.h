#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/data_order.h"
#include "data/loader/quarantine.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/source_files.h"

namespace tributary::data {

/// Where sample `index` of a run comes from.
struct Draw {
  std::int64_t index = 0;
  int source = 0;
  std::int64_t position = 0;  // in the source, over all epochs
};

/// What stood in the way of a sample, and what was seen on the way.
struct Passed {
  std::vector<Rejection> bad;  // in the order tried
  /// The record drawn is too long and was left out; false after the source's first epoch, so that
  /// each record counts once.
  bool is_left_out = false;
  std::vector<std::string> unread_keys;  // of the record that was used
  std::string limit;                     // not empty: why there is no sample
};

/// A sample, and what stood in its way.
struct ReadSample {
  EncodedSample sample;
  Passed passed;
};

/// Reads the sample of a draw. A record that cannot be used gives way to a replacement drawn from
/// the same source, so that the answer depends on the draw alone.
///
/// owns: borrows sources, order and encoder
class SampleReader {
 public:
  SampleReader(const std::vector<std::unique_ptr<SourceFiles>>& sources, const DataOrder& order,
               const SampleEncoder& encoder, config::TooLong too_long)
      : sources_(sources), order_(order), encoder_(encoder), too_long_(too_long) {}

  /// Reads, decodes and encodes into `read`, which has the records passed even where this raises.
  ///
  /// errors: Fault::kInput with ExitCode::kDataLimit when 101 records in a row are bad, or 1000 are
  ///         too long
  void read(const Draw& draw, ReadSample& read) const;
  /// The shape of the first record in line whose text and image headers are good. Who reads the
  /// sample meets the others again, and counts them.
  [[nodiscard]] SampleShape describe(const Draw& draw) const;

 private:
  template <class Use>
  void find_usable(const Draw& draw, Passed& passed, const Use& use) const;

  const std::vector<std::unique_ptr<SourceFiles>>& sources_;
  const DataOrder& order_;
  const SampleEncoder& encoder_;
  config::TooLong too_long_;
};

}  // namespace tributary::data
