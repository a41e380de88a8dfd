#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/sample_shape.h"

namespace tributary::data {

enum class Role { kSystem, kUser, kAssistant };

/// One image, clip or sound of a record, by its place in the record's list of that modality.
struct MediaReference {
  Modality modality = Modality::kImage;
  int index = 0;  // from 0, within the record's images, its clips or its sounds

  friend bool operator==(const MediaReference&, const MediaReference&) = default;
};

/// Text, or a picture in the middle of it.
using Part = std::variant<std::string, MediaReference>;

/// One turn of a speaker, with its parts in order.
struct Turn {
  Role role = Role::kUser;
  std::vector<Part> parts;
  bool is_learned = true;  // in an assistant turn: its tokens count in the loss

  friend bool operator==(const Turn&, const Turn&) = default;
};

}  // namespace tributary::data
