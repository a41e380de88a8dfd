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

/// The name or the box of an object in a record's pictures, by its place in the record's list.
struct ObjectReference {
  enum class Kind { kName, kBox };
  Kind kind = Kind::kName;
  int index = 0;  // from 0, within the record's names or its boxes

  friend bool operator==(const ObjectReference&, const ObjectReference&) = default;
};

/// One control token of the family in the middle of a text.
struct ControlWord {
  std::string token;

  friend bool operator==(const ControlWord&, const ControlWord&) = default;
};

/// Text, or a picture in the middle of it. A record that was read has references to objects; the
/// words of a family stand in their place before it is encoded (loader/write_objects.h).
using Part = std::variant<std::string, MediaReference, ObjectReference, ControlWord>;

/// One turn of a speaker, with its parts in order.
struct Turn {
  Role role = Role::kUser;
  std::vector<Part> parts;
  bool is_learned = true;  // in an assistant turn: its tokens count in the loss

  friend bool operator==(const Turn&, const Turn&) = default;
};

}  // namespace tributary::data
