#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/handle.h"

namespace tributary::mesh {

struct ChannelMemory;

/// Watches for the end of a process; one that cannot be watched counts as running for ever.
class ProcessWatch {
 public:
  explicit ProcessWatch(int process);
  [[nodiscard]] bool has_ended() const;

 private:
  Descriptor descriptor_;
};

/// How long an end of a channel waits, and for whom.
struct Patience {
  double timeout_seconds = 60;
  int rank = 0;  // of the other end, for messages
  const ProcessWatch* other = nullptr;
};

/// Bytes of addresses mapped for a channel; memory is taken only as far as messages need it.
inline constexpr std::size_t kRoom = std::size_t{32} << 30;

/// Memory that two processes map, through which messages go one way.
class ChannelMapping {
 public:
  /// New memory, or that of another process by its descriptor and identity.
  ///
  /// errors: std::runtime_error
  ChannelMapping();
  ChannelMapping(int process, int descriptor, std::uint64_t identity);
  ~ChannelMapping();
  ChannelMapping(const ChannelMapping&) = delete;
  ChannelMapping& operator=(const ChannelMapping&) = delete;

  [[nodiscard]] ChannelMemory& memory() const { return *memory_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// A number that no other memory of this machine has, while the descriptor is open.
  [[nodiscard]] std::uint64_t identity() const;
  /// Lets no other process open the memory any more; those that have opened it keep it.
  void close_descriptor() { descriptor_ = Descriptor(); }

 private:
  void map();

  Descriptor descriptor_;
  ChannelMemory* memory_ = nullptr;
};

/// The end that sends.
class ChannelSender {
 public:
  ChannelSender() = default;
  ~ChannelSender();
  ChannelSender(const ChannelSender&) = delete;
  ChannelSender& operator=(const ChannelSender&) = delete;

  [[nodiscard]] ChannelMapping& mapping() { return mapping_; }
  /// Copies the bytes in. Waits while there is no room: kRoom bytes or 4,096 messages are under
  /// way.
  ///
  /// errors: std::runtime_error when the message is above kRoom, when the other has ended, or room
  ///         does not come in time
  void put(const void* bytes, std::size_t size, int tag, const Patience& patience);

 private:
  /// A message that may not have been taken yet.
  struct UnderWay {
    std::size_t offset = 0;
    std::size_t size = 0;  // that it takes up
    int slot = 0;
  };
  void forget_taken();
  /// The first gap of that size and a free slot.
  [[nodiscard]] std::optional<UnderWay> find_room(std::size_t size) const;

  ChannelMapping mapping_;
  std::vector<UnderWay> under_way_;  // ascending by offset
  std::size_t touched_ = 0;          // bytes of the room that may hold memory
  std::uint64_t sent_ = 0;
};

/// The end that receives.
class ChannelReceiver {
 public:
  ChannelReceiver(int process, int descriptor, std::uint64_t identity)
      : mapping_(process, descriptor, identity) {}
  ~ChannelReceiver();
  ChannelReceiver(const ChannelReceiver&) = delete;
  ChannelReceiver& operator=(const ChannelReceiver&) = delete;
  /// Waits for the first message of the tag that was not taken, and copies it out.
  ///
  /// errors: std::runtime_error when it has another size, when the other has ended, or none comes
  ///         in time
  void take(void* bytes, std::size_t size, int tag, const Patience& patience);

 private:
  ChannelMapping mapping_;
};

}  // namespace tributary::mesh
