#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file/safetensors.h"

namespace tributary {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian");

struct DtypeFacts {
  StoredDtype dtype;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<DtypeFacts, 15> kDtypes{{
    {StoredDtype::kBool, "BOOL", 1},
    {StoredDtype::kUint8, "U8", 1},
    {StoredDtype::kInt8, "I8", 1},
    {StoredDtype::kFloat8E4m3, "F8_E4M3", 1},
    {StoredDtype::kFloat8E5m2, "F8_E5M2", 1},
    {StoredDtype::kInt16, "I16", 2},
    {StoredDtype::kUint16, "U16", 2},
    {StoredDtype::kFloat16, "F16", 2},
    {StoredDtype::kBfloat16, "BF16", 2},
    {StoredDtype::kInt32, "I32", 4},
    {StoredDtype::kUint32, "U32", 4},
    {StoredDtype::kFloat32, "F32", 4},
    {StoredDtype::kInt64, "I64", 8},
    {StoredDtype::kUint64, "U64", 8},
    {StoredDtype::kFloat64, "F64", 8},
}};

constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kMaxDimensions = 64;

std::optional<StoredDtype> find_dtype(std::string_view name) {
  for (const DtypeFacts& facts : kDtypes)
    if (facts.name == name) return facts.dtype;
  return std::nullopt;
}

/// Reads the header's JSON token by token into tensors; nothing else is kept.
///
/// Levels: 1 the header, 2 a tensor or `__metadata__`, 3 a list of numbers.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string where, std::uint64_t data_start, std::uint64_t data_bytes)
      : where_(std::move(where)), data_start_(data_start), data_bytes_(data_bytes) {}

  SafetensorsHeader header;

  bool start_object(std::size_t) override {
    ++level_;
    if (level_ > 2) refuse("object is nested too deep", str("level ", level_));
    if (level_ == 2) {
      fields_ = {};
      tensor_ = {};
      tensor_.name = name_;
    }
    return true;
  }

  bool end_object() override {
    --level_;
    if (level_ == 1 && !in_metadata_) finish_tensor();
    if (level_ == 1) in_metadata_ = false;
    return true;
  }

  bool key(string_t& text) override {
    if (level_ == 1) {
      name_ = text;
      in_metadata_ = text == "__metadata__";
      if (in_metadata_ && std::exchange(saw_metadata_, true))
        refuse("key is given twice", escaped(text));
      if (!in_metadata_) check_name();
    } else if (in_metadata_) {
      field_name_ = text;
      if (header.metadata.contains(text)) refuse("key is given twice", escaped(text));
    } else {
      begin_field(text);
    }
    return true;
  }

  bool start_array(std::size_t) override {
    ++level_;
    if (level_ != 3 || in_metadata_ || field_ == Field::kDtype || in_list_)
      refuse("list where none belongs", escaped(name_));
    in_list_ = true;
    return true;
  }

  bool end_array() override {
    --level_;
    in_list_ = false;
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == 2 && in_metadata_) {
      header.metadata[field_name_] = text;
      return true;
    }
    if (level_ != 2 || field_ != Field::kDtype) refuse("value has the wrong type", escaped(text));
    const std::optional<StoredDtype> dtype = find_dtype(text);
    if (!dtype) refuse("unknown dtype", escaped(text));
    tensor_.dtype = *dtype;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (!in_list_) refuse("value has the wrong type", str(number));
    if (field_ == Field::kShape) {
      if (number > static_cast<std::uint64_t>(INT64_MAX))
        refuse("dimension is out of range", str(number));
      if (tensor_.shape.size() == kMaxDimensions)
        refuse("too many dimensions", str("more than ", kMaxDimensions));
      tensor_.shape.push_back(static_cast<std::int64_t>(number));
    } else {
      if (offsets_ == 2) refuse("data_offsets has more than two numbers", str(number));
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = number;
    }
    return true;
  }

