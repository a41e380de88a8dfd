// The library libtributary_ucx.so: active messages of UCX behind message_worker.h.
//
// Only active messages: what UCX emulates of remote memory checks no bounds, and lets a reader that
// dies abort the owner. Callbacks of UCX note what happened, and progress() tells it.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <ucp/api/ucp.h>
#include <utility>

#include "core/text.h"
#include "memory/transport/ucx/message_worker.h"

namespace tributary::memory {
namespace {

constexpr int kStepsAtOnce = 64;
constexpr const char* kKeepalive = "2s";  // between looks at peers that are silent

Refusal refused(const char* what, ucs_status_t status) {
  return {"ucx", str("memory: UCX ", what, ": ", ucs_status_string(status))};
}

class UcxWorker final : public MessageWorker {
 public:
  static Result<std::unique_ptr<MessageWorker>> open_worker(const std::string& devices);
  UcxWorker() = default;
  ~UcxWorker() override;
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  [[nodiscard]] std::span<const std::byte> address() const override {
    return {static_cast<const std::byte*>(static_cast<const void*>(address_)), address_bytes_};
  }
  [[nodiscard]] Result<MessagePath> open(std::span<const std::byte> address) override;
  void send(MessagePath path, MessageKind kind, std::vector<std::byte> head,
            std::vector<std::span<const std::byte>> parts, std::uint64_t cookie) override;
  void close(MessagePath path) override;
  bool progress(MessageSink& sink) override;
  [[nodiscard]] bool may_sleep() override { return ucp_worker_arm(worker_) == UCS_OK; }
  [[nodiscard]] int descriptor() const override { return descriptor_; }

 private:
  /// Stays when it is closed, since UCX may still name it.
  struct Path {
    UcxWorker* worker = nullptr;
    MessagePath number{};
    ucp_ep_h end = nullptr;  // null: closed
  };
  /// A message under way, from here or to here.
  struct UnderWay {
    UcxWorker* worker = nullptr;
    bool leaves = false;
    std::uint64_t cookie = 0;
    std::vector<std::byte> head = {};
    std::vector<ucp_dt_iov_t> parts = {};
  };
  struct Ended {
    bool left = false, whole = false;
    std::uint64_t cookie = 0;
  };

  [[nodiscard]] ucs_status_t start(const std::string& devices);
  [[nodiscard]] ucs_status_t listen_for(MessageKind kind, ucp_am_recv_callback_t callback);
  template <MessageKind kind>
  static ucs_status_t on_message(void* self, const void* head, size_t head_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* about);
  ucs_status_t take(MessageKind kind, std::span<const std::byte> head, void* data,
                    std::size_t bytes, bool is_announced);
  static void on_failure(void* path, ucp_ep_h, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* under_way);
  static void on_placed(void* request, ucs_status_t status, size_t, void* under_way);
  static void end(UnderWay* message, ucs_status_t status);
  void free_closed(bool waits);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_address_t* address_ = nullptr;
  std::size_t address_bytes_ = 0;
  int descriptor_ = -1;
  std::uint64_t last_path_ = 0;
  std::map<MessagePath, Path> paths_;
  std::vector<void*> closing_;
  MessageSink* sink_ = nullptr;  // during progress()
  std::vector<Ended> ended_;
  std::vector<std::pair<MessagePath, std::string>> failed_;
};

Result<std::unique_ptr<MessageWorker>> UcxWorker::open_worker(const std::string& devices) {
  auto made = std::make_unique<UcxWorker>();
  const ucs_status_t status = made->start(devices);
  if (status != UCS_OK) return refused("does not start", status);
  return std::unique_ptr<MessageWorker>(std::move(made));
}

ucs_status_t UcxWorker::start(const std::string& devices) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return status;
  if (std::getenv("UCX_NET_DEVICES") == nullptr && !devices.empty())
    status = ucp_config_modify(config, "NET_DEVICES", devices.c_str());
  if (status == UCS_OK && std::getenv("UCX_KEEPALIVE_INTERVAL") == nullptr)
    status = ucp_config_modify(config, "KEEPALIVE_INTERVAL", kKeepalive);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (status == UCS_OK) status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status != UCS_OK) return status;

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if ((status = ucp_worker_create(context_, &worker, &worker_)) != UCS_OK) return status;
  if ((status = listen_for(MessageKind::kGet, on_message<MessageKind::kGet>)) != UCS_OK ||
      (status = listen_for(MessageKind::kReply, on_message<MessageKind::kReply>)) != UCS_OK)
    return status;
  if ((status = ucp_worker_get_efd(worker_, &descriptor_)) != UCS_OK) return status;
  return ucp_worker_get_address(worker_, &address_, &address_bytes_);
}

ucs_status_t UcxWorker::listen_for(MessageKind kind, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = static_cast<unsigned>(kind);
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = callback;
  handler.arg = this;
  return ucp_worker_set_am_recv_handler(worker_, &handler);
}

