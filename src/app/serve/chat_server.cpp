#include "app/serve/chat_server.h"

#include <atomic>
#include <chrono>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/serve/answer_queue.h"
#include "app/serve/api_json.h"
#include "app/serve/chat_page.h"
#include "app/serve/served_chat.h"
#include "core/error.h"

namespace tributary::app {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr std::size_t kMaxBytes = std::size_t{32} << 20;  // of a request
constexpr std::size_t kConnections = 16;
constexpr const char* kJsonType = "application/json";

void send(httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  response.set_content(error.body, kJsonType);
}

/// Whether the browser's address bar, or the program, named this machine: a page of another site
/// may not reach the server by a name that it lets point here.
bool names_this_machine(const httplib::Request& request) {
  std::string host = request.get_header_value("Host");
  if (const std::size_t colon = host.rfind(':'); colon != std::string::npos) host.resize(colon);
  return host == kAddress || host == "localhost";
}

bool is_json(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  return type == kJsonType || type.starts_with("application/json;");
}

/// Turns what a handler throws into an answer.
ApiError error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return api_error(error);
  } catch (const std::exception& error) {
    return api_error(500, error.what());
  }
}

const char* describe_status(int status) {
  switch (status) {
    case 404:
      return "no such address: this server has /v1/chat/completions, /v1/models and a page at /";
    case 413:
      return "the request is larger than 32 MiB";
    default:
      return "the request could not be understood";
  }
}

}  // namespace

class ChatServer::Impl {
 public:
  Impl(ChatModel& model, const ChatServerOptions& options)
      : model_(model), options_(options), started_(new_completion(options.name)), queue_(model) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
    server_.set_payload_max_length(kMaxBytes);
    server_.set_keep_alive_timeout(2);                // seconds; the end of the server waits for it
    server_.set_socket_options([](socket_t socket) {  // by default two servers share a port
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_tcp_nodelay(true);  // tokens leave one by one
    server_.set_pre_routing_handler([](const auto& request, auto& response) {
      if (names_this_machine(request)) return httplib::Server::HandlerResponse::Unhandled;
      send(response, api_error(403, "the request names another host than this machine", "Host"));
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.set_exception_handler([](const auto&, auto& response, std::exception_ptr failure) {
      send(response, error_of(failure));
    });
    server_.set_error_handler([](const auto&, auto& response) {
      if (response.body.empty())
        send(response, api_error(response.status, describe_status(response.status)));
    });
    route();
    if (options_.port == 0) {
      options_.port = server_.bind_to_any_port(kAddress);
    } else {
      TRIB_REQUIRE(options_.port > 0 && options_.port < (1 << 16), .what = "app: no such port",
                   .where = "--port", .found = str(options_.port), .expected = "0 to 65535");
      if (!server_.bind_to_port(kAddress, options_.port))
        TRIB_RAISE(Fault::kResource, .what = "app: the port cannot be opened", .where = "--port",
                   .found = str(options_.port), .fix = "name another one, or 0 for any");
    }
  }

  [[nodiscard]] int port() const { return options_.port; }
  void serve() {
    server_.listen_after_bind();
    has_served_ = true;
  }
  void stop() {
    queue_.close();
    // The library forgets a stop that comes before it listens.
    while (!server_.is_running() && !has_served_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_.stop();
  }

 private:
  void route() {
    for (const PageFile& file : chat_page_files())
      server_.Get(file.path, [&file](const auto&, auto& response) {
        response.set_header("Content-Security-Policy",
                            "default-src 'self'; img-src data:; frame-ancestors 'none'");
        response.set_content(file.content.data(), file.content.size(), file.type);
      });
    server_.Get("/v1/models", [this](const auto&, auto& response) {
      response.set_content(models_json(options_.name, started_.created), kJsonType);
    });
    server_.Post("/v1/chat/completions",
                 [this](const auto& request, auto& response) { complete(request, response); });
  }

  void complete(const httplib::Request& request, httplib::Response& response) {
    if (!is_json(request))
      return send(response,
                  api_error(415, "the content type is not application/json", "Content-Type"));
    const Json body = parse_json(request.body, "body", {.max_bytes = kMaxBytes});
    if (!body.is_object() || !body.contains("model") || !body.at("model").is_string())
      return send(response, api_error(400, "the request names no model", "model"));
    if (const auto& name = body.at("model").get_ref<const std::string&>(); name != options_.name)
      return send(response, api_error(404,
                                      str("there is no model ", escaped(name), "; this server has ",
                                          options_.name),
                                      "model", "model_not_found"));
    const ServedChat served = read_served_chat(body, model_.sees_pictures());
    const std::shared_ptr<PendingAnswer> answer = queue_.ask(served.chat, served.stop);
    if (served.streams)
      stream(answer, served.counts_usage, response);
    else
      collect(*answer, response);
  }

  void collect(PendingAnswer& answer, httplib::Response& response) const {
    std::string text;
    while (const std::optional<std::string> piece = answer.next()) text += *piece;
    response.set_content(completion_json(new_completion(options_.name), text, answer.reply()),
                         kJsonType);
  }

  /// The first piece is awaited before the answer begins, so that a refusal has a status of its
  /// own.
  void stream(const std::shared_ptr<PendingAnswer>& answer, bool counts_usage,
              httplib::Response& response) const {
    const auto piece = std::make_shared<std::optional<std::string>>(answer->next());
    const CompletionId completion = new_completion(options_.name);
    const auto write = [](httplib::DataSink& sink, const std::string& text) {
      return sink.write(text.data(), text.size());
    };
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream",
        [=](std::size_t offset, httplib::DataSink& sink) {
          try {
            if (offset == 0 && !write(sink, first_event(completion))) return false;
            if (*piece) {
              if (!write(sink, text_event(completion, **piece))) return false;
              *piece = answer->next();
              return true;
            }
            std::string end = end_event(completion, answer->reply());
            if (counts_usage) end += usage_event(completion, answer->reply());
            if (!write(sink, end + kDoneEvent)) return false;
          } catch (...) {  // the status is sent already
            (void)write(sink, event(error_of(std::current_exception()).body));
          }
          sink.done();
          return true;
        },
        [answer](bool) { answer->cancel(); });
  }

  ChatModel& model_;
  ChatServerOptions options_;
  CompletionId started_;
  AnswerQueue queue_;
  std::atomic<bool> has_served_ = false;
  httplib::Server server_;  // its threads end before the queue
};

ChatServer::ChatServer(ChatModel& model, const ChatServerOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
ChatServer::~ChatServer() = default;
int ChatServer::port() const { return impl_->port(); }
void ChatServer::serve() { impl_->serve(); }
void ChatServer::stop() { impl_->stop(); }

}  // namespace tributary::app
