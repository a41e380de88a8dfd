#include "data/record/document_forms.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace tributary::data {
namespace {

bool has_pictures(const Json& root) {
  for (const char* key : {"image", "images", "video", "videos", "file_name"})
    if (const Json* value = find(root, key); value != nullptr && !says_nothing(*value)) return true;
  return false;
}

/// Ends a document: it has a text to learn.
void finish(std::vector<Part> parts, Record& record) {
  const bool has_words = std::ranges::any_of(parts, [](const Part& part) {
    const auto* text = std::get_if<std::string>(&part);
    return text != nullptr && text->find_first_not_of(" \t\r\n") != std::string::npos;
  });
  if (!has_words) refuse("empty_text", "document has no text");
  record.is_document = true;
  record.turns = {{Role::kAssistant, std::move(parts)}};
}

Part image_of(const Json& value, const std::string& where, Record& record) {
  record.images.push_back(text_of(value.is_object() ? member(value, "path", where) : value, where));
  return MediaReference{Modality::kImage, static_cast<int>(record.images.size()) - 1};
}

const Json& list_of(const Json& root, const char* key) {
  const Json& list = member(root, key, "record");
  if (!list.is_array())
    refuse("bad_field", str(key, " is of type ", list.type_name(), ", expected list"));
  return list;
}

/// OBELICS: at each place either a text or a picture.
void read_two_lists(const Json& root, Record& record) {
  const Json& texts = list_of(root, "texts");
  const Json& images = list_of(root, "images");
  if (texts.size() != images.size())
    refuse("bad_field",
           str(texts.size(), " texts and ", images.size(), " images, expected as many"));
  std::vector<Part> parts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].is_null() == images[i].is_null())
      refuse("bad_field", str("texts[", i, "] and images[", i, "]: expected one of them"));
    if (images[i].is_null()) {
      parts.emplace_back(text_of(texts[i], str("texts[", i, "]")));
    } else {
      parts.push_back(image_of(images[i], str("images[", i, "]"), record));
    }
  }
  finish(std::move(parts), record);
}

/// MMC4: each picture stands before the text that it matches; texts are joined by a space.
void read_matched_list(const Json& root, Record& record) {
  const Json& texts = list_of(root, "text_list");
  const Json& images = list_of(root, "image_info");
  std::multimap<std::size_t, std::size_t> before;  // text -> picture, in order
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::string where = str("image_info[", i, "]");
    const Json& index = member(images[i], "matched_text_index", where);
    if (!index.is_number_integer() || index < 0 || index >= texts.size())
      refuse("bad_field", str(where, ".matched_text_index = ", index.dump(), ", expected 0 to ",
                              static_cast<std::int64_t>(texts.size()) - 1));
    before.emplace(index.get<std::size_t>(), i);
  }
  std::vector<Part> parts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto [first, last] = before.equal_range(i);
    for (auto each = first; each != last; ++each) {
      const std::string where = str("image_info[", each->second, "]");
      parts.push_back(image_of(member(images[each->second], "image_name", where), where, record));
    }
    const std::string text = text_of(texts[i], str("text_list[", i, "]"));
    const bool joins = !parts.empty() && std::holds_alternative<std::string>(parts.back());
    if (joins) {
      std::get<std::string>(parts.back()) += " " + text;
    } else {
      parts.emplace_back(text);
    }
  }
  finish(std::move(parts), record);
}

}  // namespace

bool has_text(const Json& root) {
  const Json* text = find(root, "text");
  return text != nullptr && text->is_string() && !has_pictures(root);
}

void read_text(const Json& root, const RecordOptions&, Record& record) {
  refuse_unread(root, RecordObject::kDocument, "record", record);
  finish({text_of(member(root, "text", "record"), "text")}, record);
}

bool has_interleaved(const Json& root) {
  if (find(root, "texts") != nullptr && find(root, "images") != nullptr) return true;
  if (find(root, "text_list") != nullptr && find(root, "image_info") != nullptr) return true;
  const Json* text = find(root, "text");
  return text != nullptr && text->is_string() && has_pictures(root) &&
         text->get_ref<const std::string&>().find("<image>") != std::string::npos;
}

void read_interleaved(const Json& root, const RecordOptions&, Record& record) {
  refuse_unread(root, RecordObject::kDocument, "record", record);
  if (find(root, "texts") != nullptr) return read_two_lists(root, record);
  if (find(root, "text_list") != nullptr) return read_matched_list(root, record);
  ListedMedia media(root, record);
  std::vector<Part> parts = split_text(text_of(member(root, "text", "record"), "text"), media);
  media.check_counts();
  finish(std::move(parts), record);
}

}  // namespace tributary::data
