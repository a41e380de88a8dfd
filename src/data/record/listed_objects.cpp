#include "data/record/listed_objects.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/record/record_fields.h"

namespace tributary::data {
namespace {

const Json& as_list(const Json& value, const std::string& where) {
  if (!value.is_array())
    refuse("bad_field", str(where, " is of type ", value.type_name(), ", expected list"));
  return value;
}

/// A point or the corners of a box, the upper left one first.
std::vector<double> coordinates_of(const Json& value, const std::string& where) {
  std::vector<double> box;
  for (const Json& each : as_list(value, where)) {
    if (!each.is_number()) refuse("bad_field", where + " holds what is no number");
    box.push_back(each.get<double>());
  }
  if (box.size() != 2 && box.size() != 4)
    refuse("bad_field",
           str(where, " has ", box.size(), " numbers, expected x and y, or those of two corners"));
  if (box.size() == 4 && box[0] > box[2]) std::swap(box[0], box[2]);
  if (box.size() == 4 && box[1] > box[3]) std::swap(box[1], box[3]);
  return box;
}

bool is_relative(const Json& objects) {
  const Json* type = find(objects, "bbox_type");
  if (type == nullptr || *type == "real") return false;
  if (*type != "norm1")
    refuse("bad_field", str("objects.bbox_type = ",
                            escaped(type->is_string() ? type->get<std::string>() : type->dump()),
                            ", expected real or norm1"));
  return true;
}

}  // namespace

ListedObjects::ListedObjects(const Json& root, Record& record) : record_(record) {
  const Json* objects = find(root, "objects");
  if (objects == nullptr || says_nothing(*objects)) return;
  are_listed_ = true;
  if (!objects->is_object())
    refuse("bad_field", str("objects is of type ", objects->type_name(), ", expected object"));
  refuse_unread(*objects, RecordObject::kObjects, "objects", record);
  if (const Json* names = find(*objects, "ref"))
    for (const Json& name : as_list(*names, "objects.ref"))
      record_.object_names.push_back(
          text_of(name, str("objects.ref[", record_.object_names.size(), "]")));
  if (const Json* boxes = find(*objects, "bbox")) read_boxes(*boxes);
  if (const Json* images = find(*objects, "image_id"); images != nullptr && !images->empty())
    read_images(*images);
  for (Box& box : record_.boxes) box.is_relative = is_relative(*objects);
}

void ListedObjects::read_boxes(const Json& boxes) {
  for (const Json& box : as_list(boxes, "objects.bbox"))
    record_.boxes.push_back({coordinates_of(box, str("objects.bbox[", record_.boxes.size(), "]"))});
}

void ListedObjects::read_images(const Json& images) {
  if (as_list(images, "objects.image_id").size() != record_.boxes.size())
    refuse("bad_field", str("objects.image_id has ", images.size(), " numbers, objects.bbox has ",
                            record_.boxes.size(), " boxes"));
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (!images[i].is_number_unsigned())
      refuse("bad_field", str("objects.image_id[", i, "] is no number of an image, from 0"));
    record_.boxes[i].image = images[i].get<std::size_t>();
  }
}

ObjectReference ListedObjects::take(ObjectReference::Kind kind) {
  return {kind, kind == ObjectReference::Kind::kName ? names_asked_++ : boxes_asked_++};
}

void ListedObjects::check_counts() const {
  if (names_asked_ != std::ssize(record_.object_names))
    refuse("placeholder_count", str(names_asked_, " <ref-object> in the text, ",
                                    record_.object_names.size(), " names in objects.ref"));
  if (boxes_asked_ != std::ssize(record_.boxes))
    refuse("placeholder_count", str(boxes_asked_, " <bbox> in the text, ", record_.boxes.size(),
                                    " boxes in objects.bbox"));
  for (std::size_t i = 0; i < record_.boxes.size(); ++i)
    if (record_.boxes[i].image >= record_.images.size())
      refuse("bad_field", str("objects.bbox[", i, "] lies in image ", record_.boxes[i].image,
                              ", the record has ", record_.images.size(), " images"));
}

}  // namespace tributary::data
