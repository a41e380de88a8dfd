#include "app/report/embed_image.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBytesOfOne = std::uintmax_t{8} << 20;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// The media type by the first bytes of the file; empty where it is neither PNG nor JPEG.
std::string media_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("\xFF\xD8\xFF")) return "image/jpeg";
  return "";
}

/// Whether a data URL has the form that can only hold an image.
bool is_image_url(std::string_view url) {
  for (const std::string_view start : {"data:image/png;base64,", "data:image/jpeg;base64,"}) {
    if (!url.starts_with(start)) continue;
    url.remove_prefix(start.size());
    return std::all_of(url.begin(), url.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '+' || c == '/' || c == '=';
    });
  }
  return false;
}

}  // namespace

ImageEmbedder::ImageEmbedder(std::string directory, std::size_t max_bytes)
    : directory_(std::move(directory)), bytes_left_(max_bytes) {}

Result<std::string> ImageEmbedder::embed(const std::string& image) {
  std::string url;
  if (image.starts_with("data:")) {
    if (!is_image_url(image)) return Refusal{"data_url", "data URL is no PNG or JPEG in base64"};
    url = image;
  } else {
    const fs::path path = fs::path(directory_) / image;
    std::error_code failure;
    if (!fs::is_regular_file(path, failure)) return Refusal{"missing", "image not found: " + image};
    if (fs::file_size(path, failure) > kMaxBytesOfOne)
      return Refusal{"too_large", "image is larger than 8 MiB: " + image};
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::string type = media_type(bytes);
    if (type.empty()) return Refusal{"not_an_image", "neither PNG nor JPEG: " + image};
    url = "data:" + type + ";base64," + base64(bytes);
  }
  if (url.size() > bytes_left_) return Refusal{"page_full", "left out to keep the page small"};
  bytes_left_ -= url.size();
  return url;
}

}  // namespace tributary::app
