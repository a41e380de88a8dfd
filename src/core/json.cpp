#include "core/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"

namespace tributary {

Json parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  TRIB_REQUIRE(text.size() <= limits.most_bytes, .what = "json: text is larger than the limit",
               .where = std::string(where), .found = str(text.size(), " bytes"),
               .expected = str("at most ", limits.most_bytes, " bytes"));
  std::vector<std::set<std::string>> keys;  // of every open object
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    TRIB_REQUIRE(depth <= limits.most_depth, .what = "json: nested too deep",
                 .where = std::string(where), .expected = str("depth <= ", limits.most_depth));
    switch (event) {
      case Json::parse_event_t::object_start:
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        TRIB_REQUIRE(keys.back().insert(key).second, .what = "json: duplicate key",
                     .where = std::string(where), .found = escaped(key));
        break;
      }
      default:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& broken) {
    TRIB_RAISE(Fault::kInput, .what = "json: not valid JSON", .where = std::string(where),
               .found = broken.what());
  }
}

}  // namespace tributary
