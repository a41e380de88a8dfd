#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/protocol/event.h"
#include "memory/transport/choose_engine.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/socket_links.h"

namespace tributary::memory {

/// A reader's links to the owners of objects, opened when the first object of an owner is read.
///
/// An engine that fails an owner's object rests for this owner: 1 s, and twice as long each time,
/// up to 300 s, until it has brought one. Meanwhile the next engine is taken; when all rest, none
/// does. After its rest it is tried again.
class ObjectLinks {
 public:
  ObjectLinks(const Reader& self, std::vector<std::unique_ptr<Transport>> engines)
      : self_(self), engines_(std::move(engines)) {}

  /// Gives the memory for an object, once it is known which engine brings it.
  using Place = std::function<std::span<std::byte>(Engine)>;
  /// Reads an object of the segment `row` into memory that has its size and stays in place until
  /// poll() tells the GetDone of this request. No memory is asked for where no engine works.
  void get(std::uint64_t request, const SegmentRow& row, const ObjectHandle& handle,
           const Place& place, TimePoint now);
  /// Tells each GET that has ended, once. Returns whether there was anything to do.
  bool poll(TimePoint now, const std::function<void(const GetDone&)>& tell);
  /// Closes links to owners that `is_current` does not know any more; their GETs end.
  void close_old(const std::function<bool(const SegmentRow&)>& is_current);

  [[nodiscard]] std::map<std::uint16_t, Engine> engines() const;
  /// Readable when poll() has work.
  [[nodiscard]] std::vector<int> wake_fds() const;

 private:
  static constexpr TimePoint kNever{std::numeric_limits<std::int64_t>::max()};
  struct Rest {
    std::uint32_t failures = 0;  // since the last object
    TimePoint until{};
  };
  struct Owner {
    SegmentRow row;
    Transport* engine = nullptr;  // null: none is open
    PeerLink link{};
    std::map<Transport*, Rest> rests = {};
    TimePoint look_again = kNever;  // when a better engine than the open one has rested
  };
  struct Request {
    std::uint64_t number = 0;
    std::uint16_t process = 0;
    PeerLink link{};
  };

  [[nodiscard]] bool open(Owner& owner, TimePoint now);
  void take_end(const Transport& engine, PeerLink link);
  [[nodiscard]] GetDone take_done(Transport& engine, const Request& request, Status status,
                                  TimePoint now);
  void leave(Owner& owner, std::string_view why, TimePoint now);

  Reader self_;
  std::vector<std::unique_ptr<Transport>> engines_;
  std::map<std::uint16_t, Owner> owners_;
  std::map<std::pair<const Transport*, TransferId>, Request> requests_;
  std::vector<GetDone> ended_;  // before they began
};

struct EngineOptions {
  std::vector<Engine> engines = {Engine::kMemfd, Engine::kTcp};  // that may be used
  std::uint32_t copy_threads = 1;
  std::string host = {};                      // the address of this machine whose network is used
  std::shared_ptr<DeviceMemory> device = {};  // of the engine `cuda`
};
/// The device that an engine over mapped memory has; null for memfd.
///
/// errors: Fault::kBug when `cuda` has none
[[nodiscard]] std::shared_ptr<DeviceMemory> device_of(Engine engine,
                                                      const std::shared_ptr<DeviceMemory>& device);
/// Opens a reader's engines.
///
/// errors: Fault::kInput when one of them is not built; Fault::kBug when `cuda` has no device
[[nodiscard]] std::vector<std::unique_ptr<Transport>> open_engines(const LinkEnd& end,
                                                                   const JobKey& key,
                                                                   const EngineOptions& options);

}  // namespace tributary::memory