  bool number_integer(number_integer_t number) override {
    refuse("number is negative", str(number));
  }
  bool number_float(number_float_t, const string_t& text) override {
    refuse("number is not whole or out of range", text);
  }
  bool null() override { refuse("value has the wrong type", "null"); }
  bool boolean(bool value) override {
    refuse("value has the wrong type", value ? "true" : "false");
  }
  bool binary(binary_t&) override { refuse("value has the wrong type", "binary"); }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception& broken) override {
    refuse("header is not valid JSON", str("byte ", 8 + byte, ", ", escaped(broken.what())));
  }

  [[noreturn]] void refuse(std::string_view what, const std::string& found) const {
    TRIB_RAISE(Fault::kInput, .what = str("safetensors: ", what),
               .where = name_.empty() ? where_ : str(where_, ", tensor ", escaped(name_)),
               .found = found);
  }

 private:
  enum class Field { kDtype, kShape, kOffsets };

  void check_name() const {
    if (name_.empty()) refuse("tensor name is empty", "\"\"");
    if (name_.size() > kLongestName)
      refuse("tensor name is too long", str(name_.size(), " bytes, at most ", kLongestName));
    for (const char letter : name_)
      if (static_cast<unsigned char>(letter) < 0x20)
        refuse("tensor name has a control character", escaped(name_));
    if (str("/", name_, "/").find("/../") != std::string::npos)
      refuse("tensor name climbs out of its directory", escaped(name_));
  }

  void begin_field(const std::string& text) {
    constexpr std::array<std::string_view, 3> kNames{"dtype", "shape", "data_offsets"};
    const auto* const at = std::find(kNames.begin(), kNames.end(), text);
    if (at == kNames.end()) refuse("unknown field", escaped(text));
    const auto index = static_cast<std::size_t>(at - kNames.begin());
    if (std::exchange(fields_[index], true)) refuse("key is given twice", escaped(text));
    field_ = static_cast<Field>(index);
    if (field_ == Field::kOffsets) offsets_ = 0;
  }

  /// Checks one tensor against its own shape and the file, and makes its offsets absolute.
  void finish_tensor() {
    if (!(fields_[0] && fields_[1] && fields_[2]) || offsets_ != 2)
      refuse("tensor lacks dtype, shape or data_offsets", escaped(name_));
    if (tensor_.end < tensor_.begin)
      refuse("data_offsets end before they begin", str(tensor_.begin, ", ", tensor_.end));
    if (tensor_.end > data_bytes_)
      refuse("data_offsets end past the file",
             str("end ", tensor_.end, ", data part ", data_bytes_, " bytes"));
    std::uint64_t bytes = element_bytes(tensor_.dtype);
    for (const std::int64_t size : tensor_.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
        refuse("shape overflows 64 bits", str("dimension ", size));
    if (tensor_.end - tensor_.begin != bytes)
      refuse("byte range does not match shape and dtype",
             str(tensor_.end - tensor_.begin, " bytes, shape x dtype = ", bytes));
    tensor_.begin += data_start_;
    tensor_.end += data_start_;
    header.tensors.push_back(std::move(tensor_));
  }

  std::string where_;
  std::uint64_t data_start_;
  std::uint64_t data_bytes_;
  int level_ = 0;
  bool in_metadata_ = false;
  bool saw_metadata_ = false;
  bool in_list_ = false;
  std::string name_;
  std::string field_name_;
  Field field_ = Field::kDtype;
  std::array<bool, 3> fields_{};
  int offsets_ = 0;
  StoredTensor tensor_;
};

