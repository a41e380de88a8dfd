#include "memory/progress/object_links.h"

#include <algorithm>
#include <array>
#include <variant>

#include "core/error.h"
#include "core/log.h"
#include "memory/transport/mapped_memory.h"
#include "memory/transport/tcp.h"
#include "memory/transport/ucx.h"

namespace tributary::memory {
namespace {

constexpr Nanoseconds kConnectTime{5'000'000'000};
constexpr Nanoseconds kGetTime{2'000'000'000};  // for each 64 MiB
constexpr std::uint64_t kGetBytes = std::uint64_t{64} << 20;
constexpr Nanoseconds kFirstRest{1'000'000'000}, kLongestRest{300'000'000'000};

Status status_of(const Refusal& refusal) {
  if (refusal.code == "busy") return Status::kBusy;
  return refusal.code == "peer_lost" ? Status::kPeerLost : Status::kBackend;
}

/// Whether another engine may do better: what else a GET ends with is the owner's word.
bool is_fault_of_engine(Status status) {
  return status == Status::kTimeout || status == Status::kPeerLost || status == Status::kBackend ||
         status == Status::kCorrupt;
}

}  // namespace

std::shared_ptr<DeviceMemory> device_of(Engine engine,
                                        const std::shared_ptr<DeviceMemory>& device) {
  if (engine != Engine::kCudaMap) return nullptr;
  TRIB_CHECK(device, .what = "memory: the engine cuda is opened without a device");
  return device;
}

/// Connecting is the probe. A GET that fails later lets its engine rest.
bool ObjectLinks::open(Owner& owner, TimePoint now) {
  std::vector<Transport*> all, rested;
  owner.look_again = kNever;
  for (const auto& engine : engines_) {
    all.push_back(engine.get());
    if (owner.rests[engine.get()].until <= now) rested.push_back(engine.get());
  }
  const auto connect = [&](Transport& engine) {
    const Result<PeerLink> link = engine.connect(owner.row, now + kConnectTime);
    if (!link) return link.refusal().reason;
    owner.link = link.value();
    return std::string();
  };
  Result<EngineChoice> choice = choose_engine(owner.row, self_, rested, connect);
  if (!choice) choice = choose_engine(owner.row, self_, all, connect);
  if (choice)
    owner.engine = choice.value().engine;
  else
    log_warning(choice.refusal().reason);
  for (const Engine better : preferred_engines(distance_to(owner.row, self_), owner.row.tier)) {
    if (owner.engine == nullptr || owner.engine->traits().engine == better) break;
    for (const auto& [engine, rest] : owner.rests)
      if (engine->traits().engine == better && rest.until > now)
        owner.look_again = std::min(owner.look_again, rest.until);
  }
  return choice.has_value();
}

/// The engine has failed: it rests, and the next object opens another one.
void ObjectLinks::leave(Owner& owner, std::string_view why, TimePoint now) {
  Rest& rest = owner.rests[owner.engine];
  const std::int64_t times = std::int64_t{1} << std::min(rest.failures++, 9U);
  rest.until = now + std::min(kFirstRest * times, kLongestRest);
  log_warning(str("memory: ", owner.engine->traits().name, " fails to read from process ",
                  owner.row.process, " and rests for ", seconds_of(rest.until - now), " s: ", why));
  owner.engine = nullptr;
}

void ObjectLinks::get(std::uint64_t request, const SegmentRow& row, const ObjectHandle& handle,
                      const Place& place, TimePoint now) {
  if (handle.fields.bytes == 0) {
    ended_.push_back({.request = request, .status = Status::kOk});
    return;
  }
  Owner& owner = owners_.try_emplace(row.process, Owner{.row = row}).first->second;
  if (owner.engine != nullptr && now >= owner.look_again) {
    owner.engine->close(owner.link, CloseMode::kDrain);
    owner.engine = nullptr;
  }
  if (owner.engine == nullptr && !open(owner, now)) {
    ended_.push_back({.request = request, .status = Status::kPeerLost});
    return;
  }
  const auto parts = static_cast<std::int64_t>(handle.fields.bytes / kGetBytes + 1);
  const Result<TransferId> transfer = owner.engine->post_get(
      owner.link, handle, place(owner.engine->traits().engine), now + kGetTime * parts);
  if (transfer)
    requests_[{owner.engine, transfer.value()}] = {
        .number = request, .process = row.process, .link = owner.link};
  else
    ended_.push_back({.request = request, .status = status_of(transfer.refusal())});
}

/// Nothing was under way, so it is no fault of the engine: mostly its owner has ended.
void ObjectLinks::take_end(const Transport& engine, PeerLink link) {
  for (auto& [process, owner] : owners_)
    if (owner.engine == &engine && owner.link == link) owner.engine = nullptr;
}

GetDone ObjectLinks::take_done(Transport& engine, const Request& request, Status status,
                               TimePoint now) {
  const auto owner = owners_.find(request.process);
  const bool is_open = owner != owners_.end() && owner->second.engine == &engine &&
                       owner->second.link == request.link;
  if (is_open && status == Status::kOk) owner->second.rests.erase(&engine);
  if (is_open && is_fault_of_engine(status)) {
    engine.close(owner->second.link, CloseMode::kForce);
    leave(owner->second, name_of(status), now);
  }
  return {.request = request.number, .status = status};
}

bool ObjectLinks::poll(TimePoint now, const std::function<void(const GetDone&)>& tell) {
  std::vector<GetDone> ended = std::exchange(ended_, {});
  bool had_work = !ended.empty();
  for (const auto& engine : engines_) {
    std::array<Completion, 64> events;
    const std::size_t count = engine->poll(events, now);
    had_work = had_work || count > 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto* closed = std::get_if<LinkClosed>(&events[i])) take_end(*engine, closed->link);
      const auto* done = std::get_if<TransferDone>(&events[i]);
      if (done == nullptr) continue;
      if (const auto request = requests_.extract({engine.get(), done->transfer}))
        ended.push_back(take_done(*engine, request.mapped(), done->status, now));
    }
  }
  for (const GetDone& done : ended) tell(done);
  return had_work;
}

void ObjectLinks::close_old(const std::function<bool(const SegmentRow&)>& is_current) {
  std::erase_if(owners_, [&](const auto& entry) {
    const Owner& owner = entry.second;
    if (is_current(owner.row)) return false;
    if (owner.engine != nullptr) owner.engine->close(owner.link, CloseMode::kForce);
    return true;
  });
}

std::map<std::uint16_t, Engine> ObjectLinks::engines() const {
  std::map<std::uint16_t, Engine> engines;
  for (const auto& [process, owner] : owners_)
    if (owner.engine != nullptr) engines[process] = owner.engine->traits().engine;
  return engines;
}

std::vector<int> ObjectLinks::wake_fds() const {
  std::vector<int> descriptors;
  for (const auto& engine : engines_) descriptors.push_back(engine->wake_fd());
  return descriptors;
}

std::vector<std::unique_ptr<Transport>> open_engines(const LinkEnd& end, const JobKey& key,
                                                     const EngineOptions& options) {
  std::vector<std::unique_ptr<Transport>> engines;
  for (const Engine engine : options.engines)
    if (engine == Engine::kMemfd || engine == Engine::kCudaMap)
      engines.push_back(std::make_unique<MappedMemory>(
          end, key,
          MappedOptions{.copy_threads = options.copy_threads,
                        .device = device_of(engine, options.device)}));
    else if (engine == Engine::kTcp)
      engines.push_back(std::make_unique<Tcp>(end, key));
    else
      engines.push_back(require_ucx(end, key, options.host));
  return engines;
}

}  // namespace tributary::memory
