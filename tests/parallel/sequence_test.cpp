#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <mutex>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/random.h"
#include "ops/attend_packed.h"
#include "parallel/sequence/pack_attention.h"
#include "parallel/sequence/row_route.h"
#include "parallel/sequence/token_split.h"
#include "parallel/unit_chain.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {
namespace {

std::vector<std::int32_t> boundaries(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> result{0};
  for (const std::int32_t length : lengths) result.push_back(result.back() + length);
  return result;
}

Layout layout_on(const mesh::Mesh& mesh, bool async = false) {
  Layout layout;
  layout.mesh = &mesh;
  layout.sequence_parallel = !mesh.tp().is_single();
  ChainOptions options;
  options.ulysses_async = async;
  layout.chain = std::make_shared<UnitChain>(options);
  return layout;
}

const std::vector<config::MeshShape> kShapes{{.cp = 2},
                                             {.cp = 4},
                                             {.cp = 3},
                                             {.ulysses = 2},
                                             {.ulysses = 4},
                                             {.cp = 2, .ulysses = 2},
                                             {.cp = 2, .ulysses = 2, .tp = 2}};
// Samples of one token, shorter than the pieces, without tokens, of odd length.
const std::vector<std::vector<std::int32_t>> kPacks{
    {1}, {7}, {64, 1, 2, 0, 33, 5}, {3, 3, 3, 3, 9, 9, 40}};

TEST(TokenSplit, GivesEveryTokenOneHome) {
  for (const config::MeshShape& shape : kShapes)
    for (const std::vector<std::int32_t>& pack : kPacks) {
      std::mutex mutex;
      std::map<std::int64_t, std::vector<std::int64_t>> kept;  // of each rank in cp x ulysses
      std::vector<TokenSplit::Home> homes;
      mesh::run_ranks(shape, [&](const mesh::Mesh& mesh) {
        const TokenSplit split(boundaries(pack), layout_on(mesh));
        EXPECT_FALSE(split.is_whole());
        EXPECT_EQ(split.kept().size() % static_cast<std::size_t>(mesh.tp().size()), 0U);
        EXPECT_FALSE(split.kept().empty());
        const std::scoped_lock lock(mutex);
        kept[mesh.sequence().index()] = split.kept();
        homes = split.homes();
      });
      std::map<std::int64_t, int> seen;
      for (const auto& [rank, tokens] : kept)
        for (std::size_t row = 0; row < tokens.size(); ++row) {
          if (tokens[row] < 0) continue;
          ++seen[tokens[row]];
          const TokenSplit::Home& home = homes[static_cast<std::size_t>(tokens[row])];
          EXPECT_EQ(home.rank, rank);
          EXPECT_EQ(home.row, static_cast<std::int64_t>(row));
        }
      EXPECT_EQ(static_cast<std::int32_t>(seen.size()), boundaries(pack).back());
      EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& token) { return token.second == 1; }));
    }
}

TEST(TokenSplit, SharesCausalWorkEqually) {
  mesh::run_ranks({.cp = 4}, [](const mesh::Mesh& mesh) {
    const TokenSplit split(boundaries({4000, 700, 1500, 90}), layout_on(mesh));
    double work = 0;  // pairs of a query and a key that it sees
    for (const std::int64_t token : split.kept())
      for (const std::int32_t first : {6200, 4700, 4000, 0})
        if (token >= first) {
          work += static_cast<double>(token - first + 1);
          break;
        }
    const std::vector<double> sums = mesh.world().sum(std::vector<double>{work});
    EXPECT_NEAR(work / (sums[0] / 4), 1, 0.01);
  });
}

TEST(TokenSplit, KeepsValuesOfItsTokens) {
  mesh::run_ranks({.cp = 2, .ulysses = 2}, [](const mesh::Mesh& mesh) {
    const TokenSplit split(boundaries({5, 2}), layout_on(mesh));
    const at::Tensor kept = split.keep(at::arange(7, at::kLong).mul(10), -100);
    for (std::size_t row = 0; row < split.kept().size(); ++row)
      EXPECT_EQ(kept[static_cast<std::int64_t>(row)].item<std::int64_t>(),
                split.kept()[row] < 0 ? -100 : 10 * split.kept()[row]);
  });
}

/// Rows that this rank keeps of a value of every token; those of padding are zeros.
at::Tensor keep_rows(const TokenSplit& split, const at::Tensor& of_tokens) {
  return split.keep(of_tokens.movedim(0, -1), 0).movedim(-1, 0).contiguous();
}

struct Attended {
  at::Tensor out;
  at::Tensor gradient;  // of the queries, keys and values
};

