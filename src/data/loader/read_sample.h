#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/loader/data_order.h"
#include "data/loader/quarantine.h"
#include "data/loader/sample_bytes.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/source_files.h"
#include "data/sample.h"

namespace tributary::data {

/// Where a sample of the data order comes from.
struct Draw {
  std::int64_t index = 0;
  int source = 0;
  std::int64_t position = 0;  // in the source, over all epochs
};

/// A sample of the data order, and the bad records that it stands in for.
struct ReadSample {
  EncodedSample sample;
  std::vector<Rejection> rejections;  // in the order tried
};

/// Reads what stands at a place of the data order: the first good one of the records that may.
/// Safe to call from any thread.
///
/// owns:   borrows all it is made from
/// errors: Fault::kInput with ExitCode::kDataLimit after 101 bad records in a row
class SampleReader {
 public:
  SampleReader(const std::vector<std::unique_ptr<SourceFiles>>& sources, const DataOrder& order,
               const SampleEncoder& encoder)
      : sources_(sources), order_(order), encoder_(encoder) {}

  /// Decodes and encodes into `read`, which has the records tried even where this raises.
  void read(const Draw& draw, ReadSample& read) const;
  /// The shape of the first record whose text and headers are good. Who reads the sample meets the
  /// others again, and counts them.
  [[nodiscard]] SampleShape describe(const Draw& draw) const;

 private:
  template <class Use>
  void find_good(const Draw& draw, std::vector<Rejection>& rejections, const Use& use) const;

  const std::vector<std::unique_ptr<SourceFiles>>& sources_;
  const DataOrder& order_;
  const SampleEncoder& encoder_;
};

/// Appends what a rank has read to its message for others.
void append_read(std::string& message, const ReadSample& read, MediaRows rows);

/// All that a message holds, in its order.
/// errors: Fault::kBug when it is cut
[[nodiscard]] std::vector<ReadSample> take_read(std::string_view message);

}  // namespace tributary::data
