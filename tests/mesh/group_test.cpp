#include "mesh/transport/group.h"

#include <cstdlib>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tuple>

#include <ATen/ATen.h>

#include "tests/mesh/thread_ranks.h"

namespace tributary::mesh {
namespace {

/// The numbers of rank `rank`: all of them differ.
at::Tensor brought(int rank, std::int64_t elements, at::ScalarType dtype = at::kFloat) {
  return (at::arange(elements, at::kDouble) * 0.5 + 1000.0 * rank).to(dtype);
}

/// The number of ranks, and whether they share memory.
class Groups : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void run(const std::function<void(const Mesh&)>& body) const {
    const auto [ranks, shares_memory] = GetParam();
    run_ranks({.dp_shard = ranks}, body, /*kv_heads=*/0, shares_memory);
  }
};

TEST_P(Groups, AddOverAllRanksAtAnySize) {
  run([&](const Mesh& mesh) {
    for (const std::int64_t elements : {1, 3, 17, 5000, 40001}) {
      const at::Tensor values = brought(mesh.world().index(), elements);
      mesh.shard().all_reduce(values).wait();
      at::Tensor expected = at::zeros({elements});
      for (int rank = 0; rank < mesh.size(); ++rank) expected += brought(rank, elements);
      EXPECT_TRUE(at::allclose(values, expected)) << elements;
    }
  });
}

TEST_P(Groups, FindTheLargestOfWholeNumbers) {
  run([&](const Mesh& mesh) {
    const std::vector<std::int64_t> max =
        mesh.world().largest({mesh.world().index(), -mesh.world().index()});
    EXPECT_EQ(max, (std::vector<std::int64_t>{mesh.size() - 1, 0}));
    const std::vector<std::int64_t> sum = mesh.world().sum(std::vector<std::int64_t>{1, 7});
    EXPECT_EQ(sum, (std::vector<std::int64_t>{mesh.size(), 7 * mesh.size()}));
  });
}

TEST_P(Groups, GatherNumbersInTheOrderOfRanks) {
  run([&](const Mesh& mesh) {
    const std::vector<std::int64_t> all = mesh.world().gather({mesh.world().index(), -7});
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(mesh.size()); ++rank) {
      EXPECT_EQ(all.at(2 * rank), static_cast<std::int64_t>(rank));
      EXPECT_EQ(all.at(2 * rank + 1), -7);
    }
  });
}

TEST_P(Groups, GatherPartsInTheOrderOfRanks) {
  run([&](const Mesh& mesh) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::Tensor whole = at::empty({mesh.size() * 7}, dtype);
      mesh.shard().all_gather(brought(mesh.world().index(), 7, dtype), whole).wait();
      for (int rank = 0; rank < mesh.size(); ++rank)
        EXPECT_TRUE(at::equal(whole.narrow(0, rank * 7, 7), brought(rank, 7, dtype)));
    }
  });
}

TEST_P(Groups, ScatterTheSum) {
  run([&](const Mesh& mesh) {
    const at::Tensor part = at::empty({9});
    mesh.shard().reduce_scatter(brought(mesh.world().index(), 9 * mesh.size()), part).wait();
    at::Tensor sum = at::zeros({9 * mesh.size()});
    for (int rank = 0; rank < mesh.size(); ++rank) sum += brought(rank, 9 * mesh.size());
    EXPECT_TRUE(at::equal(part, sum.narrow(0, mesh.world().index() * 9, 9)));
  });
}

TEST_P(Groups, ExchangeUnevenRowsWithNoneForSome) {
  run([&](const Mesh& mesh) {
    // Rank a sends (a + b) % 3 rows of value 10 a + b to rank b.
    std::vector<std::int64_t> send;
    std::vector<std::int64_t> receive;
    std::vector<at::Tensor> rows;
    for (int other = 0; other < mesh.size(); ++other) {
      send.push_back((mesh.world().index() + other) % 3);
      receive.push_back((other + mesh.world().index()) % 3);
      rows.push_back(at::full({send.back(), 2}, 10.0 * mesh.world().index() + other));
    }
    const at::Tensor out = at::cat(rows);
    const at::Tensor in = at::empty({at::tensor(receive).sum().item<std::int64_t>(), 2});
    mesh.shard().all_to_all(out, send, in, receive).wait();
    std::int64_t row = 0;
    for (int other = 0; other < mesh.size(); ++other)
      for (std::int64_t i = 0; i < receive[static_cast<std::size_t>(other)]; ++i)
        EXPECT_EQ(in[row++][1].item<double>(), 10.0 * other + mesh.world().index());
  });
}

