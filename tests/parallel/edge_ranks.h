#pragma once

#include <array>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/redistribute.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {

constexpr int kRanks = 12;  // in the groups of an edge, of which its sides have some
constexpr std::int64_t kWidth = 3;

using Seats = std::vector<std::vector<int>>;
using BySeat = std::vector<at::Tensor>;

/// Cuts ranks into seats of `tp` each.
[[nodiscard]] Seats seats_of(std::span<const int> ranks, std::int64_t tp);

/// The ranks of both sides of an edge, and the rows that cross it.
struct Crossing {
  Seats source;
  Seats destination;
  EdgeRows rows;
};

/// One rank, with its groups.
class EdgeRank {
 public:
  explicit EdgeRank(const mesh::World& world);

  /// `name` differs between the edges of a test.
  [[nodiscard]] Edge open(const Crossing& crossing, const std::string& name);
  /// What this rank has sent so far: features up and down, gradients up and down.
  [[nodiscard]] std::array<std::int64_t, 4> sent_bytes() const;

 private:
  EdgeSide side(const Seats& seats, const std::string& name);

  const mesh::World& world_;
  std::vector<mesh::Group> links_;  // as of sent_bytes()
  std::list<mesh::Group> tp_;
};

void run_edge_ranks(const std::function<void(int rank, EdgeRank& here)>& body,
                    bool shares_memory = true);

[[nodiscard]] BySeat random_rows(const std::vector<std::int64_t>& counts, at::ScalarType dtype);
/// The rows of this rank's seat; none where it is on the other side only.
[[nodiscard]] at::Tensor of_own_seat(const BySeat& rows, const EdgeSide& side);
void wait_all(std::vector<mesh::Pending> pending);

/// What a rank gets.
struct Outcome {
  at::Tensor kept;
  at::Tensor gradient;
};

/// Moves features and then gradients of all seats over the edge.
[[nodiscard]] Outcome cross(const Edge& edge, const EdgeRows& rows, const BySeat& made,
                            const BySeat& gradients);

/// What the ranks of each seat got, which must be the same on all of them.
[[nodiscard]] BySeat found_by(const Seats& seats, const std::vector<Outcome>& outcomes,
                              at::Tensor Outcome::*what);

/// What each seat must keep, by index_select.
[[nodiscard]] BySeat select(const EdgeRows& rows, const BySeat& made);
/// The gradients that each seat must get, added row by row in the order of (seat, place).
[[nodiscard]] BySeat add_gradients(EdgeRows rows, const BySeat& gradients);

}  // namespace tributary::parallel
