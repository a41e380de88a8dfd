#include "train/flow/encoder_request.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "core/error.h"
#include "core/launch_variables.h"

namespace tributary::train {
namespace {

/// The pipe to the launcher, which sets this variable for rank 0.
int launcher_descriptor() {
  const char* given = std::getenv(kEncodersDescriptorVariable);
  int descriptor = -1;
  if (given != nullptr) std::from_chars(given, given + std::strlen(given), descriptor);
  TRIB_REQUIRE(descriptor >= 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0,
               .what = "train: nobody starts encoders that the run asks for",
               .where = "pool.max_encoders", .found = "no launcher with a range",
               .expected = "pool.max_encoders 0: encoders are then started by hand",
               .fix = "tributary launch -n N --encoders MIN-MAX -- train ...");
  return descriptor;
}

schedule::EncoderRange range_of(const config::RunConfig& config, const mesh::Mesh& backbone) {
  const config::MeshShape& shape = backbone.shape();
  const std::int64_t readers = shape.cp * shape.ulysses * shape.tp;
  return {.min = config.pool.min_encoders,
          .max = config.pool.max_encoders,
          .window_seconds = config.pool.window_seconds,
          .settling_steps = config.pool.ahead + 1,
          .takers = backbone.data_ranks() * readers,
          .readers = readers};
}

}  // namespace

EncoderRequest::EncoderRequest(const config::RunConfig& config, const mesh::Mesh& backbone)
    : policy_(range_of(config, backbone), config.pool.encoders),
      descriptor_(launcher_descriptor()) {
  ask(policy_.wanted());
}

void EncoderRequest::ask(std::int64_t encoders) const {
  const std::string line = str(encoders, "\n");
  const ssize_t written = write(descriptor_, line.data(), line.size());
  TRIB_CHECK(written == static_cast<ssize_t>(line.size()),
             .what = "train: launcher does not hear how many encoders are wanted",
             .found = std::strerror(errno));
}

void EncoderRequest::after_step(StepMetrics& metrics) {
  FlowUse& flow = *metrics.flow;
  const std::optional<schedule::EncoderChange> change =
      policy_.after_step({.seconds = metrics.seconds.sum(),
                          .starved = flow.starved,
                          .encoding = flow.encoding - flow.encoding_too_large,
                          .taken = flow.objects,
                          .encoded_here = flow.encoded_here - flow.too_large,
                          .made = flow.made,
                          .busy = flow.encoder_busy,
                          .encoders = flow.encoders,
                          .changed = flow.joined + flow.left + flow.lost > 0});
  flow.wanted = policy_.wanted();
  if (!change) return;
  ask(change->wanted);
  flow.reallocation = change->reason;
}

}  // namespace tributary::train
