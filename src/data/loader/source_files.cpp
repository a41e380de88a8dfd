#include "data/loader/source_files.h"

#include <filesystem>

#include "core/error.h"
#include "core/random.h"
#include "core/sha256.h"
#include "data/decode/data_url.h"
#include "data/loader/encode_sample.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr int kProbedImages = 16;
constexpr int kProbedRecords = 64;
constexpr int kEnoughMissing = 3;             // fewer may be single bad records
constexpr std::size_t kProbedBytes = 65'536;  // of each image
constexpr std::size_t kDigestDigits = 16;

std::unique_ptr<RecordFile> open_held_out(const config::SourceSection& source) {
  return source.held_out.empty() ? nullptr : open_record_file(source.held_out);
}

/// The first picture or sound of a record that lies in a file.
std::optional<std::string> first_path(const Record& record) {
  for (const std::string& image : record.images)
    if (!is_data_url(image)) return image;
  for (const Clip& clip : record.clips) {
    const std::string& first = clip.file.empty() ? clip.frames.front() : clip.file;
    if (!is_data_url(first)) return first;
  }
  for (const std::string& sound : record.sounds)
    if (!is_data_url(sound)) return sound;
  return std::nullopt;
}

/// Whether a refused image might exist in another folder.
bool is_out_of_reach(const Refusal& refusal) {
  return refusal.code == "missing_file" || refusal.code == "path_escapes" ||
         refusal.code == "bad_path";
}

/// Whether every record of a source may be refused for the same reason: the source is not as its
/// section says.
bool is_of_form(const Refusal& refusal) {
  return refusal.code == "bad_form" || refusal.code == "no_question" ||
         refusal.code == "preferences" || refusal.code == "no_pair";
}

/// The mean length of training records that are spread over a source; bad ones do not count.
double mean_tokens(const config::SourceSection& source, const SourceFiles& files,
                   const SampleEncoder& encoder) {
  const std::int64_t looked_at = std::min<std::int64_t>(files.train_size(), kProbedRecords);
  double sum = 0;
  std::int64_t good = 0;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const Result<Record> record = files.read_train(i * files.train_size() / looked_at);
    if (!record) continue;
    const Result<SampleShape> shape = encoder.describe(record.value());
    if (!shape) continue;
    sum += static_cast<double>(shape.value().tokens.count);
    ++good;
  }
  TRIB_REQUIRE(sum > 0, .what = "data: no length of the source is known", .where = source.path,
               .found = str(looked_at, " records looked at, none good"),
               .expected = "good records, for data.weigh_by: tokens",
               .fix = "`tributary data inspect` says what is wrong with them");
  return sum / static_cast<double>(good);
}

}  // namespace

std::string image_root(const config::SourceSection& source) {
  if (!source.images.empty()) return source.images;
  std::error_code failure;
  if (std::filesystem::is_directory(source.path, failure)) return source.path;
  const std::filesystem::path folder = std::filesystem::path(source.path).parent_path();
  return folder.empty() ? "." : folder.string();
}

RecordOptions record_options(const config::SourceSection& source, Answers answers) {
  RecordOptions options{
      .form = find_form(source.format), .question = source.question, .answers = answers};
  std::string names = "auto";
  for (const RecordFormName& each : kRecordForms) names += str(", ", each.name);
  TRIB_REQUIRE(options.form || source.format == "auto", .what = "data: no such form of records",
               .where = "`format` of source " + source.name, .found = escaped(source.format),
               .expected = "one of " + names);
  return options;
}

SourceFiles::SourceFiles(const config::SourceSection& source, double held_out_fraction,
                         Answers answers)
    : name_(source.name),
      image_root_(image_root(source)),
      options_(record_options(source, answers)),
      file_(open_record_file(source.path)),
      held_out_file_(open_held_out(source)),
      folder_(image_root_, source.roots) {
  divide(held_out_file_ ? 0.0 : held_out_fraction);
  probe_forms();
  probe_images();
}

void SourceFiles::divide(double held_out_fraction) {
  TRIB_REQUIRE(held_out_fraction >= 0 && held_out_fraction < 1,
               .what = "data: held-out fraction is out of range", .where = "data.held_out_fraction",
               .found = str(held_out_fraction), .expected = "at least 0, below 1");
  double min = 1;
  std::size_t first_drawn = 0;  // place in train_, as long as none is held out
  for (std::int64_t record = 0; record < file_->records(); ++record) {
    RandomStream draw(/*seed=*/0, "held out", static_cast<std::uint64_t>(record));
    const double drawn = draw.uniform();
    if (drawn < min) {
      min = drawn;
      first_drawn = train_.size();
    }
    (drawn < held_out_fraction ? held_out_ : train_).push_back(static_cast<std::uint32_t>(record));
  }
  if (held_out_fraction == 0 || !held_out_.empty() || train_.size() < 2) return;
  const auto chosen = train_.begin() + static_cast<std::ptrdiff_t>(first_drawn);
  held_out_.push_back(*chosen);
  train_.erase(chosen);
}

