#include "config/artifact/check_profile.h"

#include "core/error.h"

namespace tributary::config {

void check_profile_adapter(const Profile& profile, const std::string& adapter,
                           const std::string& where) {
  const auto words = [](const std::string& key) { return key.empty() ? "no adapters" : key; };
  TRIB_REQUIRE(profile.adapter == adapter,
               .what = "config: profile is of layers with other adapters",
               .where = where + " adapter", .found = words(profile.adapter),
               .expected = words(adapter), .fix = "measure this run: tributary profile");
}

}  // namespace tributary::config
