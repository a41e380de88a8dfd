#include "mesh/transport/shared_channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <poll.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <system_error>

#include "core/text.h"
#include "mesh/group.h"

namespace tributary::mesh {

enum class SlotState : std::uint32_t { kFree, kFull, kTaken };

/// Tells of one message. Written by the sender but for the step from full to taken.
struct Slot {
  std::atomic<SlotState> state{SlotState::kFree};
  std::int32_t tag = 0;
  std::uint64_t sequence = 0;  // of all messages of the channel
  std::size_t offset = 0;      // of its bytes
  std::size_t size = 0;
};

constexpr int kSlots = 4096;
constexpr std::size_t kRoom = std::size_t{16} << 30;  // of addresses; memory as far as it is used
constexpr std::size_t kLine = 64;

/// New memory is all zero, which is a channel without messages.
struct ChannelMemory {
  std::atomic<std::uint32_t> posted{0};  // counts up with every message, and at the close
  std::atomic<std::uint32_t> taken{0};   // counts up with every message taken
  std::atomic<std::uint32_t> closed{0};
  std::atomic<std::int32_t> used{0};  // slots that ever were
  std::array<Slot, kSlots> slots;

  [[nodiscard]] std::byte* room() {
    const std::size_t header = (sizeof(ChannelMemory) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<std::byte*>(this) + header;
  }
};

static_assert(std::atomic<SlotState>::is_always_lock_free);

namespace {

constexpr std::size_t kMapped = sizeof(ChannelMemory) + kLine + kRoom;
constexpr long kLookAgain = 50'000'000;  // ns: how soon the end of the other process is noticed

[[noreturn]] void raise_system(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void wake(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// Sleeps until the word is another; false when it has not changed for a while.
bool sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const std::timespec time{.tv_sec = 0, .tv_nsec = kLookAgain};
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
  return result == 0 || errno != ETIMEDOUT;
}

/// Calls `attempt` until it succeeds, each time after the word has changed.
template <class Attempt>
void repeat(std::atomic<std::uint32_t>& word, const std::atomic<std::uint32_t>& closed,
            const Patience& patience, const Attempt& attempt) {
  const double deadline = now_seconds() + patience.timeout_seconds;
  bool has_ended = false;
  while (true) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (attempt()) return;
    if (has_ended) throw std::runtime_error("the other rank has ended");
    if (closed.load(std::memory_order_acquire) != 0) {
      has_ended = true;  // but may have sent before
      continue;
    }
    if (sleep_on(word, seen)) continue;
    has_ended = patience.other != nullptr && patience.other->has_ended();
    if (!has_ended && now_seconds() > deadline)
      throw std::runtime_error(str("timed out after ", patience.timeout_seconds, " s"));
  }
}

}  // namespace

ProcessWatch::ProcessWatch(int process)
    : descriptor_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {}

bool ProcessWatch::has_ended() const {
  if (!descriptor_) return false;
  pollfd end{.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
  return poll(&end, 1, 0) == 1;
}

ChannelMapping::ChannelMapping() : descriptor_(memfd_create("tributary messages", MFD_CLOEXEC)) {
  if (!descriptor_) raise_system("memory cannot be made");
  if (ftruncate(descriptor_.get(), static_cast<off_t>(kMapped)) != 0)
    raise_system("memory cannot be sized");
  map();
}

ChannelMapping::ChannelMapping(int process, int descriptor)
    : descriptor_(open(str("/proc/", process, "/fd/", descriptor).c_str(), O_RDWR | O_CLOEXEC)) {
  if (!descriptor_) raise_system("memory of another rank cannot be opened");
  map();
  close_descriptor();
}

void ChannelMapping::map() {
  void* begin = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                     descriptor_.get(), 0);
  if (begin == MAP_FAILED) raise_system("memory cannot be mapped");
  madvise(begin, kMapped, MADV_DONTDUMP);
  memory_ = std::launder(static_cast<ChannelMemory*>(begin));
}

ChannelMapping::~ChannelMapping() {
  if (memory_ != nullptr) munmap(memory_, kMapped);
}

ChannelSender::~ChannelSender() {
  mapping_.memory().closed.store(1, std::memory_order_release);
  wake(mapping_.memory().posted);
}

void ChannelSender::forget_taken() {
  std::array<Slot, kSlots>& slots = mapping_.memory().slots;
  std::erase_if(under_way_, [&](const UnderWay& message) {
    Slot& slot = slots[static_cast<std::size_t>(message.slot)];
    if (slot.state.load(std::memory_order_acquire) != SlotState::kTaken) return false;
    slot.state.store(SlotState::kFree, std::memory_order_relaxed);
    return true;
  });
}

std::optional<ChannelSender::UnderWay> ChannelSender::find_room(std::size_t size) const {
  UnderWay found{
      .offset = 0, .size = (std::max<std::size_t>(size, 1) + kLine - 1) / kLine * kLine, .slot = 0};
  for (const UnderWay& message : under_way_) {
    if (found.offset + found.size <= message.offset) break;
    found.offset = message.offset + message.size;
  }
  const auto& slots = mapping_.memory().slots;
  while (found.slot < kSlots && slots[static_cast<std::size_t>(found.slot)].state.load(
                                    std::memory_order_relaxed) != SlotState::kFree)
    ++found.slot;
  if (found.offset + found.size > kRoom || found.slot == kSlots) return std::nullopt;
  return found;
}

void ChannelSender::put(const void* bytes, std::size_t size, int tag, const Patience& patience) {
  ChannelMemory& memory = mapping_.memory();
  UnderWay message;
  repeat(memory.taken, memory.closed, patience, [&] {
    forget_taken();
    const std::optional<UnderWay> room = find_room(size);
    if (room) message = *room;
    return room.has_value();
  });
  std::memcpy(memory.room() + message.offset, bytes, size);
  Slot& slot = memory.slots[static_cast<std::size_t>(message.slot)];
  slot.tag = tag;
  slot.sequence = ++sent_;
  slot.offset = message.offset;
  slot.size = size;
  slot.state.store(SlotState::kFull, std::memory_order_release);
  if (memory.used.load(std::memory_order_relaxed) <= message.slot)
    memory.used.store(message.slot + 1, std::memory_order_relaxed);
  under_way_.insert(std::ranges::upper_bound(under_way_, message.offset, {}, &UnderWay::offset),
                    message);
  wake(memory.posted);
}

void ChannelReceiver::take(void* bytes, std::size_t size, int tag, const Patience& patience) {
  ChannelMemory& memory = mapping_.memory();
  Slot* first = nullptr;
  repeat(memory.posted, memory.closed, patience, [&] {
    const std::int32_t used = memory.used.load(std::memory_order_relaxed);
    for (std::int32_t i = 0; i < used; ++i) {
      Slot& slot = memory.slots[static_cast<std::size_t>(i)];
      if (slot.state.load(std::memory_order_acquire) != SlotState::kFull || slot.tag != tag)
        continue;
      if (first == nullptr || slot.sequence < first->sequence) first = &slot;
    }
    return first != nullptr;
  });
  if (first->size != size)
    throw std::runtime_error(
        str("a message of ", first->size, " bytes came where ", size, " were expected"));
  std::memcpy(bytes, memory.room() + first->offset, size);
  first->state.store(SlotState::kTaken, std::memory_order_release);
  wake(memory.taken);
}

}  // namespace tributary::mesh
