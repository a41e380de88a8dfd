// Collectives as direct exchanges over messages between two ranks.
//
// Every rank sends each piece straight to the rank that needs it, from and into the caller's
// memory: no staging tensor, and sums in the order of ranks, so that results do not depend on
// arrival. Sends come before receives: through sockets both would want the same lock.
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "mesh/transport/messages.h"

namespace tributary::mesh {
namespace {

using Messages = std::vector<std::unique_ptr<Message>>;

/// Below this an all-reduce sends everything to everybody: one round instead of two.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;

void wait_all(Messages& messages) {
  for (auto& message : messages) message->wait();
}

/// Messages, and what must be done once they are there.
class Exchange final : public Pending::Work {
 public:
  Messages messages;
  std::function<void()> then;

  void finish() override {
    wait_all(messages);
    arrived_ = now_seconds();
    const at::NoGradGuard no_grad;
    if (then) then();
  }
  [[nodiscard]] double arrived() const override { return arrived_; }

 private:
  double arrived_ = 0;
};

void combine(at::Tensor& total, const at::Tensor& other, Reduce reduce) {
  if (reduce == Reduce::kSum)
    total.add_(other);
  else
    at::maximum_out(total, total, other);
}

/// shape: total [n], rows [ranks, n], combined in their order
void combine_rows(at::Tensor total, const at::Tensor& rows, Reduce reduce) {
  total.copy_(rows[0]);
  for (std::int64_t rank = 1; rank < rows.size(0); ++rank) combine(total, rows[rank], reduce);
}

class Direct final : public Transport {
 public:
  Direct(std::unique_ptr<Messenger> messenger, const TransportOptions& options)
      : messenger_(std::move(messenger)), index_(options.index), size_(options.size) {}

  std::unique_ptr<Pending::Work> all_gather(at::Tensor part, at::Tensor whole) override {
    auto exchange = std::make_unique<Exchange>();
    start_gather(*exchange, part, whole, next_tag());
    return exchange;
  }

  std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor whole, at::Tensor part) override {
    auto exchange = std::make_unique<Exchange>();
    start_reduce(*exchange, whole.view({size_, -1}), part.view({-1}), Reduce::kSum);
    return exchange;
  }

  std::unique_ptr<Pending::Work> all_reduce(at::Tensor values, Reduce reduce) override {
    auto exchange = std::make_unique<Exchange>();
    const at::Tensor flat = values.view({-1});
    if (values.nbytes() <= kSmallBytes || flat.numel() < size_) {
      const at::Tensor all = at::empty({size_, flat.numel()}, flat.options());
      start_gather(*exchange, flat, all, next_tag());
      exchange->then = [flat, all, reduce] { combine_rows(flat, all, reduce); };
      return exchange;
    }
    // Each rank reduces a part of the first `even` elements; the few that are left all ranks do.
    const std::int64_t even = flat.numel() / size_ * size_;
    const at::Tensor whole = flat.narrow(0, 0, even);
    const at::Tensor part = at::empty({even / size_}, flat.options());
    start_reduce(*exchange, whole.view({size_, -1}), part, reduce);
    const at::Tensor rest = flat.narrow(0, even, flat.numel() - even);
    const at::Tensor rests = at::empty({size_, rest.numel()}, flat.options());
    if (rest.numel() > 0) start_gather(*exchange, rest, rests, next_tag());
    const int second_tag = next_tag();
    exchange->then = [this, second_tag, reduced = std::move(exchange->then), whole, part, rest,
                      rests, reduce] {
      reduced();
      Exchange second;
      start_gather(second, part, whole, second_tag);
      if (rest.numel() > 0) combine_rows(rest, rests, reduce);
      second.finish();
    };
    return exchange;
  }

