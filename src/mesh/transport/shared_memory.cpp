#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <unistd.h>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/log.h"
#include "core/text.h"
#include "mesh/transport/messages.h"
#include "mesh/transport/shared_channel.h"

namespace tributary::mesh {
namespace {

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Names the machine and the namespace in which a process has one number.
std::string name_of_place() {
  std::error_code failure;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", failure).string();
  return str(read_first_line("/proc/sys/kernel/random/boot_id"), "/", space);
}

/// Returns the one watch of a process that serves all groups.
std::shared_ptr<const ProcessWatch> watch_of(int process) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<const ProcessWatch>> watches;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<const ProcessWatch> watch = watches[process].lock();
  if (!watch) watches[process] = watch = std::make_shared<const ProcessWatch>(process);
  return watch;
}

/// What goes from this rank to another and back.
struct Peer {
  std::unique_ptr<ChannelSender> sender = {};
  std::unique_ptr<ChannelReceiver> receiver = {};
  std::shared_ptr<const ProcessWatch> watch = {};
};

/// A message that was copied when it was sent: there is nothing to wait for.
class Sent final : public Message {
 public:
  void wait() override {}
};

class Awaited final : public Message {
 public:
  Awaited(const at::Tensor& values, Peer& peer, int tag, const Patience& patience)
      : values_(values), peer_(peer), tag_(tag), patience_(patience) {}

  void wait() override {
    peer_.receiver->take(values_.mutable_data_ptr(), values_.nbytes(), tag_, patience_);
  }

 private:
  at::Tensor values_;
  Peer& peer_;
  int tag_;
  Patience patience_;
};

class SharedMemory final : public Messenger {
 public:
  SharedMemory(std::vector<Peer> peers, double timeout_seconds)
      : peers_(std::move(peers)), timeout_seconds_(timeout_seconds) {}

  std::unique_ptr<Message> send(const at::Tensor& values, int to, int tag) override {
    peers_[static_cast<std::size_t>(to)].sender->put(values.const_data_ptr(), values.nbytes(), tag,
                                                     patience_with(to));
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Message> receive(const at::Tensor& values, int from, int tag) override {
    return std::make_unique<Awaited>(values, peers_[static_cast<std::size_t>(from)], tag,
                                     patience_with(from));
  }

 private:
  [[nodiscard]] Patience patience_with(int rank) const {
    return {.timeout_seconds = timeout_seconds_,
            .rank = rank,
            .other = peers_[static_cast<std::size_t>(rank)].watch.get()};
  }

  std::vector<Peer> peers_;  // [ranks], nothing at this one
  double timeout_seconds_;
};

/// How the ranks of a group find each other's memory, by what each writes to the store.
class Meeting {
 public:
  Meeting(c10d::Store& store, const TransportOptions& options)
      : store_(store), options_(options), peers_(static_cast<std::size_t>(options.size)) {}

  /// Null, with the reason in `why_not`, when it did not work for all ranks.
  std::unique_ptr<Messenger> hold(std::string& why_not) {
    publish("memory", describe_own());
    for (int rank = 0; rank < options_.size && problem_.empty(); ++rank)
      if (rank != options_.index) open(rank);
    publish("opened", problem_);
    for (int rank = 0; rank < options_.size; ++rank) {
      const std::string problem = read("opened", rank);
      if (why_not.empty()) why_not = problem;
    }
    if (!why_not.empty()) return nullptr;
    for (Peer& peer : peers_)
      if (peer.sender) peer.sender->mapping().close_descriptor();
    return std::make_unique<SharedMemory>(std::move(peers_), options_.timeout_seconds);
  }

 private:
  [[nodiscard]] std::string key(const char* what, int rank) const {
    return str(options_.name, "/", what, "/", rank);
  }
  void publish(const char* what, const std::string& text) {
    store_.set(key(what, options_.index), std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  [[nodiscard]] std::string read(const char* what, int rank) {
    const std::vector<std::uint8_t> bytes = store_.get(key(what, rank));
    return {bytes.begin(), bytes.end()};
  }

  /// `place process`, and descriptor and identity of the memory for each rank.
  std::string describe_own() {
    std::string text = str(name_of_place(), " ", getpid());
    try {
      if (asks_for_sockets()) throw std::runtime_error("GLOO_SOCKET_IFNAME names an interface");
      for (int rank = 0; rank < options_.size; ++rank) {
        if (rank == options_.index) {
          text += " -1 0";
          continue;
        }
        peers_[at(rank)].sender = std::make_unique<ChannelSender>();
        const ChannelMapping& mapping = peers_[at(rank)].sender->mapping();
        text += str(" ", mapping.descriptor(), " ", mapping.identity());
      }
    } catch (const std::exception& failure) {
      problem_ = failure.what();
    }
    return text;
  }
  static bool asks_for_sockets() {
    const char* given = std::getenv("GLOO_SOCKET_IFNAME");
    return given != nullptr && *given != '\0';
  }

  void open(int rank) {
    std::istringstream text(read("memory", rank));
    std::string place;
    int process = 0;
    text >> place >> process;
    int descriptor = -1;
    std::uint64_t identity = 0;
    for (int i = 0; i <= options_.index; ++i) text >> descriptor >> identity;
    if (place != name_of_place()) {
      problem_ = "ranks are in different process name spaces";
      return;
    }
    try {
      if (!text) throw std::runtime_error("another rank has no memory to share");
      peers_[at(rank)].receiver = std::make_unique<ChannelReceiver>(process, descriptor, identity);
      peers_[at(rank)].watch = watch_of(process);
    } catch (const std::exception& failure) {
      problem_ = failure.what();
    }
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  c10d::Store& store_;
  const TransportOptions& options_;
  std::vector<Peer> peers_;
  std::string problem_;
};

}  // namespace

std::unique_ptr<Messenger> open_shared_memory(const c10::intrusive_ptr<c10d::Store>& store,
                                              const TransportOptions& options) {
  std::string why_not;
  std::unique_ptr<Messenger> messenger = Meeting(*store, options).hold(why_not);
  static std::once_flag told;  // it is the same for all groups
  if (!messenger && options.index == 0)
    std::call_once(told, [&] { log_note(str("mesh: messages go through sockets: ", why_not)); });
  return messenger;
}

}  // namespace tributary::mesh
