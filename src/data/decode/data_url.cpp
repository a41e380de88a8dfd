#include "data/decode/data_url.h"

#include <array>

namespace tributary::data {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kForeign = 0xff;

constexpr std::array<std::uint8_t, 256> list_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kForeign);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return values;
}
constexpr std::array<std::uint8_t, 256> kValues = list_values();

}  // namespace

bool is_data_url(std::string_view text) { return text.starts_with("data:"); }

std::optional<std::vector<std::uint8_t>> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const std::string_view digits = text.substr(0, text.size() - padding);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t gathered = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::uint8_t value = kValues[static_cast<unsigned char>(digits[i])];
    if (value == kForeign) return std::nullopt;
    gathered = gathered << 6 | value;
    // A byte is complete after the second, third and fourth digit of each group of four.
    if (i % 4 != 0) bytes.push_back(static_cast<std::uint8_t>(gathered >> (6 - 2 * (i % 4))));
  }
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      text.push_back(i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=');
  }
  return text;
}

Result<std::vector<std::uint8_t>> decode_data_url(std::string_view url) {
  const std::size_t comma = url.find(',');
  const std::string_view head = url.substr(0, comma);
  const bool is_media = head.starts_with("data:image/") || head.starts_with("data:audio/");
  if (comma == std::string_view::npos || !is_media || !head.ends_with(";base64"))
    return Refusal{"bad_data_url",
                   str("data URL begins with ", escaped(url.substr(0, 40)),
                       ", expected data:image/...;base64, or data:audio/...;base64,")};
  auto bytes = decode_base64(url.substr(comma + 1));
  if (!bytes) return Refusal{"bad_data_url", "data URL does not hold base64 with padding"};
  return *std::move(bytes);
}

}  // namespace tributary::data