TEST_P(Groups, KeepManyCollectivesUnderWayAtOnce) {
  run([&](const Mesh& mesh) {
    std::vector<at::Tensor> values;
    std::vector<Pending> pending;
    for (int i = 0; i < 20; ++i) {
      values.push_back(at::full({2000 + 2000 * i}, 1.0 * i));
      pending.push_back(mesh.shard().all_reduce(values.back()));
    }
    for (Pending& one : pending) one.wait();
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(at::equal(values[i], at::full({2000 + 2000 * i}, 1.0 * i * mesh.size())));
    EXPECT_GE(mesh.shard().traffic().calls, mesh.size() > 1 ? 20 : 0);
  });
}

TEST_P(Groups, PassMessagesByTagInTheOrderOfEachTag) {
  run([&](const Mesh& mesh) {
    const Group& group = mesh.shard();
    if (group.is_single()) return;
    if (group.index() == 0) {
      for (const double value : {1.0, 2.0, 3.0}) {
        group.send(at::full({3}, value), 1, /*tag=*/7).wait();
        group.send(at::full({5}, 10 * value), 1, /*tag=*/8).wait();
      }
    } else if (group.index() == 1) {
      for (const double value : {1.0, 2.0, 3.0}) {
        const at::Tensor later = at::empty({5});
        const at::Tensor first = at::empty({3});
        Pending pending = group.receive(later, 0, /*tag=*/8);
        group.receive(first, 0, /*tag=*/7).wait();
        pending.wait();
        EXPECT_EQ(first[0].item<double>(), value);
        EXPECT_EQ(later[4].item<double>(), 10 * value);
      }
    }
    (void)mesh.world().sum(std::vector<std::int64_t>{0});
  });
}

TEST_P(Groups, GatherTextsOfAnyLength) {
  run([&](const Mesh& mesh) {
    const auto texts = mesh.world().gather_text(std::string(mesh.world().index() * 3, 'x'));
    for (int rank = 0; rank < mesh.size(); ++rank)
      EXPECT_EQ(texts[rank], std::string(rank * 3, 'x'));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Groups,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool()));

TEST(Mesh, PassesMessagesThroughSocketsWhenAskedTo) {
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  testing::internal::CaptureStderr();
  run_ranks({.dp_shard = 2}, [&](const Mesh& mesh) {
    const at::Tensor values = brought(mesh.world().index(), 100);
    mesh.shard().all_reduce(values).wait();
    EXPECT_TRUE(at::equal(values, brought(0, 100) + brought(1, 100)));
  });
  unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("messages go through sockets: GLOO_SOCKET_IFNAME"));
}

TEST(Mesh, JoinsTheRanksOfEachAxis) {
  const config::MeshShape shape{.dp_replicate = 2, .dp_shard = 2, .tp = 2};
  run_ranks(shape, [&](const Mesh& mesh) {
    const auto sum_of = [&](const Group& group) {
      return group.sum(std::vector<std::int64_t>{1 << mesh.world().index()}).front();
    };
    std::int64_t tp = 0;
    std::int64_t shard = 0;
    std::int64_t replicate = 0;
    for (int rank = 0; rank < 8; ++rank) {
      const config::MeshCoordinates at = config::coordinates_of(shape, rank);
      const auto& own = mesh.at();
      if (at.dp_replicate == own.dp_replicate && at.dp_shard == own.dp_shard) tp |= 1 << rank;
      if (at.dp_replicate == own.dp_replicate && at.tp == own.tp) shard |= 1 << rank;
      if (at.dp_shard == own.dp_shard && at.tp == own.tp) replicate |= 1 << rank;
    }
    EXPECT_EQ(sum_of(mesh.tp()), tp);
    EXPECT_EQ(sum_of(mesh.shard()), shard);
    EXPECT_EQ(sum_of(mesh.replicate()), replicate);
    EXPECT_EQ(sum_of(mesh.world()), 255);
    EXPECT_TRUE(mesh.cp().is_single());
  });
}

