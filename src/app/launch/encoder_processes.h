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

/// How many encoder processes a job has: at the start, and between which numbers its run may
/// choose.
struct EncoderCounts {
  std::int64_t at_start = 0;
  std::int64_t min = 0;
  std::int64_t max = 0;

  [[nodiscard]] bool may_change() const { return min < max; }
  /// The values of the configuration of a run that asks for `wanted`; none where it has none.
  [[nodiscard]] std::vector<std::string> keys(std::int64_t wanted) const;
};

/// The encoder processes beside the ranks of a job. They outlive the attempts of the job; one that
/// fails is replaced, and none of their failures ends it. A run may ask for more of them or fewer.
/// The destructor ends them.
class EncoderProcesses {
 public:
  /// words: the verb `encoder` with its arguments
  /// errors: Fault::kResource when one cannot be started
  EncoderProcesses(const EncoderCounts& counts, std::vector<std::string> words, std::int64_t ranks);
  ~EncoderProcesses();
  EncoderProcesses(const EncoderProcesses&) = delete;
  EncoderProcesses& operator=(const EncoderProcesses&) = delete;

  /// Where rank 0 writes how many it wants.
  [[nodiscard]] int request_descriptor() const { return requests_written_.get(); }
  /// How many the run wants now.
  [[nodiscard]] std::int64_t wanted() const { return wanted_; }

  /// Adds what a poll() should wait for.
  void add_waits(std::vector<pollfd>& waits) const;
  /// Reads requests and output, and starts, replaces or ends processes.
  void look();

 private:
  struct Encoder {
    std::unique_ptr<RankProcess> process;
    double started = 0;
    std::int64_t replaced = 0;            // in a row, each soon after its start
    std::optional<double> again_at = {};  // when another one takes its place
    bool leaves = false;                  // it was asked to
  };

  [[nodiscard]] Encoder start(int number, std::int64_t replaced) const;
  void read_requests();
  void start_missing();
  void withdraw_excess();
  /// How many there are that stay, those that have failed for good among them.
  [[nodiscard]] std::int64_t count_staying() const;
  void look_at(std::optional<Encoder>& place);
  void replace(Encoder& encoder);

  std::vector<std::string> words_;
  std::int64_t ranks_;
  const Stopwatch clock_;
  std::int64_t wanted_;
  std::vector<std::optional<Encoder>> encoders_;  // by number, up to the most of them
  double start_again_at_ = 0;                     // after one could not be started
  Descriptor requests_read_, requests_written_;
  std::string unfinished_request_;
};

}  // namespace tributary::app
