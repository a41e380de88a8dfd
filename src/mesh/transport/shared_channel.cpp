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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include "core/text.h"
#include "mesh/transport/group.h"

namespace tributary::mesh {

enum class SlotState : std::uint32_t { kFree, kFull, kTaken };

/// Describes one message. The sender writes it; the receiver only turns it from full to taken.
struct Slot {
  std::atomic<SlotState> state{SlotState::kFree};
  std::int32_t tag = 0;
  std::uint64_t sequence = 0;  // of all messages of the channel
  std::size_t offset = 0;      // of its bytes
  std::size_t size = 0;
};

constexpr int kSlots = 4096;
constexpr std::size_t kLine = 64;
constexpr std::size_t kKept = std::size_t{64} << 20;  // of memory, while no message is under way

/// New memory is all zero, which is a channel without messages.
struct ChannelMemory {
  std::atomic<std::uint32_t> posted{0};  // counts up with every message, and at the close
  std::atomic<std::uint32_t> taken{0};   // counts up with every message taken
  std::atomic<std::uint32_t> sender_closed{0};
  std::atomic<std::uint32_t> receiver_closed{0};
  std::atomic<std::int32_t> used{0};  // slots that were ever in use
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

/// Sleeps until the word changes, or for kLookAgain at most.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const std::timespec time{.tv_sec = 0, .tv_nsec = kLookAgain};
  if (syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0) == 0) return;
  if (errno != ETIMEDOUT && errno != EAGAIN && errno != EINTR) raise_system("futex");
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
    const std::string other = str("rank ", patience.rank, " of the group");
    if (has_ended) throw std::runtime_error(other + " has ended");
    if (now_seconds() > deadline)
      throw std::runtime_error(
          str("timed out after ", patience.timeout_seconds, " s, waiting for ", other));
    has_ended = closed.load(std::memory_order_acquire) != 0 ||
                (patience.other != nullptr && patience.other->has_ended());
    if (!has_ended) sleep_on(word, seen);  // it may have sent before it ended
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
  rlimit max{};
  if (getrlimit(RLIMIT_FSIZE, &max) == 0 && max.rlim_cur < kMapped)
    throw std::runtime_error("files may not be as large as the room for messages");
  if (ftruncate(descriptor_.get(), static_cast<off_t>(kMapped)) != 0)
    raise_system("memory cannot be sized");
  map();
}

ChannelMapping::ChannelMapping(int process, int descriptor, std::uint64_t identity)
    : descriptor_(open(str("/proc/", process, "/fd/", descriptor).c_str(), O_RDWR | O_CLOEXEC)) {
  if (!descriptor_) raise_system("memory of another rank cannot be opened");
  if (this->identity() != identity)
    throw std::runtime_error("processes are not seen under their numbers");
  map();
  close_descriptor();
}

std::uint64_t ChannelMapping::identity() const {
  struct stat status {};
  if (fstat(descriptor_.get(), &status) != 0) raise_system("memory cannot be told apart");
  return status.st_ino ^ (std::uint64_t{status.st_dev} << 48);
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
  mapping_.memory().sender_closed.store(1, std::memory_order_release);
  wake(mapping_.memory().posted);
}

ChannelReceiver::~ChannelReceiver() {
  mapping_.memory().receiver_closed.store(1, std::memory_order_release);
  wake(mapping_.memory().taken);
}

void ChannelSender::forget_taken() {
  std::array<Slot, kSlots>& slots = mapping_.memory().slots;
  std::erase_if(under_way_, [&](const UnderWay& message) {
    Slot& slot = slots[static_cast<std::size_t>(message.slot)];
    if (slot.state.load(std::memory_order_acquire) != SlotState::kTaken) return false;
    slot.state.store(SlotState::kFree, std::memory_order_relaxed);
    return true;
  });
  if (!under_way_.empty() || touched_ <= kKept) return;
  // Whole pages from the first one on; what cannot be given back is used again.
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<std::uintptr_t>(mapping_.memory().room());
  begin = (begin + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(begin), touched_, MADV_REMOVE);
  touched_ = 0;
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
  if (size > kRoom) throw std::runtime_error(str("a message of ", size, " bytes is above ", kRoom));
  UnderWay message;
  repeat(memory.taken, memory.receiver_closed, patience, [&] {
    forget_taken();
    const std::optional<UnderWay> room = find_room(size);
    if (room) message = *room;
    return room.has_value();
  });
  under_way_.insert(std::ranges::upper_bound(under_way_, message.offset, {}, &UnderWay::offset),
                    message);
  touched_ = std::max(touched_, message.offset + message.size);
  std::memcpy(memory.room() + message.offset, bytes, size);
  Slot& slot = memory.slots[static_cast<std::size_t>(message.slot)];
  slot.tag = tag;
  slot.sequence = ++sent_;
  slot.offset = message.offset;
  slot.size = size;
  if (memory.used.load(std::memory_order_relaxed) <= message.slot)
    memory.used.store(message.slot + 1, std::memory_order_relaxed);
  slot.state.store(SlotState::kFull, std::memory_order_release);
  wake(memory.posted);
}

void ChannelReceiver::take(void* bytes, std::size_t size, int tag, const Patience& patience) {
  ChannelMemory& memory = mapping_.memory();
  Slot* first = nullptr;
  const auto look = [&] {
    const std::int32_t used = memory.used.load(std::memory_order_relaxed);
    for (std::int32_t i = 0; i < used; ++i) {
      Slot& slot = memory.slots[static_cast<std::size_t>(i)];
      if (slot.state.load(std::memory_order_acquire) != SlotState::kFull || slot.tag != tag)
        continue;
      if (first == nullptr || slot.sequence < first->sequence) first = &slot;
    }
    return first != nullptr;
  };
  // Two messages may come during a look that sees only the later one; a second look sees all that
  // were sent before it.
  repeat(memory.posted, memory.sender_closed, patience, [&] { return look() && look(); });
  if (first->size != size)
    throw std::runtime_error(
        str("a message of ", first->size, " bytes came where ", size, " were expected"));
  std::memcpy(bytes, memory.room() + first->offset, size);
  first->state.store(SlotState::kTaken, std::memory_order_release);
  wake(memory.taken);
}

}  // namespace tributary::mesh
