#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "mesh/transport/transports.h"

namespace tributary::mesh {

/// One message under way. The tensor stays as it is until the wait.
class Message {
 public:
  virtual ~Message() = default;
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  /// errors: std::exception, with `timed out` in its text when that was the cause
  virtual void wait() = 0;
};

/// Messages between two ranks of a group on CPU, by tag; of one tag in the order in which they are
/// sent. The receiver knows type and size.
class Messenger {
 public:
  virtual ~Messenger() = default;
  Messenger() = default;
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  [[nodiscard]] virtual std::unique_ptr<Message> send(const at::Tensor& values, int to,
                                                      int tag) = 0;
  [[nodiscard]] virtual std::unique_ptr<Message> receive(const at::Tensor& values, int from,
                                                         int tag) = 0;
};

/// Through sockets, by Gloo.
///
/// All ranks of the group construct it at the same time.
[[nodiscard]] std::unique_ptr<Messenger> open_sockets(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const TransportOptions& options);
/// Through memory that the processes of one machine share: the sender copies in when it sends, the
/// receiver copies out when it waits, and no thread works beside them. Null when some rank
/// cannot open the memory of another; all ranks of the group find the same.
///
/// The variable GLOO_SOCKET_IFNAME asks for sockets.
///
/// owns:   memory for what is under way, and up to 64 MiB of it between two ranks when nothing is;
///         it ends with the processes, however they end
/// errors: of a send and a wait std::runtime_error when the other rank has ended
[[nodiscard]] std::unique_ptr<Messenger> open_shared_memory(
    const c10::intrusive_ptr<c10d::Store>& store, const TransportOptions& options);

}  // namespace tributary::mesh
