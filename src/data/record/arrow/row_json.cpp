#include "data/record/arrow/row_json.h"

#include <algorithm>
#include <arrow/array.h>
#include <arrow/scalar.h>
#include <arrow/util/key_value_metadata.h>
#include <arrow/util/utf8.h>
#include <utility>

#include "data/record/media_files.h"

namespace tributary::data {
namespace {

/// Thrown to leave the reading of one row; caught only in read_row.
struct RowRefused {
  Refusal refusal;
};

/// The pictures of one row, by their names.
class RowPictures final : public MediaFiles {
 public:
  explicit RowPictures(std::shared_ptr<arrow::RecordBatch> rows) : rows_(std::move(rows)) {}

  void add(std::string name, std::string_view bytes) { pictures_[std::move(name)] = bytes; }

  bool holds(const std::string& path) const override { return pictures_.contains(path); }
  Result<std::vector<std::uint8_t>> read(const std::string& path) const override {
    return read_beginning(path, static_cast<std::size_t>(-1));
  }
  Result<std::vector<std::uint8_t>> read_beginning(const std::string& path,
                                                   std::size_t max) const override {
    const auto found = pictures_.find(path);
    if (found == pictures_.end())
      return Refusal{"missing_file", escaped(path) + " is not in the row"};
    const std::string_view bytes = found->second.substr(0, max);
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }

 private:
  std::shared_ptr<arrow::RecordBatch> rows_;  // keeps the bytes
  std::map<std::string, std::string_view> pictures_;
};

Json json_of(const arrow::Array& array, std::int64_t at, const std::string& place,
             RowPictures& pictures);

template <class Array>
Json text_at(const arrow::Array& array, std::int64_t at, const std::string& place) {
  const std::string_view text = static_cast<const Array&>(array).GetView(at);
  arrow::util::InitializeUTF8();
  if (!arrow::util::ValidateUTF8(text)) throw RowRefused{{"bad_utf8", place + " is not UTF-8"}};
  return std::string(text);
}

template <class Array>
Json picture_at(const arrow::Array& array, std::int64_t at, const std::string& place,
                RowPictures& pictures) {
  pictures.add(place, static_cast<const Array&>(array).GetView(at));
  return place;
}

template <class Array>
Json list_at(const arrow::Array& array, std::int64_t at, const std::string& place,
             RowPictures& pictures) {
  const auto& lists = static_cast<const Array&>(array);
  Json json = Json::array();
  for (std::int64_t i = 0; i < lists.value_length(at); ++i)
    json.push_back(
        json_of(*lists.values(), lists.value_offset(at) + i, str(place, "[", i, "]"), pictures));
  return json;
}

/// Whether a struct is a picture as `datasets` writes it: its bytes, its path, or both.
bool is_picture(const arrow::StructType& type) {
  return type.num_fields() == 2 && type.GetFieldIndex("bytes") >= 0 &&
         type.GetFieldIndex("path") >= 0;
}

Json struct_at(const arrow::Array& array, std::int64_t at, const std::string& place,
               RowPictures& pictures) {
  const auto& structs = static_cast<const arrow::StructArray&>(array);
  const auto& type = static_cast<const arrow::StructType&>(*array.type());
  if (is_picture(type)) {
    const auto bytes = structs.GetFieldByName("bytes");
    const auto path = structs.GetFieldByName("path");
    if (!bytes->IsNull(at)) return json_of(*bytes, at, place, pictures);
    return path->IsNull(at) ? Json() : json_of(*path, at, place, pictures);
  }
  Json json = Json::object();
  for (int i = 0; i < structs.num_fields(); ++i) {
    const std::string& name = type.field(i)->name();
    json[name] = json_of(*structs.field(i), at, str(place, ".", name), pictures);
  }
  return json;
}

Json json_of(const arrow::Array& array, std::int64_t at, const std::string& place,
             RowPictures& pictures) {
  using arrow::Type;
  if (array.IsNull(at)) return {};
  switch (array.type_id()) {
    case Type::NA:
      return {};
    case Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(at);
    case Type::INT8:
      return static_cast<const arrow::Int8Array&>(array).Value(at);
    case Type::INT16:
      return static_cast<const arrow::Int16Array&>(array).Value(at);
    case Type::INT32:
      return static_cast<const arrow::Int32Array&>(array).Value(at);
    case Type::INT64:
      return static_cast<const arrow::Int64Array&>(array).Value(at);
    case Type::UINT8:
      return static_cast<const arrow::UInt8Array&>(array).Value(at);
    case Type::UINT16:
      return static_cast<const arrow::UInt16Array&>(array).Value(at);
    case Type::UINT32:
      return static_cast<const arrow::UInt32Array&>(array).Value(at);
    case Type::UINT64:
      return static_cast<const arrow::UInt64Array&>(array).Value(at);
    case Type::FLOAT:
      return static_cast<const arrow::FloatArray&>(array).Value(at);
    case Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(at);
    case Type::STRING:
      return text_at<arrow::StringArray>(array, at, place);
    case Type::LARGE_STRING:
      return text_at<arrow::LargeStringArray>(array, at, place);
    case Type::STRING_VIEW:
      return text_at<arrow::StringViewArray>(array, at, place);
    case Type::BINARY:
      return picture_at<arrow::BinaryArray>(array, at, place, pictures);
    case Type::LARGE_BINARY:
      return picture_at<arrow::LargeBinaryArray>(array, at, place, pictures);
    case Type::BINARY_VIEW:
      return picture_at<arrow::BinaryViewArray>(array, at, place, pictures);
    case Type::LIST:
      return list_at<arrow::ListArray>(array, at, place, pictures);
    case Type::LARGE_LIST:
      return list_at<arrow::LargeListArray>(array, at, place, pictures);
    case Type::FIXED_SIZE_LIST:
      return list_at<arrow::FixedSizeListArray>(array, at, place, pictures);
    case Type::STRUCT:
      return struct_at(array, at, place, pictures);
    case Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return json_of(*words.dictionary(), words.GetValueIndex(at), place, pictures);
    }
    case Type::TIMESTAMP:
    case Type::DATE32:
    case Type::DATE64: {
      const auto scalar = array.GetScalar(at);
      if (scalar.ok()) return (*scalar)->ToString();
      break;
    }
    default:
      break;
  }
  throw RowRefused{{"bad_field", str(place, " is of the type ", array.type()->ToString(),
                                     ", which has no JSON; leave the column out")}};
}

}  // namespace

