#include "memory/transport/choose_engine.h"

#include <algorithm>
#include <array>
#include <poll.h>
#include <variant>

#include "core/error.h"
#include "core/log.h"
#include "core/random.h"
#include "core/stopwatch.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{64} << 10;

struct Preference {
  Reach distance;
  Tier tier;
  std::array<Engine, 4> engines;
  std::size_t count;
};

constexpr std::array kPreferences = {
    Preference{Reach::kProcess, Tier::kDram, {Engine::kInProcess}, 1},
    Preference{Reach::kProcess, Tier::kHbm, {Engine::kInProcess}, 1},
    Preference{Reach::kHost,
               Tier::kDram,
               {Engine::kCudaMap, Engine::kMemfd, Engine::kUcx, Engine::kTcp},
               4},
    Preference{Reach::kHost, Tier::kHbm, {Engine::kCudaMap}, 1},
    Preference{Reach::kNetwork, Tier::kDram, {Engine::kUcx, Engine::kTcp}, 2},
    Preference{Reach::kNetwork, Tier::kHbm, {Engine::kCudaMap, Engine::kUcx}, 2},
};

bool reads(const TransportTraits& traits, Tier tier, Reach distance) {
  return traits.reach >= distance && (tier == Tier::kDram ? traits.reads_dram : traits.reads_hbm);
}

TimePoint now() { return {static_cast<std::int64_t>(now_seconds() * 1e9)}; }

void wait_for(const Transport& engine, TimePoint deadline) {
  const std::int64_t left_ms = (deadline - now()).count / 1'000'000;
  // The engine notices deadlines only in poll(), so it is never left for long.
  const int wait_ms = static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 5));
  pollfd wake{.fd = engine.wake_fd(), .events = POLLIN, .revents = 0};
  ::poll(&wake, engine.wake_fd() >= 0 ? 1 : 0, engine.wake_fd() >= 0 ? wait_ms : 0);
}

/// Polls until the transfer ends.
Status await(Transport& engine, TransferId transfer, TimePoint deadline) {
  std::array<Completion, 16> events;
  while (true) {
    const std::size_t count = engine.poll(events, now());
    for (std::size_t i = 0; i < count; ++i)
      if (const auto* done = std::get_if<TransferDone>(&events[i]);
          done != nullptr && done->transfer == transfer)
        return done->status;
    wait_for(engine, deadline);
  }
}

}  // namespace

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::kInProcess:
      return "in-process";
    case Engine::kMemfd:
      return "memfd";
    case Engine::kTcp:
      return "tcp";
    case Engine::kUcx:
      return "ucx";
    case Engine::kCudaMap:
      return "cuda";
  }
  return "unknown";
}

std::optional<Engine> find_engine(std::string_view name) {
  for (const Engine engine :
       {Engine::kInProcess, Engine::kMemfd, Engine::kTcp, Engine::kUcx, Engine::kCudaMap})
    if (name_of(engine) == name) return engine;
  return std::nullopt;
}

Reach distance_to(const SegmentRow& row, const Reader& reader) {
  if (row.host_id != reader.host_id) return Reach::kNetwork;
  return row.process == reader.process ? Reach::kProcess : Reach::kHost;
}

std::span<const Engine> preferred_engines(Reach distance, Tier tier) {
  for (const Preference& each : kPreferences)
    if (each.distance == distance && each.tier == tier)
      return std::span(each.engines).first(each.count);
  return {};
}

std::vector<std::byte> probe_pattern(std::uint16_t process) {
  RandomStream random(process, "probe");
  std::vector<std::byte> pattern(kPatternBytes);
  for (std::byte& byte : pattern) byte = static_cast<std::byte>(random.next());
  return pattern;
}

Status probe_engine(Transport& engine, const SegmentRow& row, const ObjectHandle& pattern,
                    TimePoint deadline) {
  const Result<PeerLink> link = engine.connect(row, deadline);
  if (!link) return Status::kBackend;
  std::vector<std::byte> bytes(pattern.fields.bytes);
  const Result<TransferId> transfer = engine.post_get(link.value(), pattern, bytes, deadline);
  Status status = Status::kBackend;
  if (transfer) status = await(engine, transfer.value(), deadline);
  if (status == Status::kOk && bytes != probe_pattern(row.process)) status = Status::kCorrupt;
  engine.close(link.value(), CloseMode::kDrain);
  return status;
}

Result<EngineChoice> choose_engine(const SegmentRow& row, const Reader& reader,
                                   std::span<Transport* const> engines,
                                   const std::function<std::string(Transport&)>& probe,
                                   std::optional<Engine> required) {
  const Reach distance = distance_to(row, reader);
  const std::string segment = str("segment of process ", row.process, ", ", name_of(row.tier));
  EngineChoice choice;
  std::string against;  // every engine, also those that are not open
  const auto pass_over = [&](Engine engine, std::string_view why, bool is_open = true) {
    for (std::string* text : {&against, &choice.passed_over})
      if (is_open || text == &against)
        *text += str(text->empty() ? "" : ", ", name_of(engine), ": ", why);
  };
  for (const Engine wanted : preferred_engines(distance, row.tier)) {
    const auto found = std::ranges::find_if(
        engines, [&](const Transport* each) { return each->traits().engine == wanted; });
    if (found == engines.end()) {
      pass_over(wanted, "not built or not opened", /*is_open=*/false);
    } else if (!reads((*found)->traits(), row.tier, distance)) {
      pass_over(wanted, "does not reach this memory");
    } else if (distance != Reach::kProcess && row.find_key(wanted) == nullptr) {
      pass_over(wanted, "not offered by the owner");
    } else if (const std::string fault = probe(**found); !fault.empty()) {
      pass_over(wanted, fault);
    } else {
      choice.engine = *found;
      break;
    }
  }
  const bool is_required =
      required && (choice.engine == nullptr || choice.engine->traits().engine != *required);
  TRIB_REQUIRE(!is_required, .what = "memory: the required engine does not work", .where = segment,
               .found = against.empty() ? "another one is nearer" : against,
               .expected = std::string(name_of(*required)));
  if (choice.engine == nullptr)
    return Refusal{"engine", str("memory: no engine reads the ", segment, ": ",
                                 against.empty() ? "none can" : against)};
  log_note(str("memory: ", segment, " is read by ", choice.engine->traits().name,
               choice.passed_over.empty() ? "" : str(" (", choice.passed_over, ")")));
  return choice;
}

}  // namespace tributary::memory