/// One pass over this rank's rows, forward and backward.
Attended attend(const TokenSplit& split, const Layout& layout, const at::Tensor& whole,
                const at::Tensor& gradient, std::int64_t heads, std::int64_t kv_heads) {
  const PackAttention attention(split, layout, at::kCPU);
  const at::Tensor qkv = keep_rows(split, whole).requires_grad_();
  at::Tensor out;
  if (attention.exchanges_early()) {
    const auto parts = qkv.split_with_sizes({heads, kv_heads, kv_heads}, 1);
    out = attention.attend(attention.start(parts[0]), attention.start(parts[1]),
                           attention.start(parts[2]));
  } else {
    out = attention(qkv, heads, kv_heads);
  }
  torch::autograd::backward({out}, {keep_rows(split, gradient)});
  return {out.detach(), qkv.grad()};
}

void expect_like_one_rank(const config::MeshShape& shape, bool async, std::int64_t kv_heads) {
  constexpr std::int64_t kHeads = 4;
  for (const std::vector<std::int32_t>& pack : kPacks) {
    const std::vector<std::int32_t> cu_seqlens = boundaries(pack);
    at::manual_seed(11);
    const at::Tensor whole = at::randn({cu_seqlens.back(), kHeads + 2 * kv_heads, 8});
    const at::Tensor gradient = at::randn({cu_seqlens.back(), kHeads, 8});
    const at::Tensor leaf = whole.clone().requires_grad_();
    const at::Tensor expected = ops::attend_packed(
        leaf, kHeads, kv_heads, ops::SampleGroups(cu_seqlens, ops::Mask::kCausal, at::kCPU));
    torch::autograd::backward({expected}, {gradient});
    mesh::run_ranks(shape, [&](const mesh::Mesh& mesh) {
      const Layout layout = layout_on(mesh, async);
      const TokenSplit split(cu_seqlens, layout);
      const Attended found = attend(split, layout, whole, gradient, kHeads, kv_heads);
      const at::Tensor is_real = at::tensor(split.kept(), at::kLong).ge(0).nonzero().squeeze(1);
      const auto real = [&](const at::Tensor& rows) { return rows.index_select(0, is_real); };
      EXPECT_TRUE(
          at::allclose(real(found.out), real(keep_rows(split, expected.detach())), 1e-5, 1e-6));
      EXPECT_TRUE(
          at::allclose(real(found.gradient), real(keep_rows(split, leaf.grad())), 1e-4, 1e-6));
    });
  }
}

TEST(PackAttention, EqualsOneRankInARing) {
  for (const std::int64_t cp : {2, 3, 4}) expect_like_one_rank({.cp = cp}, false, 2);
}
TEST(PackAttention, EqualsOneRankWithHeadsExchanged) {
  for (const std::int64_t kv_heads : {1, 2, 4})
    for (const bool async : {false, true}) {
      expect_like_one_rank({.ulysses = 2}, async, kv_heads);
      expect_like_one_rank({.ulysses = 4}, async, kv_heads);
    }
}
TEST(PackAttention, EqualsOneRankUnderBoth) {
  for (const bool async : {false, true}) expect_like_one_rank({.cp = 2, .ulysses = 2}, async, 1);
}

TEST(RowRoute, MovesRowsToWhoNeedsThemAndGradientsBack) {
  RandomStream stream(3, "moves", 0);
  constexpr std::int64_t kRanks = 3;
  std::vector<RowMove> moves;
  std::array<std::int64_t, kRanks> made{};
  std::array<std::int64_t, kRanks> taken{};
  for (int i = 0; i < 40; ++i) {
    const auto from = static_cast<std::size_t>(stream.between(0, 1));  // rank 2 has nothing
    const auto to = static_cast<std::size_t>(stream.between(0, kRanks - 1));
    moves.push_back({.from = static_cast<std::int64_t>(from),
                     .row = made[from]++,
                     .to = static_cast<std::int64_t>(to),
                     .place = taken[to]++});
  }
  mesh::run_ranks({.cp = kRanks}, [&](const mesh::Mesh& mesh) {
    const auto own = static_cast<std::size_t>(mesh.world().index());
    const RowRoute route(moves, mesh.sequence(), at::kCPU);
    // Each row holds its rank and number; one more row does not move.
    const at::Tensor rows = (at::arange(made[own] + 1, at::kFloat) + 1000.0 * mesh.world().index())
                                .unsqueeze(1)
                                .requires_grad_();
    const at::Tensor arrived = route(rows);
    at::Tensor placed = at::full({taken[own], 1}, -1.0);
    placed.index_copy_(0, route.places(), arrived.detach());
    torch::autograd::backward({arrived}, {arrived.detach() * 2});
    for (const RowMove& move : moves)
      if (move.to == mesh.world().index()) {
        EXPECT_EQ(placed[move.place].item<double>(),
                  static_cast<double>(1000 * move.from + move.row));
      }
    for (std::int64_t row = 0; row <= made[own]; ++row)
      EXPECT_EQ(rows.grad()[row].item<float>(),
                row < made[own] ? 2 * rows[row].item<float>() : 0.0F);
  });
}

}  // namespace
}  // namespace tributary::parallel
