#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::simulate {

/// A word between blanks, and its position.
struct WorkloadField {
  std::string_view text = {};
  std::int64_t column = 1;  // [bytes] from 1
};

/// A file of words, line by line; errors name their position. A leading byte order mark is skipped.
///
/// owns: nothing; the text must outlive it
class WorkloadText {
 public:
  WorkloadText(std::string_view text, const std::string& path) : rest_(text), path_(path) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  /// Goes to the next line; false at the end of the file.
  [[nodiscard]] bool next_line();
  [[nodiscard]] const std::vector<WorkloadField>& fields() const { return fields_; }
  [[nodiscard]] const WorkloadField& at(std::size_t field) const { return fields_[field]; }
  [[nodiscard]] std::int64_t line() const { return line_; }

  /// `file:line`, or also the column of a field.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] std::string where(std::size_t field) const;

  /// errors: Fault::kInput naming line, column and `name`
  [[nodiscard]] std::int64_t whole(std::size_t field, std::string_view name, std::int64_t min,
                                   std::int64_t max) const;
  [[nodiscard]] Nanoseconds time(std::size_t field, std::string_view name) const;

 private:
  /// Null where it is not a number, or above `max`.
  [[nodiscard]] std::optional<double> number(std::size_t field, std::int64_t max) const;

  std::string_view rest_;
  const std::string& path_;
  std::int64_t line_ = 0;  // from 1; 0 before the first
  std::vector<WorkloadField> fields_;
};

/// The longest time of a pass, and of a step.
inline constexpr std::int64_t kMaxWorkloadTime = 10'000'000'000'000;  // [ns]

}  // namespace tributary::simulate
