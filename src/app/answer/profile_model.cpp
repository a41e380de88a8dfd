#include "app/answer/profile_model.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/sha256.h"

namespace tributary::app {
namespace {

constexpr std::size_t kDigits = 16;  // of the SHA-256 of config.json, behind the model's name

bool has_digits(const std::string& model) {
  return model.size() > kDigits && model[model.size() - kDigits - 1] == ' ' &&
         model.find_first_not_of("0123456789abcdef", model.size() - kDigits) == std::string::npos;
}

}  // namespace

void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model) {
  std::ifstream file(std::filesystem::path(model) / "config.json", std::ios::binary);
  if (!file || !has_digits(profile.model)) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string digits = sha256(text).substr(0, kDigits);
  TRIB_REQUIRE(profile.model.ends_with(digits), .what = "app: profile is of another model",
               .where = profile_name + " model", .found = profile.model,
               .expected = str("a name and ", digits, ", of ", model, "/config.json"),
               .fix = "measure this one: tributary profile");
}

}  // namespace tributary::app