/// Checks that not all of the first records are refused for their form.
void SourceFiles::probe_forms() const {
  std::string first;
  const std::int64_t probed = std::min<std::int64_t>(file_->records(), kProbedRecords);
  for (std::int64_t record = 0; record < probed; ++record) {
    const Result<Record> parsed = read(*file_, record);
    if (parsed || !is_of_form(parsed.refusal())) return;
    if (first.empty())
      first = str(file_->key(record), " ", parsed.refusal().code, ": ", parsed.refusal().reason);
  }
  TRIB_RAISE(Fault::kInput, .what = "data: no record of the source can be read",
             .where = file_->path(), .found = str("the first ", probed, " are refused: ", first),
             .fix = str("docs/formats/data.md shows the forms; `format` and `question` of source ",
                        name_, " choose among them"));
}

/// Checks the first images: a wrong folder is one error, not every record bad in turn. Hashes how
/// they begin, which identifies another folder with files of the same names.
void SourceFiles::probe_images() {
  int missing = 0;
  int found = 0;
  std::string first_missing;
  std::string beginnings;
  for (std::int64_t record = 0; record < std::min<std::int64_t>(file_->records(), kProbedRecords) &&
                                missing + found < kProbedImages;
       ++record) {
    const Result<Record> parsed = read(*file_, record);
    if (!parsed) continue;
    const auto path = first_path(parsed.value());
    if (!path) continue;
    const auto bytes = read_picture_beginning(parsed.value(), *path, kProbedBytes);
    beginnings += *path + '\n';
    if (bytes) beginnings.append(bytes.value().begin(), bytes.value().end());
    if (bytes || !is_out_of_reach(bytes.refusal())) {
      ++found;
    } else if (missing++ == 0) {
      first_missing = str(escaped(*path), " of ", parsed.value().key, ": ", bytes.refusal().reason);
    }
  }
  TRIB_REQUIRE(found > 0 || missing < kEnoughMissing,
               .what = "data: none of the first images exists", .where = image_root_,
               .found = str(missing, " missing, the first is ", first_missing),
               .expected = "image paths that start from this folder",
               .fix = str("set `images` of source ", name_, " to the folder of the images"));
  if (!beginnings.empty()) images_digest_ = sha256(beginnings).substr(0, kDigestDigits);
}

Result<Record> SourceFiles::read(const RecordFile& file, std::int64_t record) const {
  const Result<StoredRecord> stored = file.read(record);
  if (!stored) return stored.refusal();
  Result<ParsedRecord> parsed = read_record(stored.value().json, file.key(record), options_);
  if (!parsed) return parsed.refusal();
  Record result = std::move(parsed).value().record;
  result.folder = &folder_;
  result.inside = stored.value().inside;
  return result;
}

Result<Record> SourceFiles::read_train(std::int64_t item) const {
  return read(*file_, train_[item]);
}

Result<Record> SourceFiles::read_held_out(std::int64_t position) const {
  TRIB_CHECK(position >= 0 && position < held_out_size(),
             .what = "data: held-out position outside the source", .where = name_,
             .found = str(position), .expected = str("below ", held_out_size()));
  if (held_out_file_) return read(*held_out_file_, position);
  return read(*file_, held_out_[position]);
}

SourceDigest SourceFiles::digest() const {
  return {name_, file_->bytes(), file_->records(), file_->digest(), images_digest_};
}

std::string SourceFiles::digest_beginning(std::int64_t record) const {
  const std::string beginning = file_->beginning_of(record);
  return beginning.empty() ? "" : sha256(beginning).substr(0, kDigestDigits);
}

Answers answers_of(const SampleEncoder& encoder) {
  return encoder.takes_pairs() ? Answers::kPair : Answers::kOne;
}

std::vector<std::unique_ptr<SourceFiles>> open_sources(const config::DataSection& data,
                                                       Answers answers) {
  TRIB_REQUIRE(!data.sources.empty(), .what = "data: no source is given", .where = "data.sources",
               .fix = "name at least one file of records");
  std::vector<std::unique_ptr<SourceFiles>> sources;
  for (const config::SourceSection& source : data.sources)
    sources.push_back(std::make_unique<SourceFiles>(source, data.held_out_fraction, answers));
  return sources;
}

void require_samples(const config::DataSection& data,
                     const std::vector<std::unique_ptr<SourceFiles>>& sources,
                     std::int64_t batch_samples) {
  std::int64_t reachable = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (data.sources[i].weight == 0) continue;
    reachable += sources[i]->train_size();
    TRIB_REQUIRE(sources[i]->train_size() > 0, .what = "data: source has no training record",
                 .where = data.sources[i].path,
                 .found = str(sources[i]->held_out_size(), " records, all held out"),
                 .fix = "lower data.held_out_fraction");
  }
  TRIB_REQUIRE(reachable >= batch_samples, .what = "data: fewer samples than one batch",
               .where = "data.sources", .found = str(reachable, " training samples"),
               .expected = str("at least ", batch_samples, " (batch.global_samples)"),
               .fix = "lower batch.global_samples or add data");
}

std::vector<MixtureShare> mix(const config::DataSection& data,
                              const std::vector<std::unique_ptr<SourceFiles>>& sources,
                              const SampleEncoder& encoder, std::int64_t batch_samples) {
  std::vector<MixtureShare> shares;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const config::SourceSection& source = data.sources[i];
    const bool by_tokens = data.weigh_by == config::WeighBy::kTokens && source.weight > 0;
    shares.push_back({.weight = by_tokens
                                    ? source.weight / mean_tokens(source, *sources[i], encoder)
                                    : source.weight,
                      .size = sources[i]->train_size(),
                      .first_index = source.start_step * batch_samples});
  }
  return shares;
}

}  // namespace tributary::data
