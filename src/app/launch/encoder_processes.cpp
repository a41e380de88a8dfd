#include "app/launch/encoder_processes.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/log.h"

namespace tributary::app {
namespace {

constexpr std::int64_t kMostReplaced = 10;
constexpr double kPauseSeconds = 1;
constexpr double kForgivingSeconds = 60;  // an encoder that has run so long begins anew
constexpr double kEndSeconds = 5;         // from SIGTERM to SIGKILL
constexpr std::size_t kShownLines = 5;

}  // namespace

EncoderProcesses::EncoderProcesses(std::int64_t count, std::vector<std::string> words,
                                   std::int64_t ranks)
    : words_(std::move(words)), ranks_(ranks) {
  for (std::int64_t i = 0; i < count; ++i)
    encoders_.push_back(start(static_cast<int>(i), /*replaced=*/0));
}

EncoderProcesses::~EncoderProcesses() {
  const Stopwatch watch;
  const auto any_runs = [this] {
    return std::ranges::any_of(encoders_, [](Encoder& each) { return !each.process->has_ended(); });
  };
  for (const Encoder& each : encoders_) each.process->send_signal(SIGTERM);
  for (const Encoder& each : encoders_) each.process->send_signal(SIGCONT);
  while (any_runs() && watch.seconds() < kEndSeconds) {
    for (Encoder& each : encoders_) each.process->read_output();
    poll(nullptr, 0, /*timeout=*/20);
  }
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
  for (const Encoder& each : encoders_) {
    if (!each.process->exit_code())
      waits.push_back({.fd = each.process->process_descriptor(), .events = POLLIN, .revents = 0});
    if (each.process->output_descriptor() >= 0)
      waits.push_back({.fd = each.process->output_descriptor(), .events = POLLIN, .revents = 0});
  }
}

void EncoderProcesses::look() {
  for (Encoder& each : encoders_) look_at(each);
}

void EncoderProcesses::look_at(Encoder& encoder) {
  if (encoder.again_at) {
    if (clock_.seconds() < *encoder.again_at) return;
    return replace(encoder);
  }
  RankProcess& process = *encoder.process;
  const bool had_ended = process.exit_code().has_value();
  process.has_ended();
  process.read_output();
  if (!process.exit_code() || had_ended) return;
  process.close_output();
  const int code = *process.exit_code();
  if (code == 0) return;
  const auto& lines = process.last_lines();
  for (std::size_t i = lines.size() - std::min(lines.size(), kShownLines); i < lines.size(); ++i)
    log_note(str("[encoder ", process.rank(), "] ", lines[i]));
  if (clock_.seconds() - encoder.started > kForgivingSeconds) encoder.replaced = 0;
  const bool comes_again = is_worth_a_restart(code) && encoder.replaced < kMostReplaced;
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
