#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace tributary::memory {

/// What travels between two workers.
enum class MessageKind : std::uint32_t { kGet = 1, kReply = 2 };
/// A way to send to one other worker; numbers are not used again.
enum class MessagePath : std::uint64_t {};

/// Where the bytes of a message go; `into` stays in place until they were placed. Empty: nobody
/// wants them.
struct MessagePlace {
  std::span<std::byte> into = {};
  std::uint64_t cookie = 0;
};

/// Is told what happened, from within MessageWorker::progress(), and calls no worker from there.
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  /// A message came whose `bytes` follow its head. Gives the memory for all of them, or none.
  virtual MessagePlace arrived(MessageKind kind, std::span<const std::byte> head,
                               std::uint64_t bytes) = 0;
  /// The bytes of a message are in their place or, unless `whole`, will not come. Once for each
  /// place; nothing writes there any more.
  virtual void placed(std::uint64_t cookie, bool whole) = 0;
  /// A message has left or, unless `whole`, never will. Once for each send(); its parts are not
  /// read any more.
  virtual void sent(std::uint64_t cookie, bool whole) = 0;
  /// Nothing travels over a path any more; it must be closed.
  virtual void failed(MessagePath path, const std::string& why) = 0;
};

/// Messages between processes as a network library carries them: it knows no keys and proves
/// nobody. One thread at a time calls; no call waits.
class MessageWorker {
 public:
  virtual ~MessageWorker() = default;

  /// Where others reach this worker.
  [[nodiscard]] virtual std::span<const std::byte> address() const = 0;
  /// errors: Refusal (`ucx`)
  [[nodiscard]] virtual Result<MessagePath> open(std::span<const std::byte> address) = 0;
  /// Sends a head with parts behind it, which stay in place until sent().
  virtual void send(MessagePath path, MessageKind kind, std::vector<std::byte> head,
                    std::vector<std::span<const std::byte>> parts, std::uint64_t cookie) = 0;
  /// Ends a path and what is under way on it, which sent() and placed() tell soon.
  virtual void close(MessagePath path) = 0;
  /// Moves messages and tells the sink; returns whether there was anything to do.
  virtual bool progress(MessageSink& sink) = 0;
  /// Whether the descriptor becomes readable when progress() has work again; otherwise it has some
  /// now.
  [[nodiscard]] virtual bool may_sleep() = 0;
  [[nodiscard]] virtual int descriptor() const = 0;
};

/// The functions of the library libtributary_ucx.so, which UCX comes with. It is loaded when the
/// engine is first opened: UCX changes its process by being there.
struct MessageLibrary {
  /// `devices` names the network devices that may be used (`lo`, `mlx5_0:1`), with commas between.
  ///
  /// errors: Refusal (`ucx`)
  Result<std::unique_ptr<MessageWorker>> (*open_worker)(const std::string& devices);
};
/// errors: Refusal (`ucx`) where the library is not built or cannot be loaded
[[nodiscard]] Result<const MessageLibrary*> load_message_library();

}  // namespace tributary::memory
