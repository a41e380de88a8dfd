#include "parallel/sequence/row_route.h"

#include <ATen/ATen.h>

#include "ops/select_rows.h"
#include "ops/to_device.h"
#include "parallel/token_exchange.h"

namespace tributary::parallel {

RowRoute::RowRoute(std::span<const RowMove> moves, const mesh::Group& group, at::Device device)
    : group_(&group) {
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<std::vector<std::int64_t>> chosen(size);
  std::vector<std::vector<std::int64_t>> places(size);
  for (const RowMove& move : moves) {
    if (move.from == group.index()) chosen[static_cast<std::size_t>(move.to)].push_back(move.row);
    if (move.to == group.index()) places[static_cast<std::size_t>(move.from)].push_back(move.place);
  }
  const auto join = [&](const std::vector<std::vector<std::int64_t>>& by_rank,
                        std::vector<std::int64_t>& counts) {
    std::vector<std::int64_t> all;
    for (const std::vector<std::int64_t>& rows : by_rank) {
      counts.push_back(static_cast<std::int64_t>(rows.size()));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return ops::to_device(at::tensor(all, at::kLong), device);
  };
  chosen_ = join(chosen, send_);
  places_ = join(places, receive_);
}

at::Tensor RowRoute::operator()(const at::Tensor& rows) const {
  return exchange_rows(ops::select_rows(rows, chosen_), *group_, send_, receive_);
}

}  // namespace tributary::parallel