UcxWorker::~UcxWorker() {
  for (const auto& [number, path] : paths_) close(number);
  if (worker_ != nullptr) free_closed(/*waits=*/true);
  if (address_ != nullptr) ucp_worker_release_address(worker_, address_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Result<MessagePath> UcxWorker::open(std::span<const std::byte> address) {
  const MessagePath number{++last_path_};
  Path& path = paths_[number];
  path = {.worker = this, .number = number};
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = static_cast<const ucp_address_t*>(static_cast<const void*>(address.data()));
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_failure, .arg = &path};
  const ucs_status_t status = ucp_ep_create(worker_, &params, &path.end);
  if (status == UCS_OK) return number;
  paths_.erase(number);
  return refused("does not reach the worker", status);
}

void UcxWorker::send(MessagePath path, MessageKind kind, std::vector<std::byte> head,
                     std::vector<std::span<const std::byte>> parts, std::uint64_t cookie) {
  auto* message = new UnderWay{// end() deletes it
                               .worker = this,
                               .leaves = true,
                               .cookie = cookie,
                               .head = std::move(head)};
  const ucp_ep_h to = paths_.at(path).end;
  if (to == nullptr) return end(message, UCS_ERR_NOT_CONNECTED);
  for (const std::span<const std::byte> part : parts)
    message->parts.push_back({const_cast<std::byte*>(part.data()), part.size()});
  ucp_request_param_t about{};
  about.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
  about.user_data = message;
  about.cb.send = on_sent;
  // A list of no parts, or of one that is nowhere, aborts UCX.
  const bool is_list = message->parts.size() > 1;
  about.datatype = is_list ? ucp_dt_make_iov() : ucp_dt_make_contig(1);
  const void* data = is_list                  ? static_cast<const void*>(message->parts.data())
                     : message->parts.empty() ? nullptr
                                              : message->parts.front().buffer;
  const std::size_t count = is_list                  ? message->parts.size()
                            : message->parts.empty() ? 0
                                                     : message->parts.front().length;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(to, static_cast<unsigned>(kind), message->head.data(), message->head.size(),
                      data, count, &about);
  if (!UCS_PTR_IS_PTR(request)) end(message, UCS_PTR_STATUS(request));
}

void UcxWorker::close(MessagePath path) {
  const ucp_ep_h end = std::exchange(paths_.at(path).end, nullptr);
  if (end == nullptr) return;
  ucp_request_param_t about{};
  about.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  about.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(end, &about);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

/// Frees what closed paths held, when they have ended.
void UcxWorker::free_closed(bool waits) {
  while (waits && std::ranges::any_of(closing_, [](void* each) {
           return ucp_request_check_status(each) == UCS_INPROGRESS;
         }))
    ucp_worker_progress(worker_);
  std::erase_if(closing_, [](void* each) {
    const bool has_ended = ucp_request_check_status(each) != UCS_INPROGRESS;
    if (has_ended) ucp_request_free(each);
    return has_ended;
  });
}

bool UcxWorker::progress(MessageSink& sink) {
  sink_ = &sink;
  bool had_work = false;
  for (int i = 0; i < kStepsAtOnce && ucp_worker_progress(worker_) != 0; ++i) had_work = true;
  sink_ = nullptr;
  free_closed(/*waits=*/false);
  had_work |= !ended_.empty() || !failed_.empty();
  for (const Ended& each : std::exchange(ended_, {}))
    each.left ? sink.sent(each.cookie, each.whole) : sink.placed(each.cookie, each.whole);
  for (const auto& [path, why] : std::exchange(failed_, {}))
    if (paths_.at(path).end != nullptr) sink.failed(path, why);
  return had_work;
}

// What UCX calls.

template <MessageKind kind>
ucs_status_t UcxWorker::on_message(void* self, const void* head, size_t head_bytes, void* data,
                                   size_t bytes, const ucp_am_recv_param_t* about) {
  const bool is_announced = (about->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return static_cast<UcxWorker*>(self)->take(
      kind, {static_cast<const std::byte*>(head), head_bytes}, data, bytes, is_announced);
}

ucs_status_t UcxWorker::take(MessageKind kind, std::span<const std::byte> head, void* data,
                             std::size_t bytes, bool is_announced) {
  if (sink_ == nullptr) return UCS_OK;  // while it ends
  const MessagePlace place = sink_->arrived(kind, head, bytes);
  if (place.into.empty()) return UCS_OK;  // UCX lets the bytes go
  if (!is_announced) {
    std::memcpy(place.into.data(), data, bytes);
    ended_.push_back({.whole = true, .cookie = place.cookie});
    return UCS_OK;
  }
  auto* message = new UnderWay{.worker = this, .cookie = place.cookie};  // end() deletes it
  ucp_request_param_t how{};
  how.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.cb.recv_am = on_placed;
  how.user_data = message;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker_, data, place.into.data(), bytes, &how);
  if (!UCS_PTR_IS_PTR(request)) end(message, UCS_PTR_STATUS(request));
  return UCS_OK;
}

void UcxWorker::on_failure(void* path, ucp_ep_h, ucs_status_t status) {
  const Path& failed = *static_cast<const Path*>(path);
  failed.worker->failed_.emplace_back(failed.number, ucs_status_string(status));
}

void UcxWorker::on_sent(void* request, ucs_status_t status, void* under_way) {
  end(static_cast<UnderWay*>(under_way), status);
  ucp_request_free(request);
}

void UcxWorker::on_placed(void* request, ucs_status_t status, size_t, void* under_way) {
  end(static_cast<UnderWay*>(under_way), status);
  ucp_request_free(request);
}

void UcxWorker::end(UnderWay* message, ucs_status_t status) {
  message->worker->ended_.push_back(
      {.left = message->leaves, .whole = status == UCS_OK, .cookie = message->cookie});
  delete message;
}

}  // namespace
}  // namespace tributary::memory

extern "C" const tributary::memory::MessageLibrary* tributary_ucx() {
  static const tributary::memory::MessageLibrary kLibrary{
      .open_worker = tributary::memory::UcxWorker::open_worker};
  return &kLibrary;
}
