#include "app/launch/encoder_processes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/launch_variables.h"
#include "core/log.h"

namespace tributary::app {
namespace {

constexpr std::int64_t kMaxReplaced = 10;
constexpr double kPauseSeconds = 1;
constexpr double kForgivingSeconds = 60;  // an encoder that has run so long begins anew
constexpr double kEndSeconds = 5;         // from SIGTERM to SIGKILL
constexpr std::size_t kShownLines = 5;

}  // namespace

std::vector<std::string> EncoderCounts::keys(std::int64_t wanted) const {
  if (max == 0) return {};
  return {str("pool.encoders=", wanted), str("pool.min_encoders=", may_change() ? min : 0),
          str("pool.max_encoders=", may_change() ? max : 0)};
}

EncoderProcesses::EncoderProcesses(const EncoderCounts& counts, std::vector<std::string> words,
                                   std::int64_t ranks)
    : words_(std::move(words)),
      ranks_(ranks),
      wanted_(counts.at_start),
      encoders_(static_cast<std::size_t>(counts.max)) {
  if (counts.may_change()) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
      TRIB_RAISE(Fault::kResource, .what = "app: launcher cannot hear its ranks", .where = "pipe2",
                 .found = std::strerror(errno));
    requests_read_ = Descriptor(ends[0]);
    requests_written_ = Descriptor(ends[1]);
  }
  for (std::int64_t i = 0; i < wanted_; ++i)
    encoders_[static_cast<std::size_t>(i)] = start(static_cast<int>(i), /*replaced=*/0);
}

EncoderProcesses::~EncoderProcesses() {
  const Stopwatch watch;
  for (const auto& each : encoders_)
    if (each) each->process->ask_to_end();
  const auto runs = [](const auto& each) {
    if (each) each->process->look();
    return each && !each->process->exit_code();
  };
  while (std::ranges::count_if(encoders_, runs) > 0 && watch.seconds() < kEndSeconds)
    poll(nullptr, 0, /*timeout=*/20);
}

EncoderProcesses::Encoder EncoderProcesses::start(int number, std::int64_t replaced) const {
  RankCommand command = own_command(number, words_);
  command.variables = {{kEncoderDeviceVariable, str(ranks_ + number)}};
  share_cores(command, ranks_);
  return {.process = std::make_unique<RankProcess>(command),
          .started = clock_.seconds(),
          .replaced = replaced};
}

void EncoderProcesses::add_waits(std::vector<pollfd>& waits) const {
  if (requests_read_.get() >= 0)
    waits.push_back({.fd = requests_read_.get(), .events = POLLIN, .revents = 0});
  for (const auto& each : encoders_)
    if (each) each->process->add_waits(waits);
}

void EncoderProcesses::look() {
  read_requests();
  for (std::optional<Encoder>& each : encoders_) look_at(each);
  withdraw_excess();
  start_missing();
}

void EncoderProcesses::read_requests() {
  if (requests_read_.get() < 0) return;
  std::array<char, 256> block;
  for (;;) {
    const ssize_t count = read(requests_read_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    for (const char c : std::string_view(block.data(), static_cast<std::size_t>(count))) {
      if (c != '\n') {
        unfinished_request_ += c;
        continue;
      }
      std::int64_t number = -1;
      const std::string line = std::exchange(unfinished_request_, {});
      const auto parsed = std::from_chars(line.data(), line.data() + line.size(), number);
      TRIB_CHECK(parsed.ec == std::errc() && number >= 0 && number <= std::ssize(encoders_),
                 .what = "app: run wants a number of encoders that it may not have", .found = line,
                 .expected = str("0 to ", encoders_.size()));
      wanted_ = number;
    }
  }
}

std::int64_t EncoderProcesses::count_staying() const {
  return std::ranges::count_if(encoders_, [](const auto& each) { return each && !each->leaves; });
}

void EncoderProcesses::withdraw_excess() {
  const auto is_gone = [](const auto& each) { return each && each->process->exit_code(); };
  while (count_staying() > wanted_) {
    // First one that has failed, else the last one that was started.
    auto found = std::ranges::find_if(encoders_, is_gone);
    if (found != encoders_.end()) {
      found->reset();
      continue;
    }
    const auto last = std::find_if(encoders_.rbegin(), encoders_.rend(),
                                   [](const auto& each) { return each && !each->leaves; });
    (*last)->leaves = true;
    (*last)->process->ask_to_end();
  }
}

void EncoderProcesses::start_missing() {
  // A place is free once the process in it has left, since its number is that of a device.
  for (std::size_t i = 0; i < encoders_.size() && count_staying() < wanted_; ++i) {
    if (encoders_[i] || clock_.seconds() < start_again_at_) continue;
    try {
      encoders_[i] = start(static_cast<int>(i), /*replaced=*/0);
    } catch (const Error& error) {  // the ranks go on without it
      log_note(str("tributary launch: ", error.what()));
      start_again_at_ = clock_.seconds() + kForgivingSeconds;
    }
  }
}

void EncoderProcesses::look_at(std::optional<Encoder>& place) {
  if (!place) return;
  Encoder& encoder = *place;
  if (encoder.again_at) {
    if (clock_.seconds() < *encoder.again_at) return;
    return replace(encoder);
  }
  RankProcess& process = *encoder.process;
  if (!process.look()) return;
  const int code = *process.exit_code();
  if (code == 0) {
    if (encoder.leaves) place.reset();
    return;
  }
  const auto& lines = process.last_lines();
  for (std::size_t i = lines.size() - std::min(lines.size(), kShownLines); i < lines.size(); ++i)
    log_note(str("[encoder ", process.rank(), "] ", lines[i]));
  if (encoder.leaves) {
    log_note(str("tributary launch: encoder ", process.rank(), " ended with exit code ", code,
                 " when it was to leave"));
    return place.reset();
  }
  if (clock_.seconds() - encoder.started > kForgivingSeconds) encoder.replaced = 0;
  const bool comes_again = is_worth_a_restart(code) && encoder.replaced < kMaxReplaced;
  log_note(str("tributary launch: encoder ", process.rank(), " ended with exit code ", code,
               comes_again ? "; another one takes its place"
                           : "; the ranks encode what no other encoder does"));
  if (comes_again) encoder.again_at = clock_.seconds() + kPauseSeconds;
}

void EncoderProcesses::replace(Encoder& encoder) {
  try {
    encoder = start(encoder.process->rank(), encoder.replaced + 1);
  } catch (const Error& error) {  // the ranks go on without it
    log_note(str("tributary launch: ", error.what()));
    encoder.again_at = clock_.seconds() + kForgivingSeconds;
  }
}

}  // namespace tributary::app