/// Refuses names given twice, overlaps, holes and trailing bytes; sorts by place.
void check_coverage(SafetensorsHeader& header, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const StoredTensor& tensor : header.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  TRIB_REQUIRE(twice == names.end(), .what = "safetensors: tensor name is given twice",
               .where = where, .found = escaped(*twice));

  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::uint64_t covered = header.data_start;
  for (const StoredTensor& tensor : header.tensors) {
    TRIB_REQUIRE(tensor.begin >= covered, .what = "safetensors: tensors overlap",
                 .where = str(where, ", tensor ", escaped(tensor.name)),
                 .found = str("begins at byte ", tensor.begin),
                 .expected = str("byte ", covered, " or later"));
    TRIB_REQUIRE(tensor.begin == covered, .what = "safetensors: hole between tensors",
                 .where = str(where, ", tensor ", escaped(tensor.name)),
                 .found = str("begins at byte ", tensor.begin), .expected = str("byte ", covered));
    covered = tensor.end;
  }
  TRIB_REQUIRE(covered == header.file_bytes, .what = "safetensors: bytes after the last tensor",
               .where = where,
               .found = str("data ends at byte ", covered, ", file has ", header.file_bytes));
}

/// Reads N and checks it against the file. Returns where the data starts.
std::uint64_t checked_data_start(std::span<const std::byte> head, std::uint64_t file_bytes,
                                 const std::string& where) {
  TRIB_REQUIRE(file_bytes >= 8 && head.size() >= 8,
               .what = "safetensors: file is shorter than its length field", .where = where,
               .found = str(file_bytes, " bytes"), .expected = "at least 8 bytes");
  constexpr std::string_view kPointer = "version ";  // https://git-lfs.github.com/spec/v1
  TRIB_REQUIRE(std::memcmp(head.data(), kPointer.data(), kPointer.size()) != 0,
               .what = "safetensors: a pointer of Git LFS in place of the weights", .where = where,
               .found = str(file_bytes, " bytes"), .fix = "get the file itself: git lfs pull");
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), 8);
  TRIB_REQUIRE(length <= kMaxHeaderBytes, .what = "safetensors: header is longer than the limit",
               .where = where, .found = str("N = ", length, ", file ", file_bytes, " bytes"),
               .expected = str("N <= ", kMaxHeaderBytes));
  TRIB_REQUIRE(length <= file_bytes - 8, .what = "safetensors: header length exceeds the file",
               .where = where, .found = str("N = ", length, ", file ", file_bytes, " bytes"));
  TRIB_REQUIRE(length >= 2, .what = "safetensors: header is too short", .where = where,
               .found = str("N = ", length), .expected = "N >= 2");
  return 8 + length;
}

}  // namespace

std::uint64_t element_bytes(StoredDtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bytes;
}

std::string_view stored_name(StoredDtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

std::uint64_t TensorSpec::bytes() const {
  std::uint64_t count = element_bytes(dtype);
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head,
                                           std::uint64_t file_bytes, const std::string& where) {
  const std::uint64_t data_start = checked_data_start(head, file_bytes, where);
  TRIB_CHECK(head.size() >= data_start, .what = "safetensors: header bytes were not given",
             .where = where, .found = str(head.size(), " of ", data_start));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes of a text
  const char* text = reinterpret_cast<const char*>(head.data()) + 8;
  TRIB_REQUIRE(*text == '{', .what = "safetensors: header does not start with {", .where = where,
               .found = escaped(std::string_view(text, 1)));
  // The parser takes a NUL for the end of its input.
  TRIB_REQUIRE(std::memchr(text, 0, data_start - 8) == nullptr,
               .what = "safetensors: header has a NUL byte", .where = where);
  HeaderReader reader(where, data_start, file_bytes - data_start);
  (void)nlohmann::json::sax_parse(text, text + (data_start - 8), &reader);
  reader.header.data_start = data_start;
  reader.header.file_bytes = file_bytes;
  check_coverage(reader.header, where);
  return std::move(reader.header);
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  std::vector<std::byte> head(std::min<std::uint64_t>(8, file.bytes()));
  file.read_at(0, head);
  const std::uint64_t data_start = checked_data_start(head, file.bytes(), file.path());
  head.resize(data_start);
  file.read_at(8, std::span(head).subspan(8));
  return parse_safetensors_header(head, file.bytes(), file.path());
}

}  // namespace tributary
