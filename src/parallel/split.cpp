#include "parallel/split.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::parallel {

std::int64_t local_heads(const Layout& layout, std::int64_t heads) {
  return std::max<std::int64_t>(1, heads / layout.tp().size());
}

Split split_heads(const Layout& layout, std::int64_t heads, std::int64_t head_width,
                  std::int64_t stacks) {
  const std::int64_t ranks = layout.tp().size();
  if (ranks == 1) return {};
  TRIB_REQUIRE(heads % ranks == 0 || ranks % heads == 0,
               .what = "parallel: heads do not divide over the tp ranks", .where = "parallel.tp",
               .found = str(heads, " heads, tp = ", ranks),
               .expected = "one to be a multiple of the other");
  const std::int64_t count = local_heads(layout, heads);
  const std::int64_t first = layout.tp().index() * heads / ranks;
  Split split{.dim = 0, .ranges = {}, .padded = stacks * count * head_width};
  for (std::int64_t stack = 0; stack < stacks; ++stack)
    split.ranges.push_back({(stack * heads + first) * head_width, count * head_width});
  if (heads < ranks) {
    split.copies = &layout.mesh->kv_replicas();
    split.partial_gradient = true;
    TRIB_CHECK(split.copies->size() == ranks / heads,
               .what = "parallel: no group for the copies of a head",
               .found = str(split.copies->size(), " ranks"), .expected = str(ranks / heads));
  }
  return split;
}

Split split_evenly(const Layout& layout, int dim, std::int64_t size) {
  const std::int64_t ranks = layout.tp().size();
  if (ranks == 1) return {};
  const std::int64_t padded = (size + ranks - 1) / ranks;
  const std::int64_t first = std::min(size, layout.tp().index() * padded);
  Split split{.dim = dim, .ranges = {}, .padded = padded};
  split.ranges.push_back({first, std::min(padded, size - first)});
  return split;
}

Split replicated(const Layout& layout, bool uses_part) {
  if (layout.tp().is_single()) return {};
  Split split;
  split.copies = &layout.tp();
  split.partial_gradient = uses_part;
  return split;
}

}  // namespace tributary::parallel