  std::unique_ptr<Pending::Work> all_to_all(at::Tensor send, std::vector<std::int64_t> send_rows,
                                            at::Tensor receive,
                                            std::vector<std::int64_t> receive_rows) override {
    auto exchange = std::make_unique<Exchange>();
    const std::vector<at::Tensor> out = send.split_with_sizes(send_rows);
    const std::vector<at::Tensor> in = receive.split_with_sizes(receive_rows);
    const int tag = next_tag();
    with_others([&](int to, int from) {
      send_piece(*exchange, out[at(to)], to, tag);
      receive_piece(*exchange, in[at(from)], from, tag);
    });
    const at::NoGradGuard no_grad;
    at::Tensor own = in[at(index_)];
    own.copy_(out[at(index_)]);
    return exchange;
  }

  std::unique_ptr<Pending::Work> exchange(at::Tensor send, int to, at::Tensor receive,
                                          int from) override {
    auto exchange = std::make_unique<Exchange>();
    const int tag = next_tag();
    send_piece(*exchange, send, to, tag);
    receive_piece(*exchange, receive, from, tag);
    return exchange;
  }

  std::unique_ptr<Pending::Work> send(at::Tensor values, int to, int tag) override {
    auto exchange = std::make_unique<Exchange>();
    send_piece(*exchange, values, to, tag);
    return exchange;
  }

  std::unique_ptr<Pending::Work> receive(at::Tensor values, int from, int tag) override {
    auto exchange = std::make_unique<Exchange>();
    receive_piece(*exchange, values, from, tag);
    return exchange;
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int next_tag() { return next_tag_ = (next_tag_ + 1) & 0x3fffffff; }

  /// Calls act(to, from) with every other rank once as each; at a turn no two ranks send to the
  /// same one.
  template <class Act>
  void with_others(const Act& act) const {
    for (int step = 1; step < size_; ++step)
      act((index_ + step) % size_, (index_ + size_ - step) % size_);
  }

  void send_piece(Exchange& exchange, const at::Tensor& piece, int to, int tag) {
    if (piece.numel() == 0) return;
    exchange.messages.push_back(messenger_->send(piece, to, tag));
  }
  void receive_piece(Exchange& exchange, const at::Tensor& piece, int from, int tag) {
    if (piece.numel() == 0) return;
    exchange.messages.push_back(messenger_->receive(piece, from, tag));
  }

  void start_gather(Exchange& exchange, const at::Tensor& part, const at::Tensor& whole, int tag) {
    const at::Tensor rows = whole.view({size_, -1});
    with_others([&](int to, int from) {
      send_piece(exchange, part, to, tag);
      receive_piece(exchange, rows[from], from, tag);
    });
    at::Tensor own = rows[index_];
    const at::NoGradGuard no_grad;
    if (own.const_data_ptr() != part.const_data_ptr()) own.copy_(part.view({-1}));
  }

  /// shape: rows [size, n], part [n]
  void start_reduce(Exchange& exchange, const at::Tensor& rows, const at::Tensor& part,
                    Reduce reduce) {
    const at::Tensor others = at::empty({size_, part.numel()}, part.options());
    const int tag = next_tag();
    with_others([&](int to, int from) {
      send_piece(exchange, rows[to], to, tag);
      receive_piece(exchange, others[from], from, tag);
    });
    exchange.then = [this, rows, others, part, reduce] {
      const auto of = [&](int rank) { return rank == index_ ? rows[rank] : others[rank]; };
      at::Tensor total = part;
      total.copy_(of(0));
      for (int rank = 1; rank < size_; ++rank) combine(total, of(rank), reduce);
    };
  }

  std::unique_ptr<Messenger> messenger_;
  int index_;
  int size_;
  int next_tag_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_direct(const c10::intrusive_ptr<c10d::Store>& store,
                                       const TransportOptions& options) {
  std::unique_ptr<Messenger> messenger;
  if (options.shares_memory) messenger = open_shared_memory(store, options);
  if (!messenger) messenger = open_sockets(store, options);
  return std::make_unique<Direct>(std::move(messenger), options);
}

}  // namespace tributary::mesh
