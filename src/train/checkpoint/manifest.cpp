#include "train/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/json.h"
#include "core/sha256.h"

namespace tributary::train {
namespace {

constexpr const char* kFormat = "tributary-checkpoint";
constexpr std::int64_t kMajor = 1;
constexpr const char* kNoCrc = "00000000";

Json chunk_to_json(const ManifestChunk& chunk) {
  return {{"file", chunk.file},
          {"begin", chunk.begin},
          {"end", chunk.end},
          {"offsets", chunk.box.offsets},
          {"lengths", chunk.box.lengths}};
}

Json file_to_json(const ManifestFile& file) {
  Json blocks = Json::array();
  for (const std::uint32_t crc : file.block_crc32c) blocks.push_back(crc_text(crc));
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"data_start", file.data_start},
          {"crc32c", crc_text(file.crc32c)},
          {"block_crc32c", blocks}};
}

std::string canonical(const Json& json) { return json.dump(-1, ' ', /*ensure_ascii=*/true); }

/// Reads the fields of one object and says which is missing or of the wrong type.
class ObjectReader {
 public:
  ObjectReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    TRIB_REQUIRE(json.is_object(), .what = "checkpoint: manifest entry is no object",
                 .where = where_);
  }

  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = json_.find(key);
    TRIB_REQUIRE(found != json_.end(), .what = "checkpoint: manifest lacks a field",
                 .where = where_, .found = str("no \"", key, "\""));
    return *found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    require_type(value.is_string(), key, value, "text");
    return value.get<std::string>();
  }
  [[nodiscard]] std::int64_t count(const char* key) const { return as_count(at(key), key); }
  [[nodiscard]] std::uint32_t crc(const char* key) const { return as_crc(at(key), key); }
  [[nodiscard]] const Json& list(const char* key) const {
    const Json& value = at(key);
    require_type(value.is_array(), key, value, "a list");
    return value;
  }
  [[nodiscard]] std::vector<std::int64_t> counts(const char* key) const {
    std::vector<std::int64_t> values;
    for (const Json& value : list(key)) values.push_back(as_count(value, key));
    return values;
  }
  [[nodiscard]] std::vector<std::uint32_t> crcs(const char* key) const {
    std::vector<std::uint32_t> values;
    for (const Json& value : list(key)) values.push_back(as_crc(value, key));
    return values;
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  void require_type(bool right, const char* key, const Json& value, const char* type) const {
    TRIB_REQUIRE(right, .what = "checkpoint: manifest field has the wrong type",
                 .where = str(where_, ", ", key), .found = escaped(value.dump()), .expected = type);
  }
  [[nodiscard]] std::int64_t as_count(const Json& value, const char* key) const {
    require_type(value.is_number_unsigned() &&
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX),
                 key, value, "a whole number, not negative");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] std::uint32_t as_crc(const Json& value, const char* key) const {
    require_type(value.is_string(), key, value, "text");
    const auto& digits = value.get_ref<const std::string&>();
    std::uint32_t crc = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), crc, 16);
    require_type(
        error == std::errc() && end == digits.data() + digits.size() && crc_text(crc) == digits,
        key, value, "eight hexadecimal digits");
    return crc;
  }

  const Json& json_;
  std::string where_;
};

/// `model/x`, `optim/x` or `extra/x`, x being a plain file name.
bool is_plain_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return false;
  const std::string folder = name.substr(0, slash);
  const std::string file = name.substr(slash + 1);
  const auto is_plain = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
  };
  return (folder == "model" || folder == "optim" || folder == "extra") && !file.empty() &&
         file.front() != '.' && std::all_of(file.begin(), file.end(), is_plain);
}

ManifestFile parse_file(const Json& json, const std::string& where) {
  const ObjectReader entry(json, where);
  ManifestFile file{.name = entry.text("name"),
                    .bytes = static_cast<std::uint64_t>(entry.count("bytes")),
                    .data_start = static_cast<std::uint64_t>(entry.count("data_start")),
                    .crc32c = entry.crc("crc32c"),
                    .block_crc32c = entry.crcs("block_crc32c")};
  TRIB_REQUIRE(is_plain_name(file.name), .what = "checkpoint: manifest names a file outside",
               .where = where, .found = escaped(file.name),
               .expected = "a plain name below model/, optim/ or extra/");
  const std::uint64_t blocks = file.bytes / kChecksumBlock + (file.bytes % kChecksumBlock != 0);
  TRIB_REQUIRE(file.block_crc32c.size() == blocks && file.data_start <= file.bytes,
               .what = "checkpoint: manifest file does not add up",
               .where = str(where, ", ", file.name),
               .found = str(file.block_crc32c.size(), " block checksums, ", file.bytes, " bytes"),
               .expected = str(blocks, " block checksums"));
  std::uint32_t whole = 0;
  for (std::size_t i = 0; i < file.block_crc32c.size(); ++i)
    whole = combine_crc32c(whole, file.block_crc32c[i],
                           std::min(kChecksumBlock, file.bytes - i * kChecksumBlock));
  TRIB_REQUIRE(whole == file.crc32c, .what = "checkpoint: manifest checksums do not add up",
               .where = str(where, ", ", file.name), .found = crc_text(whole),
               .expected = crc_text(file.crc32c));
  return file;
}

