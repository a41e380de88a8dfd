#include "data/record/tar_file.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cctype>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/error.h"
#include "data/record/media_files.h"
#include "data/record/picture_folder.h"
#include "data/record/record.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMaxTextBytes = std::int64_t{16} << 20;
constexpr std::int64_t kMaxPictureBytes = std::int64_t{512} << 20;

/// What libarchive reads from: the bytes from a place on.
struct Reading {
  const ByteFile& file;
  std::int64_t bytes;  // of the whole, decompressed
  std::int64_t at = 0;
  std::string block = {};
};

la_ssize_t read_block(archive* tar, void* data, const void** block) {
  auto& reading = *static_cast<Reading*>(data);
  const std::int64_t count = std::min(kBlockBytes, reading.bytes - reading.at);
  Result<std::string> got = reading.file.read(reading.at, static_cast<std::size_t>(count));
  if (!got) {
    archive_set_error(tar, EIO, "%s", got.refusal().reason.c_str());
    return ARCHIVE_FATAL;
  }
  reading.block = std::move(got).value();
  reading.at += count;
  *block = reading.block.data();
  return static_cast<la_ssize_t>(reading.block.size());
}

la_int64_t skip_bytes(archive*, void* data, la_int64_t count) {
  auto& reading = *static_cast<Reading*>(data);
  const std::int64_t skipped = std::min<std::int64_t>(count, reading.bytes - reading.at);
  reading.at += skipped;
  return skipped;
}

struct CloseArchive {
  void operator()(archive* tar) const { archive_read_free(tar); }
};

/// Where a name's extension begins: at the first dot of the last part of its path.
std::size_t find_dot(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return std::min(name.find('.', slash == std::string::npos ? 0 : slash + 1), name.size());
}

std::string_view stem_of(const std::string& name) {
  return std::string_view(name).substr(0, find_dot(name));
}

std::string extension_of(const std::string& name) {
  std::string extension = name.substr(std::min(find_dot(name) + 1, name.size()));
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

/// The pictures among the members of one sample, by their whole name, that of their file, or their
/// extension.
class SamplePictures final : public MediaFiles {
 public:
  SamplePictures(std::shared_ptr<const ByteFile> file, std::vector<TarMember> members)
      : file_(std::move(file)), members_(std::move(members)) {}

  bool holds(const std::string& path) const override { return find(path) != nullptr; }
  Result<std::vector<std::uint8_t>> read(const std::string& path) const override {
    return read_beginning(path, static_cast<std::size_t>(kMaxPictureBytes));
  }
  Result<std::vector<std::uint8_t>> read_beginning(const std::string& path,
                                                   std::size_t max) const override {
    const TarMember* member = find(path);
    if (member == nullptr) return Refusal{"missing_file", escaped(path) + " is not in the sample"};
    if (member->bytes > kMaxPictureBytes)
      return Refusal{"too_large", str(escaped(path), " has ", member->bytes, " bytes, limit ",
                                      kMaxPictureBytes)};
    const Result<std::string> got =
        file_->read(member->offset, std::min(max, static_cast<std::size_t>(member->bytes)));
    if (!got) return got.refusal();
    return std::vector<std::uint8_t>(got.value().begin(), got.value().end());
  }

 private:
  const TarMember* find(const std::string& path) const {
    for (const TarMember& member : members_)
      if (path == member.name || path == member.extension ||
          path == member.name.substr(member.name.rfind('/') + 1))
        return &member;
    return nullptr;
  }

  std::shared_ptr<const ByteFile> file_;
  std::vector<TarMember> members_;
};

[[noreturn]] void refuse_archive(const ByteFile& file, const std::string& found) {
  TRIB_RAISE(Fault::kInput, .what = "data: tar archive is damaged or of a kind that is not read",
             .where = file.path(), .found = found, .expected = "a tar archive of plain files",
             .fix = str("tar -tf ", file.path(), " lists it; write it again with tar"));
}

/// Removes what the text of a `.txt` member says once more, as img2dataset writes it.
void add_text(Json& json, const char* key, std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (const auto caption = json.find("caption"); caption != json.end() && *caption == text)
    json.erase(caption);
  json[key] = std::move(text);
}

}  // namespace

