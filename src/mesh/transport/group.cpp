#include "mesh/transport/group.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "mesh/transport/cpu_in_collectives.h"

namespace tributary::mesh {

namespace {

thread_local double cpu_in_collectives = 0;

/// Adds the CPU time of this thread while it lives.
class CpuInCollective {
 public:
  CpuInCollective() = default;
  ~CpuInCollective() { cpu_in_collectives += thread_cpu_seconds() - began_; }
  CpuInCollective(const CpuInCollective&) = delete;
  CpuInCollective& operator=(const CpuInCollective&) = delete;

 private:
  double began_ = thread_cpu_seconds();
};

ExitCode exit_of(const std::string& text) {
  const bool is_deadline =
      text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  return is_deadline ? ExitCode::kHang : ExitCode::kPeerLost;
}

/// Raises the error of a broken collective. It breaks when it is issued, if a connection has ended
/// before, or while it is waited for.
[[noreturn]] void raise_broken(const std::string& what, const std::exception& broken) {
  const std::string text = std::string(broken.what()).substr(0, 300);
  TRIB_RAISE(Fault::kResource, .what = "mesh: collective failed", .where = what, .found = text,
             .expected = "an answer from every rank of the group", .exit = exit_of(text));
}

}  // namespace

double cpu_seconds_in_collectives() { return cpu_in_collectives; }

Pending::Pending(std::unique_ptr<Work> work, std::shared_ptr<Ledger> ledger, std::string what,
                 double issued)
    : work_(std::move(work)), ledger_(std::move(ledger)), what_(std::move(what)), issued_(issued) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  Pending taken(std::move(other));
  std::swap(work_, taken.work_);
  std::swap(ledger_, taken.ledger_);
  std::swap(what_, taken.what_);
  std::swap(issued_, taken.issued_);
  return *this;
}

Pending::~Pending() {
  if (!work_) return;
  (void)work_.release();
  if (std::uncaught_exceptions() == 0)
    log_warning(str("mesh: nothing waited for a collective: ", what_));
}

void Pending::wait() { (void)end(/*may_hold_stream=*/true); }

bool Pending::try_wait() { return end(/*may_hold_stream=*/false); }

bool Pending::end(bool may_hold_stream) {
  if (!work_) return true;
  std::unique_ptr<Work> work = std::move(work_);
  const CpuInCollective counted;
  const double began = now_seconds();
  try {
    if (may_hold_stream) {
      work->finish();
    } else if (!work->try_finish()) {
      work_ = std::move(work);
      return false;
    }
  } catch (const std::exception& broken) {
    raise_broken(what_, broken);
  }
  const double ended = now_seconds();
  ledger_->add({.calls = 0,
                .bytes = 0,
                .under_way = std::max(work->arrived(), began) - issued_,
                .waited = ended - began});
  return true;
}

Group::Group() : name_("self"), ranks_{0}, ledger_(std::make_shared<Ledger>()) {}

Group::Group(std::string name, std::vector<int> ranks, int index,
             std::unique_ptr<Transport> transport, std::shared_ptr<Ledger> total)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      index_(index),
      transport_(std::move(transport)),
      ledger_(std::make_shared<Ledger>(std::move(total))) {
  TRIB_CHECK((transport_ != nullptr) == (ranks_.size() > 1) && index_ >= 0 && index_ < size(),
             .what = "mesh: group of ranks without a transport", .where = name_,
             .found = str(size(), " ranks, index ", index_));
}

Traffic Group::traffic() const { return ledger_->sum(); }

Pending Group::start(const char* what, std::int64_t bytes, const Issue& issue) const {
  const std::string name = str(what, " over ", name_);
  const CpuInCollective counted;
  const double issued = now_seconds();
  try {
    Pending pending(issue(), ledger_, name, issued);
    // The rank also waits while its bytes are copied out.
    ledger_->add({.calls = 1, .bytes = bytes, .under_way = 0, .waited = now_seconds() - issued});
    ledger_->tell_of_issue();
    return pending;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& broken) {
    raise_broken(name, broken);
  }
}

Pending Group::all_reduce(const at::Tensor& values, Reduce reduce) const {
  if (is_single() || values.numel() == 0) return {};
  TRIB_CHECK(values.is_contiguous(), .what = "mesh: tensor of a collective is not contiguous",
             .where = name_);
  return start("all-reduce", static_cast<std::int64_t>(values.nbytes()) * 2 * (size() - 1) / size(),
               [&] { return transport_->all_reduce(values.detach(), reduce); });
}

Pending Group::all_gather(const at::Tensor& part, const at::Tensor& whole) const {
  TRIB_CHECK(whole.numel() == part.numel() * size() && part.is_contiguous() &&
                 whole.is_contiguous() && part.scalar_type() == whole.scalar_type(),
             .what = "mesh: parts do not make the whole", .where = str("all-gather over ", name_),
             .found = tributary::str(part.sizes(), " for ", whole.sizes()));
  if (part.numel() == 0) return {};
  if (is_single()) {
    const at::NoGradGuard no_grad;
    if (!whole.is_alias_of(part)) whole.view({-1}).copy_(part.view({-1}));
    return {};
  }
  return start("all-gather", static_cast<std::int64_t>(part.nbytes()) * (size() - 1),
               [&] { return transport_->all_gather(part.detach(), whole.detach()); });
}