ManifestChunk parse_chunk(const Json& json, const ManifestTensor& tensor,
                          const std::vector<ManifestFile>& files, const std::string& where) {
  const ObjectReader entry(json, where);
  ManifestChunk chunk{.file = entry.count("file"),
                      .begin = static_cast<std::uint64_t>(entry.count("begin")),
                      .end = static_cast<std::uint64_t>(entry.count("end")),
                      .box = {entry.counts("offsets"), entry.counts("lengths")}};
  TRIB_REQUIRE(chunk.file < static_cast<std::int64_t>(files.size()),
               .what = "checkpoint: chunk names no file of the manifest", .where = where,
               .found = str("file ", chunk.file), .expected = str("below ", files.size()));
  TRIB_REQUIRE(lies_in(chunk.box, tensor.shape),
               .what = "checkpoint: chunk lies outside its tensor", .where = where,
               .found = str("offsets ", Json(chunk.box.offsets).dump(), ", lengths ",
                            Json(chunk.box.lengths).dump()),
               .expected = str("within ", Json(tensor.shape).dump()));
  const ManifestFile& file = files[static_cast<std::size_t>(chunk.file)];
  TRIB_REQUIRE(
      file.data_start <= chunk.begin && chunk.begin <= chunk.end && chunk.end <= file.bytes,
      .what = "checkpoint: chunk lies outside its file", .where = where,
      .found = str("bytes ", chunk.begin, "-", chunk.end),
      .expected = str("within ", file.data_start, "-", file.bytes, " of ", file.name));
  // The tensor's volume was checked, and the chunk's is no larger.
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(*volume(chunk.box.lengths)) * element_bytes(tensor.dtype);
  TRIB_REQUIRE(chunk.end - chunk.begin == bytes,
               .what = "checkpoint: chunk's bytes do not match its lengths", .where = where,
               .found = str(chunk.end - chunk.begin, " bytes"), .expected = str(bytes, " bytes"));
  return chunk;
}

StoredDtype parse_dtype(const std::string& name, const std::string& where) {
  for (int i = 0; i <= static_cast<int>(StoredDtype::kFloat64); ++i)
    if (stored_name(static_cast<StoredDtype>(i)) == name) return static_cast<StoredDtype>(i);
  TRIB_RAISE(Fault::kInput, .what = "checkpoint: unknown dtype", .where = where,
             .found = escaped(name));
}

ManifestTensor parse_tensor(const Json& json, const std::vector<ManifestFile>& files,
                            const std::string& name, const std::string& where, Scope scope) {
  const ObjectReader entry(json, where);
  ManifestTensor tensor{.dtype = parse_dtype(entry.text("dtype"), where),
                        .shape = entry.counts("shape"),
                        .chunks = {}};
  const std::optional<std::int64_t> elements = volume(tensor.shape);
  TRIB_REQUIRE(elements && *elements <= INT64_MAX / 8,
               .what = "checkpoint: shape overflows 64 bits", .where = where,
               .found = Json(tensor.shape).dump());
  for (const Json& chunk : entry.list("chunks"))
    tensor.chunks.push_back(parse_chunk(chunk, tensor, files, where));
  check_coverage(name, tensor, where, scope);
  return tensor;
}

/// Two chunks may not claim the same bytes of a file.
void check_places(const Manifest& manifest, const std::string& where) {
  struct Claim {
    std::int64_t file;
    std::uint64_t begin;
    std::uint64_t end;
    const std::string* name;
  };
  std::vector<Claim> claims;
  for (const auto& [name, tensor] : manifest.tensors)
    for (const ManifestChunk& chunk : tensor.chunks)
      if (chunk.begin < chunk.end) claims.push_back({chunk.file, chunk.begin, chunk.end, &name});
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
    return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
  });
  for (std::size_t i = 1; i < claims.size(); ++i)
    TRIB_REQUIRE(claims[i - 1].file != claims[i].file || claims[i - 1].end <= claims[i].begin,
                 .what = "checkpoint: tensors share bytes of a file", .where = where,
                 .found = str(*claims[i - 1].name, " and ", *claims[i].name));
}

