#include "mesh/exchange_bytes.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::mesh {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Returns how many bytes each member has for this one.
std::vector<std::int64_t> exchange_lengths(const Group& group,
                                           const std::vector<std::int64_t>& lengths) {
  const std::vector<std::int64_t> ones(lengths.size(), 1);
  const at::Tensor received = at::empty({group.size()}, at::kLong);
  group.all_to_all(at::tensor(lengths, at::kLong), ones, received, ones).wait();
  const std::int64_t* first = received.const_data_ptr<std::int64_t>();
  return {first, first + received.numel()};
}

}  // namespace

std::vector<std::string> exchange_bytes(const Group& group,
                                        const std::vector<std::string>& to_each) {
  TRIB_CHECK(std::ssize(to_each) == group.size(), .what = "mesh: not one message for each member",
             .where = group.name(), .found = str(to_each.size()), .expected = str(group.size()));
  if (group.is_single()) return to_each;
  std::vector<std::int64_t> lengths;
  for (const std::string& bytes : to_each) lengths.push_back(std::ssize(bytes));
  const std::vector<std::int64_t> incoming = exchange_lengths(group, lengths);
  const at::Tensor sent = at::empty({sum(lengths)}, at::kByte);
  auto* out = sent.mutable_data_ptr<std::uint8_t>();
  for (const std::string& bytes : to_each) out = std::copy(bytes.begin(), bytes.end(), out);
  const at::Tensor received = at::empty({sum(incoming)}, at::kByte);
  group.all_to_all(sent, lengths, received, incoming).wait();
  std::vector<std::string> from_each;
  const auto* in = received.const_data_ptr<std::uint8_t>();
  for (const std::int64_t length : incoming) {
    from_each.emplace_back(in, in + length);
    in += length;
  }
  return from_each;
}

}  // namespace tributary::mesh
