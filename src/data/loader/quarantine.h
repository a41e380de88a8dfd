#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"
#include "data/loader/loader_state.h"

namespace tributary::data {

/// A record that was not used, and the reason.
struct Rejection {
  RecordId id;
  std::string key;          // file:line
  std::int64_t offset = 0;  // of the line in its file [bytes]
  std::string beginning;    // SourceFiles::digest_beginning
  Refusal refusal;
};

/// The max number of bad records in a source of `records`: half of them, or `max_fraction` of them
/// if that is more.
[[nodiscard]] std::int64_t max_bad_of_source(std::int64_t records, double max_fraction);

/// Counts bad records, each once however often it is drawn, writes them to a file, and ends the run
/// when there are too many.
class Quarantine {
 public:
  /// units: max(at_least, max_fraction * records read) bad records are allowed; within one source,
  ///        as many as max_bad_of_source
  Quarantine(std::string path, double max_fraction, std::int64_t at_least);

  /// units:  good_records: different records used until now; source_records: all records of the
  ///         source
  /// errors: Fault::kInput with ExitCode::kDataLimit and the count of each reason, when the limit
  ///         is passed; Fault::kResource when the file cannot be written
  void add(const Rejection& rejection, std::int64_t good_records, std::int64_t source_records);

  [[nodiscard]] const std::vector<QuarantinedRecord>& records() const { return records_; }
  void restore(std::vector<QuarantinedRecord> records);
  /// "jpeg_warning 790, png_crc 22"
  [[nodiscard]] std::string summary() const;

 private:
  void write(const Rejection& rejection) const;
  void require_few(const Rejection& rejection, std::int64_t bad, const std::string& of,
                   std::int64_t max, const std::string& rule) const;

  std::string path_;
  double max_fraction_;
  std::int64_t at_least_;
  std::vector<QuarantinedRecord> records_;  // in the order found
  std::set<RecordId> known_;
  std::set<RecordId> written_;  // by this process, whatever it went back to
  std::map<std::int64_t, std::int64_t> bad_of_source_;
};

}  // namespace tributary::data
