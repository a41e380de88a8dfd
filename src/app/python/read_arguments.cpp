#include "app/python/read_arguments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/reading/artifact_object.h"

namespace tributary::app {
namespace {

using config::ArtifactObject;

constexpr JsonLimits kCall = {.max_bytes = std::size_t{256} << 20};  // documents included
constexpr config::WholeRange kWhole = {-(std::int64_t{1} << 53), std::int64_t{1} << 53};
constexpr double kAny = 1e300;

// Each overload reads one argument of the call and returns whether it counts as given. Ranges are
// checked later, by check_ranges.

bool read(ArtifactObject& object, const std::string& name, bool& value) {
  const bool standard = value;
  value = object.flag(name, standard);
  return value != standard;
}
bool read(ArtifactObject& object, const std::string& name, std::int64_t& value) {
  value = object.whole(name, value, kWhole);
  return true;
}
bool read(ArtifactObject& object, const std::string& name, double& value) {
  value = object.number(name, value, -kAny, kAny);
  return true;
}
bool read(ArtifactObject& object, const std::string& name, std::string& value) {
  value = object.text(name, value);
  return true;
}
bool read(ArtifactObject& object, const std::string& name, std::vector<std::string>& words) {
  const Json& list = *object.find(name);
  const bool is_words =
      list.is_array() &&
      std::all_of(list.begin(), list.end(), [](const Json& it) { return it.is_string(); });
  if (is_words) {
    words = list.get<std::vector<std::string>>();
  } else {
    object.refuse(name, "a list of texts");
  }
  return true;
}
bool read(ArtifactObject& object, const std::string& name, Document& document) {
  const Json& pair = *object.find(name);
  document = {
      .name = name, .is_path = pair.at(0).get<bool>(), .text = pair.at(1).get<std::string>()};
  return true;
}

}  // namespace

GivenOptions read_arguments(const std::string& function, const std::string& arguments,
                            std::span<const RequestField> fields, bool has_rows) {
  const Json json = parse_json(arguments, function, kCall);
  config::Problems problems;
  ArtifactObject object(json, function, "", problems);
  std::vector<std::string> given;
  if (has_rows) given.emplace_back("--lengths");
  for (const RequestField& field : fields) {
    if (!field.in_python || object.find(field.name) == nullptr) continue;
    const bool is_given =
        std::visit([&](auto* value) { return read(object, field.name, *value); }, field.value);
    if (is_given) given.push_back(given_name(field));
  }
  object.refuse_unknown();
  problems.raise_if_any(function);
  return GivenOptions([given] { return given; }, Caller::kPython);
}

}  // namespace tributary::app