/// What a scripted work was asked to do.
struct Script {
  int tries_left = 0;  // before it can be ended without a wait
  int finished = 0;
  bool is_alive = true;
};

class ScriptedWork final : public Pending::Work {
 public:
  explicit ScriptedWork(Script& script) : script_(script) {}
  ~ScriptedWork() override { script_.is_alive = false; }
  void finish() override { ++script_.finished; }
  bool try_finish() override { return script_.tries_left-- == 0; }
  [[nodiscard]] double arrived() const override { return 0; }

 private:
  Script& script_;
};

/// A transport that only sends, as the script says.
class ScriptedTransport final : public Transport {
 public:
  explicit ScriptedTransport(Script& script) : script_(script) {}
  using Work = std::unique_ptr<Pending::Work>;
  Work all_reduce(at::Tensor, Reduce) override { return nullptr; }
  Work all_gather(at::Tensor, at::Tensor) override { return nullptr; }
  Work reduce_scatter(at::Tensor, at::Tensor) override { return nullptr; }
  Work all_to_all(at::Tensor, std::vector<std::int64_t>, at::Tensor,
                  std::vector<std::int64_t>) override {
    return nullptr;
  }
  Work exchange(at::Tensor, int, at::Tensor, int) override { return nullptr; }
  Work send(at::Tensor, int, int) override { return std::make_unique<ScriptedWork>(script_); }
  Work receive(at::Tensor, int, int) override { return nullptr; }

 private:
  Script& script_;
};

Group scripted_group(Script& script, std::function<void()> on_issue = {}) {
  return {"pair",
          {0, 1},
          0,
          std::make_unique<ScriptedTransport>(script),
          std::make_shared<Ledger>(std::move(on_issue))};
}

TEST(Pending, IsEndedWithoutAWaitOnceItsMessageHasLeft) {
  Script script{.tries_left = 2};
  Pending sent = scripted_group(script).send(at::zeros({4}), /*to=*/1, /*tag=*/0);
  EXPECT_FALSE(sent.try_wait());
  EXPECT_FALSE(sent.try_wait());
  EXPECT_TRUE(sent.is_under_way());
  EXPECT_TRUE(sent.try_wait());
  EXPECT_FALSE(sent.is_under_way());
  EXPECT_EQ(script.finished, 0);
  EXPECT_FALSE(script.is_alive);
}

TEST(Pending, WarnsAndKeepsItsTensorsWhenNothingWaitedForIt) {
  Script dropped, replaced;
  testing::internal::CaptureStderr();
  {
    const Pending gone = scripted_group(dropped).send(at::zeros({4}), /*to=*/1, /*tag=*/0);
    Pending overwritten = scripted_group(replaced).send(at::zeros({4}), /*to=*/1, /*tag=*/0);
    overwritten = Pending();
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, testing::HasSubstr("nothing waited for a collective: send over pair"));
  EXPECT_TRUE(dropped.is_alive);
  EXPECT_TRUE(replaced.is_alive);
}

TEST(Pending, SaysNothingOfWhatAnErrorLeftBehind) {
  Script script;
  testing::internal::CaptureStderr();
  try {
    const Pending sent = scripted_group(script).send(at::zeros({4}), /*to=*/1, /*tag=*/0);
    throw std::runtime_error("something else");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(script.is_alive);
}

TEST(Group, TellsOfEachCollectiveWhileItIsUnderWay) {
  Script script;
  int told = 0;
  const Group group = scripted_group(script, [&] {
    EXPECT_EQ(script.finished, 0);
    ++told;
  });
  Pending sent = group.send(at::zeros({4}), /*to=*/1, /*tag=*/0);
  EXPECT_EQ(told, 1);
  sent.wait();
  EXPECT_EQ(script.finished, 1);
}

}  // namespace
}  // namespace tributary::mesh
