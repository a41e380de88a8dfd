#include "memory/progress/object_links.h"

#include <algorithm>
#include <array>
#include <variant>

#include "core/log.h"
#include "memory/address/host_id.h"
#include "memory/transport/memfd.h"
#include "memory/transport/tcp.h"

namespace tributary::memory {
namespace {

constexpr Nanoseconds kConnectTime{5'000'000'000};
constexpr Nanoseconds kGetTime{2'000'000'000};  // for each 64 MiB
constexpr std::uint64_t kGetBytes = std::uint64_t{64} << 20;

Status status_of(const Refusal& refusal) {
  if (refusal.code == "busy") return Status::kBusy;
  return refusal.code == "peer_lost" ? Status::kPeerLost : Status::kBackend;
}

}  // namespace

ObjectLinks::ObjectLinks(const LinkEnd& end, const JobKey& key, const ObjectLinksOptions& options)
    : self_{.process = end.self.process, .host_id = read_host_id()} {
  const auto is_wanted = [&](Engine engine) {
    return !options.engine || *options.engine == engine;
  };
  if (is_wanted(Engine::kMemfd))
    engines_.push_back(
        std::make_unique<Memfd>(end, key, MemfdOptions{.copy_threads = options.copy_threads}));
  if (is_wanted(Engine::kTcp)) engines_.push_back(std::make_unique<Tcp>(end, key));
}

/// Connecting is the probe: a link that is refused later passes its engine over the next time.
bool ObjectLinks::open(Owner& owner, TimePoint now) {
  std::vector<Transport*> engines;
  for (const auto& engine : engines_)
    if (std::ranges::count(owner.refused, engine.get()) == 0) engines.push_back(engine.get());
  const auto connect = [&](Transport& engine) {
    const Result<PeerLink> link = engine.connect(owner.row, now + kConnectTime);
    if (link) owner.link = link.value();
    return link ? Status::kOk : Status::kPeerLost;
  };
  const Result<EngineChoice> choice = choose_engine(owner.row, self_, engines, connect);
  if (choice) {
    owner.engine = choice.value().engine;
  } else {
    log_warning(choice.refusal().reason);
    owner.refused.clear();  // all are tried again
  }
  return choice.has_value();
}

void ObjectLinks::get(std::uint64_t request, const SegmentRow& row, const ObjectHandle& handle,
                      std::span<std::byte> into, TimePoint now) {
  if (handle.fields.bytes == 0) {
    ended_.push_back({.request = request, .status = Status::kOk});
    return;
  }
  Owner& owner = owners_.try_emplace(row.process, Owner{.row = row}).first->second;
  if (owner.engine == nullptr && !open(owner, now)) {
    ended_.push_back({.request = request, .status = Status::kPeerLost});
    return;
  }
  const auto parts = static_cast<std::int64_t>(handle.fields.bytes / kGetBytes + 1);
  const Result<TransferId> transfer =
      owner.engine->post_get(owner.link, handle, into, now + kGetTime * parts);
  if (transfer)
    requests_[{owner.engine, transfer.value()}] = request;
  else
    ended_.push_back({.request = request, .status = status_of(transfer.refusal())});
}

void ObjectLinks::take_end(const Transport& engine, const LinkClosed& event) {
  for (auto& [process, owner] : owners_) {
    if (owner.engine != &engine || owner.link != event.link) continue;
    if (event.status == Status::kBackend) owner.refused.push_back(owner.engine);
    owner.engine = nullptr;
    return;
  }
}

bool ObjectLinks::poll(TimePoint now, const std::function<void(const GetDone&)>& tell) {
  std::vector<GetDone> ended = std::exchange(ended_, {});
  bool had_work = !ended.empty();
  for (const auto& engine : engines_) {
    std::array<Completion, 64> events;
    const std::size_t count = engine->poll(events, now);
    had_work = had_work || count > 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto* closed = std::get_if<LinkClosed>(&events[i])) take_end(*engine, *closed);
      const auto* done = std::get_if<TransferDone>(&events[i]);
      if (done == nullptr) continue;
      if (const auto request = requests_.extract({engine.get(), done->transfer}))
        ended.push_back({.request = request.mapped(), .status = done->status});
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

}  // namespace tributary::memory
