#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace tributary::train {

/// Writes scalars and texts that TensorBoard shows. Every record is flushed, so a viewer sees it.
///
/// source: TFRecord framing and the messages Event, Summary and Tensor of TensorFlow
class EventFile {
 public:
  /// Makes `events.out.tfevents.<seconds>.<host>.<process>` in the directory, which it makes too.
  ///
  /// errors: Fault::kResource when it cannot be made
  explicit EventFile(const std::string& directory);

  /// Says that the run goes on with this step: viewers drop the points from it on that earlier
  /// files of the directory hold.
  void restart_at(std::int64_t step);

  // errors: Fault::kResource when the disk refuses
  void scalar(std::string_view tag, std::int64_t step, double value);
  void text(std::string_view tag, std::int64_t step, std::string_view value);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void add_record(const std::string& event);

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace tributary::train
