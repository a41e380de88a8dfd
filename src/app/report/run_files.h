#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/report/run_record.h"
#include "core/json.h"

namespace tributary::app {

/// One JSON object of a file of a run.
///
/// errors: Fault::kInput where a field has another type; the message names file and line
class Fields {
 public:
  /// errors: Fault::kInput where it is no object
  Fields(Json object, std::string where);

  [[nodiscard]] const Json& object() const { return object_; }
  /// Null where the field is missing or null; the others then give nothing, "", false or none.
  [[nodiscard]] const Json* find(const char* name) const;
  [[nodiscard]] MaybeNumber number(const char* name) const;
  [[nodiscard]] std::string text(const char* name) const;
  [[nodiscard]] bool flag(const char* name) const;
  /// The numbers of an object; entries that are null are left out.
  [[nodiscard]] std::map<std::string, double> numbers(const char* name) const;
  [[nodiscard]] std::map<std::string, std::map<std::string, double>> tables(const char* name) const;
  /// The items of a list as texts; other items as their JSON.
  [[nodiscard]] std::vector<std::string> texts(const char* name) const;
  /// The objects of a list.
  [[nodiscard]] std::vector<Fields> objects(const char* name) const;
  /// errors: also where there is none
  [[nodiscard]] std::int64_t step() const;

 private:
  [[nodiscard]] std::map<std::string, double> numbers_in(const Json& field, const char* name) const;
  void require(bool holds, const char* name, const char* expected) const;

  Json object_;
  std::string where_;
};

/// Calls `read` for every complete line of a file; returns false when there is no such file.
bool read_lines(const std::string& path, const std::function<void(const Fields&)>& read);

/// Null when there is no such file.
[[nodiscard]] std::optional<std::string> read_whole(const std::string& path);

}  // namespace tributary::app
