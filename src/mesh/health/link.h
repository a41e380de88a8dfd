#pragma once

#include <memory>
#include <optional>
#include <poll.h>
#include <vector>

#include "core/stopwatch.h"
#include "mesh/health/root_cause.h"
#include "mesh/launch/line_socket.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

/// What one rank knows of the others. Only the watching thread uses it; nothing in it waits.
/// Times are seconds of the steady clock.
class Link {
 public:
  virtual ~Link() = default;

  /// Adds what to wait for.
  virtual void add_descriptors(std::vector<pollfd>& waits) const = 0;
  /// Takes what came, sends what is queued.
  virtual void exchange(double now) = 0;
  virtual void send_beat(const Beat& beat) = 0;
  /// Counts the progress of the other ranks, as of their last heartbeats.
  [[nodiscard]] virtual std::uint64_t progress_of_others() const = 0;
  /// Tells the controller of a failure.
  virtual void report(const Failure& failure) = 0;
  /// The failure that explains all; null until it is decided.
  [[nodiscard]] virtual std::optional<Failure> root_cause(double now) = 0;
  /// Says good-bye to the others.
  virtual void take_leave() = 0;
  /// Whether this rank may go: what it had to say is sent, and nobody needs it any more.
  [[nodiscard]] virtual bool may_go() const = 0;
  /// Ends sending after the root cause; true when the others have read it.
  [[nodiscard]] virtual bool hang_up() = 0;
};

/// The link of rank 0, which listens; publishes where in the store.
[[nodiscard]] std::unique_ptr<Link> make_controller(const Launch& launch, c10d::Store& store,
                                                    const HealthOptions& options);
/// The link of every other rank: one connection to rank 0.
///
/// errors: Fault::kResource when rank 0 is not reached
[[nodiscard]] std::unique_ptr<Link> make_member(const Launch& launch, c10d::Store& store,
                                                const HealthOptions& options);
/// The link of a world of one.
[[nodiscard]] std::unique_ptr<Link> make_lonely();

/// The lines on the wire; each kind is one word, then its fields.
namespace line {

/// `hello <key> <rank> <host>`: the first line of both sides. The key is that of the job.
[[nodiscard]] std::string hello(const std::string& key, int rank);
struct Hello {
  std::string key;
  int rank = -1;
  std::string host;
};
[[nodiscard]] std::optional<Hello> parse_hello(const std::string& text);

/// `beat <step> <progress> <section>`
[[nodiscard]] std::string beat(const Beat& beat);
[[nodiscard]] std::optional<Beat> parse_beat(const std::string& text);

/// `fail <rank> <code> <text>` to the controller, `root <rank> <code> <text>` from it. The text
/// loses line breaks and what is beyond 4 KiB.
[[nodiscard]] std::string failure(const std::string& word, const Failure& failure);
[[nodiscard]] std::optional<Failure> parse_failure(const std::string& word,
                                                   const std::string& text);

inline constexpr const char* kBye = "bye";

}  // namespace line

/// The key under which rank 0 publishes `<port> <key of the job>`.
inline constexpr const char* kControllerKey = "health/controller";

}  // namespace tributary::mesh
