#pragma once

#include "core/json.h"
#include "data/record/record.h"

namespace tributary::data {

/// The objects that a record lists beside its text as `objects`, handed out in order: a name for
/// each `<ref-object>`, a box for each `<bbox>`.
class ListedObjects {
 public:
  /// errors: Refused when `objects` is not as it should be
  ListedObjects(const Json& root, Record& record);

  /// Whether the record has the key: without it the two words are plain text.
  [[nodiscard]] bool are_listed() const { return are_listed_; }
  [[nodiscard]] ObjectReference take(ObjectReference::Kind kind);
  /// errors: Refused when there are not as many placeholders as objects, or a box is in no image
  void check_counts() const;

 private:
  void read_boxes(const Json& boxes);
  void read_images(const Json& images);

  Record& record_;
  bool are_listed_ = false;
  int names_asked_ = 0;
  int boxes_asked_ = 0;
};

}  // namespace tributary::data
