#include "app/answer/profile_model.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"

namespace tributary::app {
namespace {

/// A digest stands behind the model's name.
bool has_digest(const std::string& model, std::size_t digits) {
  return model.size() > digits && model[model.size() - digits - 1] == ' ' &&
         model.find_first_not_of("0123456789abcdef", model.size() - digits) == std::string::npos;
}

}  // namespace

void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model) {
  std::ifstream file(std::filesystem::path(model) / "config.json", std::ios::binary);
  if (!file) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string digest = config::model_digest(text);
  if (!has_digest(profile.model, digest.size())) return;
  TRIB_REQUIRE(profile.model.ends_with(digest), .what = "app: profile is of another model",
               .where = profile_name + " model", .found = profile.model,
               .expected = str("a name and ", digest, ", of ", model, "/config.json"),
               .fix = "measure this one: tributary profile");
}

}  // namespace tributary::app
