#include "config/reading/artifact_object.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/join.h"
#include "core/nearest_name.h"

namespace tributary::config {
namespace {

const Json& no_object() {
  static const Json empty = Json::object();
  return empty;
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 200 ? text : text.substr(0, 200) + "...";
}

}  // namespace

ArtifactObject::ArtifactObject(const Json& value, std::string file, std::string path,
                               Problems& problems)
    : value_(&value), file_(std::move(file)), path_(std::move(path)), problems_(&problems) {
  if (value.is_object()) return;
  problems.add({.what = "config: not a JSON object",
                .where = where(),
                .found = shown(value),
                .expected = "an object {...}"});
  value_ = &no_object();
}

std::string ArtifactObject::where(const std::string& key) const {
  const std::string path = path_.empty() || key.empty() ? path_ + key : path_ + "." + key;
  return path.empty() ? file_ : file_ + " " + path;
}

bool ArtifactObject::has(const std::string& key) const { return value_->contains(key); }

const Json* ArtifactObject::find(const std::string& key) {
  known_.insert(key);
  const auto found = value_->find(key);
  return found == value_->end() ? nullptr : &*found;
}

void ArtifactObject::refuse(const std::string& key, const std::string& expected) {
  problems_->add({.what = "config: value cannot be used",
                  .where = where(path_part(key)),
                  .found = has(key) ? shown(value_->at(key)) : "no such key",
                  .expected = expected});
}

bool ArtifactObject::is_missing(const std::string& key, bool optional,
                                const std::string& expected) {
  if (find(key) != nullptr) return false;
  if (!optional) refuse(key, expected);
  return true;
}

std::int64_t ArtifactObject::whole(const std::string& key, std::optional<std::int64_t> standard,
                                   WholeRange range) {
  const std::string expected = str("a whole number from ", range.min, " to ", range.max);
  if (is_missing(key, standard.has_value(), expected)) return standard.value_or(range.min);
  const Json& value = value_->at(key);
  const bool fits =
      value.is_number_integer() &&
      !(value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) &&
      value.get<std::int64_t>() >= range.min && value.get<std::int64_t>() <= range.max;
  if (fits) return value.get<std::int64_t>();
  refuse(key, expected);
  return range.min;
}

double ArtifactObject::number(const std::string& key, std::optional<double> standard, double min,
                              double max) {
  const std::string expected = str("a number from ", min, " to ", max);
  if (is_missing(key, standard.has_value(), expected)) return standard.value_or(min);
  const Json& value = value_->at(key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (number >= min && number <= max) return number;  // false for NaN
  refuse(key, expected);
  return min;
}

bool ArtifactObject::flag(const std::string& key, bool standard) {
  if (is_missing(key, true, "true or false")) return standard;
  if (value_->at(key).is_boolean()) return value_->at(key).get<bool>();
  refuse(key, "true or false");
  return standard;
}

std::string ArtifactObject::text(const std::string& key, std::optional<std::string> standard) {
  if (is_missing(key, standard.has_value(), "a text")) return standard.value_or("");
  if (value_->at(key).is_string()) return value_->at(key).get<std::string>();
  refuse(key, "a text");
  return standard.value_or("");
}

std::optional<std::size_t> ArtifactObject::choice_index(const std::string& key, bool optional,
                                                        const std::vector<std::string>& names) {
  std::string expected = "one of";
  for (const std::string& name : names) expected += " " + name;
  if (is_missing(key, optional, expected)) return std::nullopt;
  const Json& value = value_->at(key);
  const auto found = value.is_string()
                         ? std::find(names.begin(), names.end(), value.get<std::string>())
                         : names.end();
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  refuse(key, expected);
  return std::nullopt;
}

ArtifactObject ArtifactObject::object(const std::string& key, bool required) {
  const bool missing = is_missing(key, !required, "an object {...}");
  return ArtifactObject(missing ? no_object() : value_->at(key), file_,
                        (path_.empty() ? "" : path_ + ".") + path_part(key), *problems_);
}

std::vector<std::pair<std::string, ArtifactObject>> ArtifactObject::members() const {
  std::vector<std::pair<std::string, ArtifactObject>> members;
  for (const auto& [name, value] : value_->items())
    members.emplace_back(name,
                         ArtifactObject(value, file_, path_ + "." + path_part(name), *problems_));
  return members;
}

std::vector<ArtifactObject> ArtifactObject::items(const std::string& key) {
  std::vector<ArtifactObject> items;
  const Json* list = find(key);
  if (list == nullptr) return items;
  if (!list->is_array()) {
    refuse(key, "a list of objects");
    return items;
  }
  for (std::size_t i = 0; i < list->size(); ++i)
    items.emplace_back((*list)[i], file_, str(path_.empty() ? "" : path_ + ".", key, ".", i),
                       *problems_);
  return items;
}

void ArtifactObject::refuse_unknown() {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, value] : value_->items()) {
    if (known_.contains(key)) continue;
    const std::string nearest = nearest_name(key, known);
    problems_->add({.what = "config: unknown key",
                    .where = where(escaped(key)),
                    .expected = nearest.empty() ? "one of " + join(known) : "",
                    .fix = nearest.empty() ? "" : str("did you mean ", nearest, "?")});
  }
}

}  // namespace tributary::config