Pending Group::reduce_scatter(const at::Tensor& whole, const at::Tensor& part) const {
  TRIB_CHECK(whole.numel() == part.numel() * size() && part.is_contiguous() &&
                 whole.is_contiguous() && part.scalar_type() == whole.scalar_type(),
             .what = "mesh: parts do not make the whole",
             .where = str("reduce-scatter over ", name_),
             .found = tributary::str(part.sizes(), " of ", whole.sizes()));
  if (part.numel() == 0) return {};
  if (is_single()) {
    const at::NoGradGuard no_grad;
    if (!whole.is_alias_of(part)) part.view({-1}).copy_(whole.view({-1}));
    return {};
  }
  return start("reduce-scatter", static_cast<std::int64_t>(part.nbytes()) * (size() - 1),
               [&] { return transport_->reduce_scatter(whole.detach(), part.detach()); });
}

Pending Group::all_to_all(const at::Tensor& send, std::span<const std::int64_t> send_rows,
                          const at::Tensor& receive,
                          std::span<const std::int64_t> receive_rows) const {
  const std::vector<std::int64_t> out(send_rows.begin(), send_rows.end());
  const std::vector<std::int64_t> in(receive_rows.begin(), receive_rows.end());
  TRIB_CHECK(static_cast<int>(out.size()) == size() && static_cast<int>(in.size()) == size() &&
                 std::accumulate(out.begin(), out.end(), std::int64_t{0}) == send.size(0) &&
                 std::accumulate(in.begin(), in.end(), std::int64_t{0}) == receive.size(0) &&
                 send.is_contiguous() && receive.is_contiguous(),
             .what = "mesh: row counts do not fit the tensors",
             .where = str("all-to-all over ", name_),
             .found = tributary::str("send ", send.sizes(), ", receive ", receive.sizes()));
  if (is_single()) {
    const at::NoGradGuard no_grad;
    receive.copy_(send);
    return {};
  }
  return start("all-to-all", static_cast<std::int64_t>(send.nbytes()),
               [&] { return transport_->all_to_all(send.detach(), out, receive.detach(), in); });
}

Pending Group::exchange(const at::Tensor& send, int to, const at::Tensor& receive, int from) const {
  TRIB_CHECK(send.is_contiguous() && receive.is_contiguous(),
             .what = "mesh: tensor of a collective is not contiguous", .where = name_);
  if (is_single()) {
    const at::NoGradGuard no_grad;
    receive.copy_(send);
    return {};
  }
  return start("exchange", static_cast<std::int64_t>(send.nbytes()),
               [&] { return transport_->exchange(send.detach(), to, receive.detach(), from); });
}

Pending Group::send(const at::Tensor& values, int to, int tag) const {
  TRIB_CHECK(values.is_contiguous() && to != index() && to >= 0 && to < size(),
             .what = "mesh: message cannot be sent", .where = name_, .found = str("to ", to));
  return start("send", static_cast<std::int64_t>(values.nbytes()),
               [&] { return transport_->send(values.detach(), to, tag); });
}

Pending Group::receive(const at::Tensor& values, int from, int tag) const {
  TRIB_CHECK(values.is_contiguous() && from != index() && from >= 0 && from < size(),
             .what = "mesh: message cannot be received", .where = name_,
             .found = str("from ", from));
  return start("receive", 0, [&] { return transport_->receive(values.detach(), from, tag); });
}

namespace {

template <class Value>
std::vector<Value> reduce_numbers(const Group& group, std::vector<Value> values, Reduce reduce) {
  if (group.is_single() || values.empty()) return values;
  const at::Tensor tensor = at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())},
                                          std::is_same_v<Value, double> ? at::kDouble : at::kLong);
  group.all_reduce(tensor, reduce).wait();
  return values;
}

}  // namespace

std::vector<std::int64_t> Group::sum(std::vector<std::int64_t> values) const {
  return reduce_numbers(*this, std::move(values), Reduce::kSum);
}
std::vector<std::int64_t> Group::largest(std::vector<std::int64_t> values) const {
  return reduce_numbers(*this, std::move(values), Reduce::kMax);
}
std::vector<double> Group::sum(std::vector<double> values) const {
  return reduce_numbers(*this, std::move(values), Reduce::kSum);
}

std::vector<std::int64_t> Group::gather(std::vector<std::int64_t> values) const {
  if (is_single() || values.empty()) return values;
  std::vector<std::int64_t> all(values.size() * ranks_.size());
  const auto view = [](std::vector<std::int64_t>& numbers) {
    return at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kLong);
  };
  all_gather(view(values), view(all)).wait();
  return all;
}

std::vector<std::string> Group::gather_text(const std::string& text) const {
  if (is_single()) return {text};
  const std::int64_t width = largest({static_cast<std::int64_t>(text.size())}).front() +
                             static_cast<std::int64_t>(sizeof(std::int64_t));
  const at::Tensor part = at::zeros({width}, at::kByte);
  const auto length = static_cast<std::int64_t>(text.size());
  std::memcpy(part.data_ptr(), &length, sizeof(length));
  std::memcpy(part.mutable_data_ptr<std::uint8_t>() + sizeof(length), text.data(), text.size());
  const at::Tensor whole = at::empty({width * size()}, at::kByte);
  all_gather(part, whole).wait();
  std::vector<std::string> texts;
  for (int i = 0; i < size(); ++i) {
    const std::uint8_t* row = whole.const_data_ptr<std::uint8_t>() + i * width;
    std::int64_t bytes = 0;
    std::memcpy(&bytes, row, sizeof(bytes));
    texts.emplace_back(row + sizeof(bytes), row + sizeof(bytes) + bytes);
  }
  return texts;
}

}  // namespace tributary::mesh
