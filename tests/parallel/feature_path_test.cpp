#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/random.h"
#include "core/text.h"
#include "parallel/sequence/row_route.h"
#include "parallel/sequence/token_split.h"
#include "parallel/token_exchange.h"
#include "tests/parallel/edge_ranks.h"

namespace tributary::parallel {
namespace {

/// The feature rows of one item: made by a seat of the source, taken by a seat of the destination,
/// and placed at consecutive tokens of a replica's pack.
struct Item {
  int source = 0;
  std::int64_t replica = 0;
  std::int64_t home = 0;  // seat of the replica
  std::int64_t token = 0;
  std::int64_t rows = 0;
  std::int64_t made = 0;  // first row at the source
};

/// A case: features go from random seats over an edge, then along a route to the ranks that keep
/// their tokens.
struct Path {
  config::MeshShape shape;  // of the destination
  std::vector<int> ranks;   // likewise, in the order of its grid
  Crossing crossing;
  std::vector<std::vector<std::int32_t>> packs;  // [replicas] cu_seqlens
  std::vector<Item> items;                       // by replica, then by token

  [[nodiscard]] std::int64_t homes() const { return shape.cp * shape.ulysses; }
};

/// Fills the packs with items, one after another with gaps between them, and says which rows cross.
void draw_items(RandomStream& random, Path& path) {
  EdgeRows& rows = path.crossing.rows;
  rows.made.resize(path.crossing.source.size());
  rows.kept.resize(path.crossing.destination.size());
  for (std::int64_t replica = 0; replica < path.shape.dp_shard; ++replica) {
    std::vector<std::int32_t>& pack = path.packs.emplace_back(1, 0);
    for (std::int64_t samples = random.between(1, 4); samples > 0; --samples)
      pack.push_back(pack.back() + static_cast<std::int32_t>(random.between(1, 24)));
    std::int64_t token = random.between(0, std::min(4, pack.back() - 1));
    for (; token < pack.back(); token += random.between(0, 4)) {
      const auto source = static_cast<int>(random.below(rows.made.size()));
      Item item{.source = source,
                .replica = replica,
                .home = random.between(0, path.homes() - 1),
                .token = token,
                .rows = std::min<std::int64_t>(random.between(1, 9), pack.back() - token),
                .made = rows.made[source]};
      const auto to = static_cast<std::size_t>(replica * path.homes() + item.home);
      rows.runs.push_back({source, item.made, static_cast<int>(to), rows.kept[to], item.rows});
      rows.made[source] += item.rows;
      rows.kept[to] += item.rows;
      token += item.rows;
      path.items.push_back(item);
    }
  }
}

Path draw_path(const config::MeshShape& shape, std::uint64_t seed) {
  RandomStream random(seed, "path");
  Path path{.shape = shape, .ranks = {}, .crossing = {}, .packs = {}, .items = {}};
  std::vector<int> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  random.shuffle(std::span(ranks));
  path.ranks.assign(ranks.begin(), ranks.begin() + shape.world());
  std::ranges::sort(path.ranks);
  path.crossing.destination = seats_of(path.ranks, shape.tp);
  random.shuffle(std::span(ranks));
  const std::int64_t tp = random.between(1, 3);
  path.crossing.source = seats_of(std::span(ranks).first(tp * random.between(1, 4)), tp);
  draw_items(random, path);
  return path;
}

/// The route within a replica, and which row of which source each of its tokens shows.
std::vector<RowMove> moves_of(const Path& path, std::int64_t replica, const TokenSplit& split) {
  const std::vector<TokenSplit::Home> homes = split.homes();
  std::vector<std::int64_t> next(static_cast<std::size_t>(path.homes()));
  std::vector<RowMove> moves;
  for (const Item& item : path.items)
    for (std::int64_t row = 0; item.replica == replica && row < item.rows; ++row) {
      const TokenSplit::Home& to = homes[static_cast<std::size_t>(item.token + row)];
      moves.push_back({item.home, next[static_cast<std::size_t>(item.home)]++, to.rank, to.row});
    }
  return moves;
}

/// The rows of the tokens that this rank keeps; 0 where a token shows none.
at::Tensor place_rows(const Path& path, const mesh::Mesh& mesh, const TokenSplit& split,
                      const at::Tensor& features) {
  const RowRoute route(moves_of(path, mesh.data_index(), split), mesh.sequence(), at::kCPU);
  const std::int64_t tokens = split.hidden_rows();
  const at::Tensor places = route.places() - mesh.tp().index() * tokens;
  const at::Tensor own = places.ge(0).logical_and(places.lt(tokens)).nonzero().squeeze(1);
  const at::Tensor rows = copy_to_ranks(route(features), mesh.tp()).index_select(0, own);
  return at::zeros({tokens, kWidth}, at::kDouble).index_copy(0, places.index_select(0, own), rows);
}

/// What each token that this rank keeps must show, by nothing but the items.
at::Tensor expected_rows(const Path& path, const mesh::Mesh& mesh, const TokenSplit& split,
                         const BySeat& made) {
  const std::int64_t tokens = split.hidden_rows();
  at::Tensor expected = at::zeros({tokens, kWidth}, at::kDouble);
  for (std::int64_t row = 0; row < tokens; ++row) {
    const std::int64_t token =
        split.kept()[static_cast<std::size_t>(mesh.tp().index() * tokens + row)];
    for (const Item& item : path.items)
      if (item.replica == mesh.data_index() && token >= item.token &&
          token < item.token + item.rows)
        expected[row] = made[static_cast<std::size_t>(item.source)][item.made + token - item.token];
  }
  return expected;
}

/// Sends the rows of all sources to the tokens of this rank, and gradients of those back. Returns
/// <Ax, y> of its tokens, and fills in what its seat of the source gets.
double cross_path(const Path& path, const mesh::Mesh& mesh, const Edge& edge, const BySeat& made,
                  at::Tensor& gradient) {
  Redistribute rows(edge, path.crossing.rows, /*tag=*/0);
  Arriving arriving = rows.receive(kWidth, at::kDouble);
  std::vector<mesh::Pending> sent = rows.send(of_own_seat(made, edge.source));
  const at::Tensor features = rows.take(std::move(arriving)).requires_grad_();
  wait_all(std::move(sent));
  double product = 0;
  at::Tensor back = features.detach();  // of no rows, where this rank is on the other side
  if (mesh.is_here()) {
    Layout layout;
    layout.mesh = &mesh;
    layout.sequence_parallel = !mesh.tp().is_single();
    const TokenSplit split(path.packs[static_cast<std::size_t>(mesh.data_index())], layout);
    const at::Tensor shown = place_rows(path, mesh, split, features);
    EXPECT_TRUE(at::equal(shown.detach(), expected_rows(path, mesh, split, made)));
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(mesh.world().index());
    const at::Tensor wanted = at::randn(shown.sizes(), generator, shown.options());
    product = (shown.detach() * wanted).sum().item<double>();
    torch::autograd::backward({shown}, {wanted});
    back = features.grad();
  }
  sent = rows.send_gradient(back);
  gradient = rows.take_gradient(rows.receive_gradient(kWidth, at::kDouble));
  wait_all(std::move(sent));
  return product;
}

TEST(FeaturePath, IsTheAdjointPairOfAPlacementOfRowsAtTheirTokens) {
  const std::vector<config::MeshShape> shapes{{.cp = 2},
                                              {.cp = 3, .tp = 2},
                                              {.dp_shard = 2, .cp = 2, .tp = 2},
                                              {.cp = 2, .ulysses = 2, .tp = 2},
                                              {.dp_shard = 2, .ulysses = 2, .tp = 3},
                                              {.dp_shard = 3, .tp = 2}};
  constexpr std::uint64_t kDraws = 3;  // of each shape
  at::manual_seed(12);
  std::vector<Path> paths;
  std::vector<BySeat> made;
  for (std::size_t i = 0; i < shapes.size() * kDraws; ++i) {
    paths.push_back(draw_path(shapes[i % shapes.size()], i));
    made.push_back(random_rows(paths.back().crossing.rows.made, at::kDouble));
  }
  std::vector<std::vector<double>> products(paths.size(), std::vector<double>(kRanks));
  std::vector<std::vector<Outcome>> outcomes(paths.size(), std::vector<Outcome>(kRanks));
  mesh::run_worlds(kRanks, [&](const mesh::World& world) {
    EdgeRank here(world);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const std::string name = tributary::str("path", i);
      const Edge edge = here.open(paths[i].crossing, name);
      const mesh::Mesh mesh(name, paths[i].shape, paths[i].ranks, world);
      products[i][world.rank()] =
          cross_path(paths[i], mesh, edge, made[i], outcomes[i][world.rank()].gradient);
    }
    world.meet();
  });
  for (std::size_t i = 0; i < paths.size(); ++i) {
    SCOPED_TRACE(tributary::str("path ", i, ", ", config::describe(paths[i].shape)));
    const double forward = std::accumulate(products[i].begin(), products[i].end(), 0.0);
    const BySeat back = found_by(paths[i].crossing.source, outcomes[i], &Outcome::gradient);
    double backward = 0;
    for (std::size_t seat = 0; seat < back.size(); ++seat)
      backward += (made[i][seat] * back[seat]).sum().item<double>();
    EXPECT_NEAR(forward, backward, 1e-12 * std::max(1.0, std::abs(forward)));
    EXPECT_NE(forward, 0);
  }
}

}  // namespace
}  // namespace tributary::parallel
