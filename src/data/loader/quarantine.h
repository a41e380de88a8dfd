#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/loader/loader.h"

namespace tributary::data {

/// Why one record was not used.
struct Rejection {
  RecordId id;
  std::string key;          // file:line
  std::int64_t offset = 0;  // of the line in its file [bytes]
  std::string beginning;    // SourceFiles::digest_beginning
  Refusal refusal;
};

/// Counts bad records, each once however often it is drawn, writes them down, and ends the run when
/// they are too many.
class Quarantine {
 public:
  /// units: bad records may be `most_fraction` of the records read, but always `at_least`
  Quarantine(std::string path, double most_fraction, std::int64_t at_least);

  /// units:  `good_records` were read and used until now, each counted once
  /// errors: Fault::kInput with ExitCode::kDataLimit and the count of each reason, when the limit
  ///         is passed; Fault::kResource when the file cannot be written
  void add(const Rejection& rejection, std::int64_t good_records);

  [[nodiscard]] const std::vector<RecordId>& records() const { return records_; }
  [[nodiscard]] const std::map<std::string, std::int64_t>& counts() const { return counts_; }
  /// Without those that were restored.
  [[nodiscard]] const std::map<std::string, std::int64_t>& new_counts() const {
    return new_counts_;
  }
  void restore(std::vector<RecordId> records, std::map<std::string, std::int64_t> counts);
  /// "jpeg_warning 790, png_crc 22"
  [[nodiscard]] std::string summary() const;

 private:
  void write(const Rejection& rejection) const;

  std::string path_;
  double most_fraction_;
  std::int64_t at_least_;
  std::vector<RecordId> records_;  // in the order found
  std::set<RecordId> known_;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::string, std::int64_t> new_counts_;
};

}  // namespace tributary::data
