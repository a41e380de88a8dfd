#include "model/encoder/media.h"

#include <ATen/ATen.h>

#include "core/place_items.h"

namespace tributary::model {

MediaShare share_media(const Media& media, const Encoder& encoder,
                       const parallel::TokenSplit& split, const parallel::Layout& layout,
                       at::Device device) {
  const auto& ranks = layout.mesh->sequence();
  const std::vector<std::int64_t> rank_of = share_items(media.grids, ranks.size());
  const std::vector<parallel::TokenSplit::Home> homes = split.homes();
  const std::int64_t* place = media.places.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> made(static_cast<std::size_t>(ranks.size()), 0);  // features so far
  std::vector<parallel::RowMove> moves;
  std::vector<at::Tensor> rows;
  Media own;
  std::int64_t first = 0;
  for (std::size_t item = 0; item < media.grids.size(); ++item) {
    const Grid& grid = media.grids[item];
    const std::int64_t from = rank_of[item];
    if (from == ranks.index()) {
      if (media.rows.defined()) rows.push_back(media.rows.narrow(0, first, grid.patches()));
      own.grids.push_back(grid);
    }
    for (std::int64_t i = 0; i < encoder.tokens_of(grid); ++i) {
      const parallel::TokenSplit::Home& home = homes[static_cast<std::size_t>(*place++)];
      moves.push_back({.from = from,
                       .row = made[static_cast<std::size_t>(from)]++,
                       .to = home.rank,
                       .place = home.row});
    }
    first += grid.patches();
  }
  if (!rows.empty()) own.rows = at::cat(rows);
  return {std::move(own), parallel::RowRoute(moves, ranks, device)};
}

}  // namespace tributary::model
