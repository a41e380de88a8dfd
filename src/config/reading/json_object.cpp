#include "config/reading/json_object.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace tributary::config {
namespace {

std::string range_text(WholeRange range) {
  return str("a whole number from ", range.min, " to ", range.max);
}

bool is_whole(const Json& value, WholeRange range) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return false;
  const auto number = value.get<std::int64_t>();
  return number >= range.min && number <= range.max;
}

}  // namespace

JsonObject::JsonObject(const Json& object, std::string file, std::string path)
    : object_(&object), file_(std::move(file)), path_(std::move(path)) {
  TRIB_REQUIRE(object.is_object(), .what = "config: not a JSON object", .where = where(),
               .found = object.type_name(), .expected = "an object {...}");
}

std::string JsonObject::where(const std::string& key) const {
  const std::string path = path_.empty() || key.empty() ? path_ + key : path_ + "." + key;
  return path.empty() ? file_ : file_ + " " + path;
}

std::string JsonObject::found(const std::string& key) const {
  if (!object_->contains(key)) return "no such key";
  std::string text = object_->at(key).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 200 ? text : text.substr(0, 200) + "...";
}

void JsonObject::refuse_type(const std::string& key, const std::string& expected) const {
  TRIB_RAISE(Fault::kInput, .what = "config: value cannot be used", .where = where(key),
             .found = found(key), .expected = expected);
}

bool JsonObject::has(const std::string& key) const {
  return object_->contains(key) && !object_->at(key).is_null();
}

std::int64_t JsonObject::whole(const std::string& key, std::optional<std::int64_t> standard,
                               WholeRange range) const {
  if (!object_->contains(key) && standard) return *standard;
  if (!object_->contains(key) || !is_whole(object_->at(key), range))
    refuse_type(key, range_text(range));
  return object_->at(key).get<std::int64_t>();
}

std::int64_t JsonObject::whole_or_null(const std::string& key, std::int64_t standard,
                                       WholeRange range) const {
  return has(key) ? whole(key, std::nullopt, range) : standard;
}

double JsonObject::number(const std::string& key, double standard, double min) const {
  if (!object_->contains(key)) return standard;
  const Json& value = object_->at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < min)
    refuse_type(key, str("a finite number, at least ", min));
  return value.get<double>();
}

bool JsonObject::flag(const std::string& key, bool standard) const {
  if (!object_->contains(key)) return standard;
  if (!object_->at(key).is_boolean()) refuse_type(key, "true or false");
  return object_->at(key).get<bool>();
}

std::string JsonObject::text(const std::string& key, const std::string& standard) const {
  if (!object_->contains(key)) return standard;
  if (!object_->at(key).is_string()) refuse_type(key, "a text");
  return object_->at(key).get<std::string>();
}

std::vector<std::int64_t> JsonObject::wholes(const std::string& key,
                                             std::vector<std::int64_t> standard,
                                             WholeRange range) const {
  if (!object_->contains(key)) return standard;
  const std::string expected = str("a list of whole numbers from ", range.min, " to ", range.max);
  if (!object_->at(key).is_array()) refuse_type(key, expected);
  std::vector<std::int64_t> values;
  for (const Json& value : object_->at(key)) {
    if (!is_whole(value, range)) refuse_type(key, expected);
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

std::vector<std::array<std::int64_t, 2>> JsonObject::pairs(
    const std::string& key, std::vector<std::array<std::int64_t, 2>> standard,
    WholeRange range) const {
  if (!has(key)) return standard;
  const std::string expected =
      str("a list of pairs of whole numbers from ", range.min, " to ", range.max);
  if (!object_->at(key).is_array()) refuse_type(key, expected);
  std::vector<std::array<std::int64_t, 2>> values;
  for (const Json& pair : object_->at(key)) {
    const bool fits =
        pair.is_array() && pair.size() == 2 && is_whole(pair[0], range) && is_whole(pair[1], range);
    if (!fits) refuse_type(key, expected);
    values.push_back({pair[0].get<std::int64_t>(), pair[1].get<std::int64_t>()});
  }
  return values;
}

std::vector<std::string> JsonObject::texts(const std::string& key) const {
  if (!has(key)) return {};
  if (!object_->at(key).is_array()) refuse_type(key, "a list of texts");
  std::vector<std::string> values;
  for (const Json& value : object_->at(key)) {
    if (!value.is_string()) refuse_type(key, "a list of texts");
    values.push_back(value.get<std::string>());
  }
  return values;
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  if (!object_->at(key).is_object()) refuse_type(key, "an object {...}");
  return JsonObject(object_->at(key), file_, path_.empty() ? key : path_ + "." + key);
}

}  // namespace tributary::config