TarFile::TarFile(std::unique_ptr<ByteFile> file) : file_(std::move(file)) {
  index_members();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (samples_.empty() ||
        stem_of(members_[samples_.back().begin].name) != stem_of(members_[i].name))
      samples_.push_back({i, i});
    samples_.back().end = i + 1;
  }
  TRIB_REQUIRE(!samples_.empty(), .what = "data: tar archive holds no sample", .where = path(),
               .found = str(bytes(), " bytes"), .expected = "files such as 0001.jpg and 0001.json");
}

void TarFile::index_members() {
  Reading reading{.file = *file_, .bytes = 0};
  file_->scan([&](std::string_view block) { reading.bytes += std::ssize(block); });
  const std::unique_ptr<archive, CloseArchive> tar(archive_read_new());
  archive_read_support_format_tar(tar.get());
  archive_read_set_read_callback(tar.get(), read_block);
  archive_read_set_skip_callback(tar.get(), skip_bytes);
  archive_read_set_callback_data(tar.get(), &reading);
  if (archive_read_open1(tar.get()) != ARCHIVE_OK)
    refuse_archive(*file_, archive_error_string(tar.get()));
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = archive_read_next_header(tar.get(), &entry);
    if (status == ARCHIVE_EOF) return;
    if (status != ARCHIVE_OK) refuse_archive(*file_, archive_error_string(tar.get()));
    const char* name = archive_entry_pathname(entry);
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
        archive_entry_sparse_count(entry) > 0 || name == nullptr)
      refuse_archive(*file_, str("member ", escaped(name == nullptr ? "" : name),
                                 " is a link, a device, or has holes"));
    TarMember member{.name = name,
                     .extension = extension_of(name),
                     .offset = archive_filter_bytes(tar.get(), 0),
                     .bytes = archive_entry_size(entry)};
    if (member.offset + member.bytes > reading.bytes)
      refuse_archive(*file_, str("member ", escaped(member.name), " ends beyond the archive"));
    members_.push_back(std::move(member));
  }
}

Result<std::string> TarFile::text_of(const TarMember& member) const {
  if (member.bytes > kMaxTextBytes)
    return Refusal{"line_too_long",
                   str(member.name, " has ", member.bytes, " bytes, limit ", kMaxTextBytes)};
  return file_->read(member.offset, static_cast<std::size_t>(member.bytes));
}

Result<StoredRecord> TarFile::read(std::int64_t record) const {
  const Sample& sample = samples_[static_cast<std::size_t>(record)];
  Json json = Json::object();
  Json pictures = Json::array();
  std::vector<TarMember> inside;
  for (std::size_t i = sample.begin; i < sample.end; ++i) {
    const TarMember& member = members_[i];
    if (member.extension != "json") continue;
    const Result<std::string> text = text_of(member);
    if (!text) return text.refusal();
    Result<Json> parsed = parse_line(text.value());
    if (!parsed) return parsed.refusal();
    json = std::move(parsed).value();
    if (!json.is_object())
      return Refusal{"bad_form", str(member.name, " holds a ", json.type_name(), ", no object")};
  }
  for (std::size_t i = sample.begin; i < sample.end; ++i) {
    const TarMember& member = members_[i];
    if (member.extension == "json") continue;
    if (is_picture_name(member.name)) {
      pictures.push_back(member.name);
      inside.push_back(member);
    } else if (member.extension == "txt" || member.extension == "cls") {
      Result<std::string> text = text_of(member);
      if (!text) return text.refusal();
      add_text(json, member.extension == "txt" ? "text" : "label", std::move(text).value());
    } else {
      json["." + member.extension] = member.name;
    }
  }
  if (!pictures.empty() && !json.contains("image") && !json.contains("images"))
    json["images"] = std::move(pictures);
  return StoredRecord{.json = std::move(json),
                      .inside = std::make_shared<SamplePictures>(file_, std::move(inside))};
}

std::string TarFile::key(std::int64_t record) const {
  const std::size_t first = samples_[static_cast<std::size_t>(record)].begin;
  return str(path(), "/", stem_of(members_[first].name));
}

std::int64_t TarFile::offset(std::int64_t record) const {
  return members_[samples_[static_cast<std::size_t>(record)].begin].offset;
}

std::string TarFile::beginning_of(std::int64_t record) const {
  const TarMember& first = members_[samples_[static_cast<std::size_t>(record)].begin];
  const Result<std::string> got =
      file_->read(first.offset, static_cast<std::size_t>(std::min<std::int64_t>(
                                    first.bytes, std::int64_t{kMaxBeginningBytes})));
  return got ? got.value() : "";
}

}  // namespace tributary::data