ClassNames read_classes(const arrow::Schema& schema) {
  ClassNames classes;
  if (schema.metadata() == nullptr) return classes;
  const auto text = schema.metadata()->Get("huggingface");
  if (!text.ok()) return classes;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const Json features =
      json.is_object() ? json.value("/info/features"_json_pointer, Json()) : Json();
  if (!features.is_object()) return classes;
  for (const auto& [column, feature] : features.items()) {
    if (!feature.is_object() || feature.value("_type", "") != "ClassLabel") continue;
    const Json names = feature.value("names", Json());
    if (names.is_array() &&
        std::ranges::all_of(names, [](const Json& name) { return name.is_string(); }))
      classes[column] = names.get<std::vector<std::string>>();
  }
  return classes;
}

Result<StoredRecord> read_row(const std::shared_ptr<arrow::RecordBatch>& rows, std::int64_t row,
                              const ClassNames& classes) {
  const auto pictures = std::make_shared<RowPictures>(rows);
  Json json = Json::object();
  try {
    for (int i = 0; i < rows->num_columns(); ++i) {
      const std::string& name = rows->schema()->field(i)->name();
      Json value = json_of(*rows->column(i), row, name, *pictures);
      const auto found = classes.find(name);
      if (found != classes.end() && value.is_number_integer() && value >= 0 &&
          value < found->second.size())
        value = found->second[value.get<std::size_t>()];
      json[name] = std::move(value);
    }
  } catch (const RowRefused& refused) {
    return refused.refusal;
  }
  return StoredRecord{.json = std::move(json), .inside = pictures};
}

}  // namespace tributary::data