/// Checks format, version, canonical form and the text's own checksum.
Json parse_envelope(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, {.max_bytes = std::size_t{1} << 30});
  const ObjectReader entry(json, where);
  TRIB_REQUIRE(entry.text("format") == kFormat, .what = "checkpoint: manifest of another format",
               .where = where, .found = escaped(entry.text("format")), .expected = kFormat);
  const std::vector<std::int64_t> version = entry.counts("version");
  TRIB_REQUIRE(version.size() == 2 && version[0] == kMajor,
               .what = "checkpoint: manifest version is not known", .where = where,
               .found = entry.at("version").dump(), .expected = str("[", kMajor, ",*]"),
               .fix = "read it with the release that wrote it");
  Json without = json;
  without["self_crc"] = kNoCrc;
  const std::string canonical_text = canonical(without);
  const std::string own = crc_text(crc32c(std::as_bytes(std::span(canonical_text))));
  TRIB_REQUIRE(entry.text("self_crc") == own, .what = "checkpoint: manifest checksum differs",
               .where = where, .found = own, .expected = entry.text("self_crc"));
  TRIB_REQUIRE(canonical(json) == text, .what = "checkpoint: manifest is not in canonical form",
               .where = where);
  return json;
}

}  // namespace

void check_coverage(const std::string& name, const ManifestTensor& tensor, const std::string& where,
                    Scope scope) {
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i) {
    covered += *volume(tensor.chunks[i].box.lengths);
    for (std::size_t j = 0; j < i; ++j)
      TRIB_REQUIRE(
          *volume(tensor.shape) == 0 || !intersect(tensor.chunks[i].box, tensor.chunks[j].box),
          .what = "checkpoint: chunks of a tensor overlap",
          .where = str(where, ", ", escaped(name)), .found = str("chunks ", j, ", ", i));
  }
  TRIB_REQUIRE(
      (covered == *volume(tensor.shape) || scope == Scope::kRank) && !tensor.chunks.empty(),
      .what = "checkpoint: tensor not fully covered",
      .where = str(where, ", ", escaped(name), " ", Json(tensor.shape).dump()),
      .found = str(covered, " of ", *volume(tensor.shape), " elements"));
}

std::string digest_model(const std::map<std::string, ManifestTensor>& tensors) {
  std::string lines;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("model/"))
      lines += str(name, " ", stored_name(tensor.dtype), " ", Json(tensor.shape).dump(), "\n");
  return sha256(lines);
}

std::string write_manifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) files.push_back(file_to_json(file));
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) {
    Json chunks = Json::array();
    for (const ManifestChunk& chunk : tensor.chunks) chunks.push_back(chunk_to_json(chunk));
    tensors[name] = {{"dtype", std::string(stored_name(tensor.dtype))},
                     {"shape", tensor.shape},
                     {"chunks", chunks}};
  }
  Json json{{"format", kFormat},
            {"version", {kMajor, 0}},
            {"job", manifest.job},
            {"incarnation", manifest.incarnation},
            {"step", manifest.step},
            {"layout", {{"world", manifest.world}}},
            {"config_sha256", manifest.config_sha256},
            {"model_sha256", manifest.model_sha256},
            {"score", manifest.score},
            {"endian", "little"},
            {"files", files},
            {"tensors", tensors},
            {"self_crc", kNoCrc}};
  const std::string text = canonical(json);
  json["self_crc"] = crc_text(crc32c(std::as_bytes(std::span(text))));
  return canonical(json);
}

Manifest parse_manifest(std::string_view text, const std::string& where, Scope scope) {
  const Json json = parse_envelope(text, where);
  const ObjectReader entry(json, where);
  TRIB_REQUIRE(entry.text("endian") == "little", .what = "checkpoint: foreign byte order",
               .where = where, .found = escaped(entry.text("endian")), .expected = "little");
  Manifest manifest{.job = entry.text("job"),
                    .incarnation = entry.count("incarnation"),
                    .step = entry.count("step"),
                    .world = ObjectReader(entry.at("layout"), where + ", layout").count("world"),
                    .config_sha256 = entry.text("config_sha256"),
                    .model_sha256 = entry.text("model_sha256"),
                    .score = entry.text("score"),
                    .files = {},
                    .tensors = {}};
  std::set<std::string> names;
  for (const Json& file : entry.list("files")) {
    manifest.files.push_back(parse_file(file, str(where, ", file ", manifest.files.size())));
    TRIB_REQUIRE(names.insert(manifest.files.back().name).second,
                 .what = "checkpoint: manifest names a file twice", .where = where,
                 .found = manifest.files.back().name);
  }
  TRIB_REQUIRE(entry.at("tensors").is_object(), .what = "checkpoint: manifest entry is no object",
               .where = where + ", tensors");
  for (const auto& [name, tensor] : entry.at("tensors").items())
    manifest.tensors[name] =
        parse_tensor(tensor, manifest.files, name, str(where, ", tensor ", escaped(name)), scope);
  check_places(manifest, where);
  TRIB_REQUIRE(digest_model(manifest.tensors) == manifest.model_sha256,
               .what = "checkpoint: model digest differs from the tensors listed", .where = where,
               .found = digest_model(manifest.tensors), .expected = manifest.model_sha256);
  return manifest;
}

}  // namespace tributary::train
