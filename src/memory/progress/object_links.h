#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/protocol/event.h"
#include "memory/transport/choose_engine.h"
#include "memory/transport/socket_links.h"

namespace tributary::memory {

struct ObjectLinksOptions {
  std::optional<Engine> engine = {};  // the only one; empty: the best that works
  std::uint32_t copy_threads = 1;
};

/// A reader's links to the owners of objects, opened when the first object of an owner is read. An
/// engine whose link was refused is not taken again for the same owner.
class ObjectLinks {
 public:
  ObjectLinks(const LinkEnd& end, const JobKey& key, const ObjectLinksOptions& options);

  /// Reads an object of the segment `row`; `into` has its size and stays in place until poll()
  /// tells the GetDone of this request.
  void get(std::uint64_t request, const SegmentRow& row, const ObjectHandle& handle,
           std::span<std::byte> into, TimePoint now);
  /// Tells each GET that has ended, once. Returns whether there was anything to do.
  bool poll(TimePoint now, const std::function<void(const GetDone&)>& tell);
  /// Closes links to owners that `is_current` does not know any more; their GETs end.
  void close_old(const std::function<bool(const SegmentRow&)>& is_current);

  [[nodiscard]] std::map<std::uint16_t, Engine> engines() const;
  /// Readable when poll() has work.
  [[nodiscard]] std::vector<int> wake_fds() const;

 private:
  struct Owner {
    SegmentRow row;
    Transport* engine = nullptr;  // null: none is open
    PeerLink link{};
    std::vector<Transport*> refused = {};
  };

  [[nodiscard]] bool open(Owner& owner, TimePoint now);
  void take_end(const Transport& engine, const LinkClosed& event);

  Reader self_;
  std::vector<std::unique_ptr<Transport>> engines_;
  std::map<std::uint16_t, Owner> owners_;
  std::map<std::pair<const Transport*, TransferId>, std::uint64_t> requests_;
  std::vector<GetDone> ended_;  // before they began
};

}  // namespace tributary::memory
