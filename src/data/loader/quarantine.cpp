#include "data/loader/quarantine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "data/record/media_folder.h"

namespace tributary::data {

Quarantine::Quarantine(std::string path, double max_fraction, std::int64_t at_least)
    : path_(std::move(path)), max_fraction_(max_fraction), at_least_(at_least) {}

std::int64_t max_bad_of_source(std::int64_t records, double max_fraction) {
  return std::max(records / 2,
                  static_cast<std::int64_t>(max_fraction * static_cast<double>(records)));
}

void Quarantine::add(const Rejection& rejection, std::int64_t good_records,
                     std::int64_t source_records) {
  if (!known_.insert(rejection.id).second) return;
  records_.push_back({rejection.id, rejection.refusal.code});
  if (written_.insert(rejection.id).second) {
    write(rejection);
    log_warning(str("data: bad record: ", rejection.key, ", ", rejection.refusal.code, ": ",
                    rejection.refusal.reason, "; another one takes its place"));
  }
  const auto bad = std::ssize(records_);
  const std::int64_t records_read = good_records + bad;
  const auto allowed = std::max(
      at_least_, static_cast<std::int64_t>(max_fraction_ * static_cast<double>(records_read)));
  require_few(rejection, bad, str(records_read, " read"), allowed,
              str("at most ", max_fraction_ * 100, " % (data.bad_fraction), or ", at_least_,
                  " (data.bad_at_least)"));
  require_few(rejection, ++bad_of_source_[rejection.id.source],
              str(source_records, " of the source"),
              max_bad_of_source(source_records, max_fraction_),
              "at most half of the records of a source, or data.bad_fraction of them");
}

void Quarantine::require_few(const Rejection& rejection, std::int64_t bad, const std::string& of,
                             std::int64_t max, const std::string& rule) const {
  TRIB_REQUIRE(bad <= max, .what = "data: too many bad samples", .where = rejection.key,
               .found = str(bad, " of ", of, ": ", summary()), .expected = rule,
               .fix = path_.empty() ? std::string("repair the records")
                                    : "repair the records listed in " + path_,
               .exit = ExitCode::kDataLimit);
}

void Quarantine::write(const Rejection& rejection) const {
  if (path_.empty()) return;
  const Json line{{"key", rejection.key},
                  {"source", rejection.id.source},
                  {"record", rejection.id.record},
                  {"offset", rejection.offset},
                  {"beginning_sha256", rejection.beginning},
                  {"code", rejection.refusal.code},
                  {"reason", rejection.refusal.reason}};
  const std::string text =
      line.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
  const Descriptor file(
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  const bool written = file && ::write(file.get(), text.data(), text.size()) == std::ssize(text) &&
                       fsync(file.get()) == 0;
  if (!written)
    TRIB_RAISE(Fault::kResource, .what = "data: quarantine file cannot be written", .where = path_,
               .found = std::strerror(errno));
}

void Quarantine::restore(std::vector<QuarantinedRecord> records) {
  known_.clear();
  bad_of_source_.clear();
  for (const QuarantinedRecord& record : records) {
    known_.insert(record.id);
    ++bad_of_source_[record.id.source];
  }
  records_ = std::move(records);
}

std::string Quarantine::summary() const {
  std::string text;
  for (const auto& [code, count] : count_reasons(records_))
    text += str(text.empty() ? "" : ", ", code, " ", count);
  return text;
}

}  // namespace tributary::data
