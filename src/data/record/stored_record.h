#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "core/json.h"

namespace tributary::data {

class MediaFiles;

/// A record as its container holds it: an object, and the pictures that lie in the container.
struct StoredRecord {
  Json json;
  std::shared_ptr<const MediaFiles> inside = {};  // null: no picture lies in the container
};

}  // namespace tributary::data
