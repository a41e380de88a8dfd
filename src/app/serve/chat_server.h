#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/engine/chat_model.h"

namespace tributary::app {

struct ChatServerOptions {
  int port = 8080;   // 0: any that is free
  std::string name;  // of the model, in the API
};

/// Answers chats over HTTP, to programs and browsers of this machine alone: the API of OpenAI below
/// /v1, and a page at /.
///
/// Limits: a request of 32 MiB; 16 connections at a time, others wait. The model answers one
/// request after the other.
/// source: docs/formats/chat_api.md
class ChatServer {
 public:
  /// errors: Fault::kResource when the port is taken
  ChatServer(ChatModel& model, const ChatServerOptions& options);
  ~ChatServer();
  ChatServer(const ChatServer&) = delete;
  ChatServer& operator=(const ChatServer&) = delete;

  [[nodiscard]] int port() const;
  /// Serves until another thread calls stop().
  void serve();
  /// Ends the answer under way, and serve(), which another thread has called or is about to.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::app
