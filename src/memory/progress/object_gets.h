#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "memory/progress/object_buffer.h"
#include "memory/progress/object_links.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

/// An object, as its producer has sealed it: `fields` say its dtype, shape and tokens.
struct PoolObject {
  WireHandle fields;
  ObjectBuffer bytes;  // fields.bytes of them, on the device where it was copied from one
};

/// The objects that a process is reading, each into memory of its own.
class ObjectGets {
 public:
  /// `device` is that of the engine `cuda`; null without it.
  ObjectGets(const Reader& self, std::vector<std::unique_ptr<Transport>> engines,
             std::shared_ptr<DeviceMemory> device)
      : device_(std::move(device)), links_(self, std::move(engines)) {}

  void start(const StartGet& action, const PageTable& table, TimePoint now);
  /// Tells each read that has ended, once, with what has come where it succeeded. Returns whether
  /// there was anything to do.
  bool poll(TimePoint now, const std::function<void(const GetDone&, PoolObject)>& tell);
  /// Ends reads from owners that are not in the table any more.
  void close_old(const PageTable& table);

  [[nodiscard]] const ObjectLinks& links() const { return links_; }

 private:
  [[nodiscard]] ObjectBuffer make_buffer(const WireHandle& fields, Engine engine) const;

  std::shared_ptr<DeviceMemory> device_;
  std::map<std::uint64_t, PoolObject> under_way_;  // outlives the engines, which write into it
  ObjectLinks links_;
};

}  // namespace tributary::memory
