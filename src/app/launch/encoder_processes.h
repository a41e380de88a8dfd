#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "app/launch/rank_process.h"
#include "core/stopwatch.h"

namespace tributary::app {

/// Says which device of the machine an encoder has: those before belong to ranks and encoders.
inline constexpr const char* kEncoderDeviceVariable = "TRIB_ENCODER_DEVICE";

/// The encoder processes beside the ranks of a job. They outlive the attempts of the job; one that
/// fails is replaced, and none of their failures ends it. The destructor ends them.
class EncoderProcesses {
 public:
  /// words: the verb `encoder` with its arguments
  /// errors: Fault::kResource when one cannot be started
  EncoderProcesses(std::int64_t count, std::vector<std::string> words, std::int64_t ranks);
  ~EncoderProcesses();
  EncoderProcesses(const EncoderProcesses&) = delete;
  EncoderProcesses& operator=(const EncoderProcesses&) = delete;

  /// Adds what a poll() should wait for.
  void add_waits(std::vector<pollfd>& waits) const;
  /// Reads their output, and replaces those that have failed.
  void look();

 private:
  struct Encoder {
    std::unique_ptr<RankProcess> process;
    double started = 0;
    std::int64_t replaced = 0;            // in a row, each soon after its start
    std::optional<double> again_at = {};  // when another one takes its place
  };

  [[nodiscard]] Encoder start(int number, std::int64_t replaced) const;
  void look_at(Encoder& encoder);
  void replace(Encoder& encoder);

  std::vector<std::string> words_;
  std::int64_t ranks_;
  const Stopwatch clock_;
  std::vector<Encoder> encoders_;
};

}  // namespace tributary::app
