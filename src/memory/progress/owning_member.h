#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/address/host_id.h"
#include "memory/progress/control_links.h"
#include "memory/progress/object_gets.h"
#include "memory/progress/pool_directory.h"
#include "memory/progress/pool_producer.h"
#include "memory/progress/producer_memory.h"
#include "memory/progress/served_objects.h"
#include "memory/protocol/owner_core.h"
#include "memory/transport/mapped_memory.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/tcp.h"
#include "memory/transport/ucx.h"

namespace tributary::memory {

/// What a producer is in one job.
struct OwningMember {
  OwningMember(const FoundPool& found, const PoolProducerOptions& options,
               const ProducerMemory& memory, std::uint16_t process, std::uint32_t incarnation)
      : core({.identity = {.process = process,
                           .controller = kControllerProcess,
                           .incarnation = incarnation},
              .timers = found.job.timers,
              .place = {.tier = Tier::kDram,
                        .process = process,
                        .page_bytes = memory.segment().layout().page_bytes,
                        .pages = static_cast<std::uint32_t>(memory.segment().layout().pages())},
              .reserve_pages = static_cast<std::uint32_t>(found.job.reserve_pages),
              .window = found.job.window,
              .encoders = options.encoders,
              .encode_attempts = options.encode_attempts},
             PageTable{}, memory.segment().generations()),
        objects(core, memory),
        end{.self = found.job.member(Role::kProducer, process, incarnation), .server = &objects},
        control({.self = end.self}, found.key),
        tcp(end, found.key),
        memfd(end, found.key),
        cuda(open_cuda(end, found.key, options)),
        key(found.key),
        reading{.engines = options.engines,
                .host = local_host_towards(found.job.endpoint),
                .device = options.device} {}

  /// Called once, when the controller has let it in.
  void begin_epoch(std::uint32_t epoch) {
    for (SocketLinks* links : {&control.links(), &tcp.links(), &memfd.links()})
      links->set_epoch(epoch);
    if (cuda) cuda->links().set_epoch(epoch);
    if (ucx) ucx->set_epoch(epoch);
    end.epoch = epoch;
  }
  /// Most producers never read: engines are opened for the first object that is asked for.
  ObjectGets& open_asked() {
    return asked.emplace(Reader{.process = end.self.process, .host_id = read_host_id()},
                         open_engines(end, key, reading), reading.device);
  }
  [[nodiscard]] std::vector<Transport*> engines() {
    std::vector<Transport*> all = {&tcp, &memfd};
    if (cuda) all.push_back(cuda.get());
    if (ucx) all.push_back(ucx.get());
    return all;
  }

  /// Null where it is not asked for.
  [[nodiscard]] static std::unique_ptr<MappedMemory> open_cuda(const LinkEnd& end,
                                                               const JobKey& key,
                                                               const PoolProducerOptions& options) {
    if (std::ranges::count(options.engines, Engine::kCudaMap) == 0) return nullptr;
    return std::make_unique<MappedMemory>(
        end, key, MappedOptions{.device = device_of(Engine::kCudaMap, options.device)});
  }

  OwnerCore core;
  ServedObjects objects;
  LinkEnd end;
  ControlLinks control;
  Tcp tcp;
  MappedMemory memfd;
  std::unique_ptr<MappedMemory> cuda;  // these two where they are asked for
  std::unique_ptr<Ucx> ucx;
  JobKey key;
  EngineOptions reading;
  std::optional<ObjectGets> asked;
};

}  // namespace tributary::memory
