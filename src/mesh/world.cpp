#include "mesh/world.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "core/text.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

/// Timeout [s] of the groups used while loading and saving, where ranks take very different times.
/// Health (health.h) finds ranks that are lost or make no progress meanwhile.
constexpr double kFileTimeout = 86'400;

bool is_for_host(GroupUse use) { return use == GroupUse::kHost || use == GroupUse::kBeside; }

std::vector<int> first_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

World::World() : ledger_(std::make_shared<Ledger>()) {}

World::World(int rank, int size, c10::intrusive_ptr<c10d::Store> store, WorldOptions options,
             const std::string& key)
    : rank_(rank), store_(std::move(store)), options_(std::move(options)) {
  if (!key.empty()) store_ = c10::make_intrusive<c10d::PrefixStore>(key, store_);
  ledger_ = std::make_shared<Ledger>(options_.on_collective);
  all_ = open("world", first_ranks(size), GroupUse::kHost);
  saving_ = open("saving", first_ranks(size), GroupUse::kBeside);
}

World::World(int rank, int size) : rank_(rank), ledger_(std::make_shared<Ledger>()) {
  all_ = open("world", first_ranks(size), GroupUse::kHost);
  saving_ = open("saving", first_ranks(size), GroupUse::kBeside);
}

World::~World() = default;

Group World::open(const std::string& name, const std::vector<int>& ranks, GroupUse use) const {
  if (ranks.size() == 1) return {};
  const auto index = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  const std::string key = str("group/", name, "/", ranks.front());
  const TransportOptions transport{
      .name = str(key, "/", opened_[key]++),  // a later group of the name meets anew
      .index = index,
      .size = static_cast<int>(ranks.size()),
      .timeout_seconds = is_for_host(use) ? std::max(kFileTimeout, options_.timeout_seconds)
                                          : options_.timeout_seconds,
      .interface = options_.interface,
      .shares_memory = options_.shares_memory,
      .only_messages = use == GroupUse::kMessages};
  return {name, ranks, index, make_transport(transport, use),
          use == GroupUse::kBeside ? nullptr : ledger_};
}

std::unique_ptr<Transport> World::make_transport(const TransportOptions& transport,
                                                 GroupUse use) const {
  if (!store_) return make_unconnected();
  if (is_for_host(use) || options_.device.is_cpu()) return make_direct(store_, transport);
  if (options_.is_through_host) return make_through_host(store_, transport);
  return make_nccl(store_, transport, options_.device.index());
}

void World::meet() const {
  if (store_) (void)all_.sum(std::vector<std::int64_t>{0});
}

}  // namespace tributary::mesh
