// Messages through sockets, by Gloo's point-to-point messages. Its own collectives copy through the
// host of one thread and took 2 to 10 times as long on loopback.
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "core/error.h"
#include "mesh/transport/messages.h"

namespace tributary::mesh {
namespace {

class SocketMessage final : public Message {
 public:
  SocketMessage(c10::intrusive_ptr<c10d::Work> work, const at::Tensor& values)
      : work_(std::move(work)), values_(values) {}
  void wait() override { work_->wait(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor values_;
};

class Sockets final : public Messenger {
 public:
  explicit Sockets(c10::intrusive_ptr<c10d::ProcessGroupGloo> pairs) : pairs_(std::move(pairs)) {}

  std::unique_ptr<Message> send(const at::Tensor& values, int to, int tag) override {
    std::vector<at::Tensor> pieces{values};
    return std::make_unique<SocketMessage>(pairs_->send(pieces, to, tag), values);
  }
  std::unique_ptr<Message> receive(const at::Tensor& values, int from, int tag) override {
    std::vector<at::Tensor> pieces{values};
    return std::make_unique<SocketMessage>(pairs_->recv(pieces, from, tag), values);
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> pairs_;
};

/// One event loop serves all groups of a process on one interface.
std::shared_ptr<gloo::transport::Device> device_for(const std::string& interface) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<gloo::transport::Device>> devices;
  const std::scoped_lock lock(mutex);
  auto& device = devices[interface];
  if (!device)
    device = interface.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                               : c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return device;
}

}  // namespace

std::unique_ptr<Messenger> open_sockets(const c10::intrusive_ptr<c10d::Store>& store,
                                        const TransportOptions& options) {
  const auto settings = c10d::ProcessGroupGloo::Options::create(
      std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000)));
  settings->threads = 1;
  settings->devices.push_back(device_for(options.interface));
  settings->group_name = options.name;
  try {
    return std::make_unique<Sockets>(c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>(options.name, store), options.index, options.size,
        settings));
  } catch (const std::exception& broken) {
    TRIB_RAISE(Fault::kResource, .what = "mesh: ranks of a group did not meet",
               .where = options.name, .found = std::string(broken.what()).substr(0, 300),
               .expected = str(options.size, " ranks"), .exit = ExitCode::kPeerLost);
  }
}

}  // namespace tributary::mesh
