#include "app/report/run_files.h"

#include <fstream>
#include <iterator>

#include "core/error.h"

namespace tributary::app {

Fields::Fields(Json object, std::string where)
    : object_(std::move(object)), where_(std::move(where)) {
  TRIB_REQUIRE(object_.is_object(), .what = "report: not a JSON object", .where = where_,
               .found = object_.type_name(), .expected = "an object {...}");
}

const Json* Fields::find(const char* name) const {
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

MaybeNumber Fields::number(const char* name) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  require(field->is_number(), name, "a number");
  return field->get<double>();
}

std::string Fields::text(const char* name) const {
  const Json* field = find(name);
  if (field == nullptr) return "";
  require(field->is_string(), name, "a text");
  return field->get<std::string>();
}

bool Fields::flag(const char* name) const {
  const Json* field = find(name);
  if (field == nullptr) return false;
  require(field->is_boolean(), name, "true or false");
  return field->get<bool>();
}

std::map<std::string, double> Fields::numbers(const char* name) const {
  const Json* field = find(name);
  return field == nullptr ? std::map<std::string, double>{} : numbers_in(*field, name);
}

std::map<std::string, std::map<std::string, double>> Fields::tables(const char* name) const {
  std::map<std::string, std::map<std::string, double>> tables;
  const Json* field = find(name);
  if (field == nullptr) return tables;
  require(field->is_object(), name, "an object of objects");
  for (const auto& [key, value] : field->items()) tables[key] = numbers_in(value, name);
  return tables;
}

std::vector<std::string> Fields::texts(const char* name) const {
  std::vector<std::string> values;
  const Json* field = find(name);
  if (field == nullptr) return values;
  require(field->is_array(), name, "a list");
  for (const Json& item : *field)
    values.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return values;
}

std::vector<Fields> Fields::objects(const char* name) const {
  std::vector<Fields> values;
  const Json* field = find(name);
  if (field == nullptr) return values;
  require(field->is_array(), name, "a list of objects");
  for (const Json& item : *field) values.emplace_back(item, str(where_, " ", name));
  return values;
}

std::int64_t Fields::step() const {
  const Json* field = find("step");
  require(field != nullptr && field->is_number_integer(), "step", "a whole number");
  return field->get<std::int64_t>();
}

std::map<std::string, double> Fields::numbers_in(const Json& field, const char* name) const {
  std::map<std::string, double> values;
  require(field.is_object(), name, "an object of numbers");
  for (const auto& [key, value] : field.items()) {
    require(value.is_number() || value.is_null(), name, "an object of numbers");
    if (value.is_number()) values[key] = value.get<double>();
  }
  return values;
}

void Fields::require(bool holds, const char* name, const char* expected) const {
  TRIB_REQUIRE(
      holds, .what = "report: field cannot be read", .where = str(where_, " ", name),
      .found = object_.contains(name)
                   ? escaped(object_[name].dump(-1, ' ', false, Json::error_handler_t::replace))
                   : "no such field",
      .expected = expected);
}

bool read_lines(const std::string& path, const std::function<void(const Fields&)>& read) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return false;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;  // the run was killed while it wrote this line
    if (line.empty()) continue;
    const std::string where = str(path, ":", number);
    read(Fields(parse_json(line, where), where));
  }
  return true;
}

std::optional<std::string> read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tributary::app
