#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/data_order.h"
#include "data/loader/loader.h"
#include "data/loader/sample_encoder.h"
#include "data/record/media_folder.h"
#include "data/record/record.h"
#include "data/record/record_file.h"

namespace tributary::data {

/// The folder that paths in the records of a source start from.
[[nodiscard]] std::string image_root(const config::SourceSection& source);
/// What a source says about the form of its records.
///
/// errors: Fault::kInput when `format` is no known form
[[nodiscard]] RecordOptions record_options(const config::SourceSection& source, Answers answers);

/// One source of the mixture with its files open and its records divided.
class SourceFiles {
 public:
  /// Opens and indexes the files, and checks that the first images exist.
  ///
  /// Whether a record is held out depends only on a draw keyed by its place in the file, so the
  /// split is the same for every seed. With a fraction above 0 and two records or more, at least
  /// one is held out: if no draw falls below the fraction, the record with the lowest draw.
  /// errors: Fault::kInput when a file or the image folder is missing, when none of the first
  ///         images exists, when none of the first records has a form that is read, or when
  ///         held_out_fraction is outside [0, 1)
  SourceFiles(const config::SourceSection& source, double held_out_fraction, Answers answers);

  [[nodiscard]] std::int64_t train_size() const { return std::ssize(train_); }
  [[nodiscard]] std::int64_t held_out_size() const {
    return held_out_file_ ? held_out_file_->records() : std::ssize(held_out_);
  }
  /// The record in file() of a training item.
  [[nodiscard]] std::int64_t train_record(std::int64_t item) const { return train_[item]; }

  /// Reads and parses a record, which refers to this object's folder.
  [[nodiscard]] Result<Record> read_train(std::int64_t item) const;
  [[nodiscard]] Result<Record> read_held_out(std::int64_t position) const;

  [[nodiscard]] const RecordFile& file() const { return *file_; }
  [[nodiscard]] SourceDigest digest() const;
  /// Identifies a damaged record of file(): the SHA-256 of its first 4 KiB, 16 hex digits; empty
  /// when it cannot be read.
  [[nodiscard]] std::string digest_beginning(std::int64_t record) const;

 private:
  [[nodiscard]] Result<Record> read(const RecordFile& file, std::int64_t record) const;
  void divide(double held_out_fraction);
  void probe_forms() const;
  void probe_images();

  std::string name_;
  std::string image_root_;
  RecordOptions options_;
  std::unique_ptr<RecordFile> file_;
  std::unique_ptr<RecordFile> held_out_file_;  // null: a part of file_ is held out
  MediaRoots folder_;
  std::string images_digest_;
  std::vector<std::uint32_t> train_;     // records of file_
  std::vector<std::uint32_t> held_out_;  // records of file_
};

/// The records that a run with this encoder takes.
[[nodiscard]] Answers answers_of(const SampleEncoder& encoder);

/// errors: Fault::kInput also when there is no source
[[nodiscard]] std::vector<std::unique_ptr<SourceFiles>> open_sources(
    const config::DataSection& data, Answers answers);

/// Checks that every source of the mixture has records to train on, and all together a batch.
///
/// errors: Fault::kInput naming the source, or the number of samples
void require_samples(const config::DataSection& data,
                     const std::vector<std::unique_ptr<SourceFiles>>& sources,
                     std::int64_t batch_samples);

/// The share of each source in the mixture, and the sample from which on it takes part.
///
/// With `data.weigh_by: tokens` a weight is divided by the mean length of 64 records of the source,
/// spread over it, so that the weights share out tokens.
/// errors: Fault::kInput when lengths are asked for and none of these records is good
[[nodiscard]] std::vector<MixtureShare> mix(
    const config::DataSection& data, const std::vector<std::unique_ptr<SourceFiles>>& sources,
    const SampleEncoder& encoder, std::int64_t batch_samples);

}  // namespace tributary::data
