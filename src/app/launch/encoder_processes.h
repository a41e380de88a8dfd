#pragma once

#include <cstdint>
#include <memory>
#include <poll.h>
#include <string>
#include <vector>

#include "app/launch/rank_process.h"
#include "core/stopwatch.h"

namespace tributary::app {

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
    std::int64_t replaced = 0;
    double again_at = -1;  // below 0: it runs, or has ended for good
  };

  [[nodiscard]] std::unique_ptr<RankProcess> start(int number) const;
  void look_at(Encoder& encoder);

  std::vector<std::string> words_;
  std::int64_t ranks_;
  const Stopwatch clock_;
  std::vector<Encoder> encoders_;
};

}  // namespace tributary::app
