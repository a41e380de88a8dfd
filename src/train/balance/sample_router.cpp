#include "train/balance/sample_router.h"

#include <algorithm>
#include <set>

#include "config/run/mesh_shape.h"
#include "core/error.h"
#include "mesh/exchange_bytes.h"

namespace tributary::train {
namespace {

/// The ranks of a mesh by replica, those of one stage alone where `stage` is not negative.
std::vector<std::vector<int>> by_replica(const mesh::Mesh& mesh, std::int64_t stage) {
  std::vector<std::vector<int>> replicas(static_cast<std::size_t>(mesh.data_ranks()));
  for (std::int64_t place = 0; place < mesh.size(); ++place) {
    const int rank = mesh.ranks()[static_cast<std::size_t>(place)];
    if (stage >= 0 && config::coordinates_of(mesh.shape(), place).pp != stage) continue;
    replicas[static_cast<std::size_t>(mesh.data_index_of(rank))].push_back(rank);
  }
  return replicas;
}

/// The ranks of an encoder's first stage by seat.
std::vector<std::vector<int>> by_seat(const mesh::Mesh& encoder) {
  std::vector<std::vector<int>> seats;
  for (const std::vector<int>& replica : by_replica(encoder, /*stage=*/0)) {
    const std::int64_t tp = encoder.shape().tp;
    for (std::int64_t first = 0; first < std::ssize(replica); first += tp)
      seats.emplace_back(replica.begin() + first, replica.begin() + first + tp);
  }
  return seats;
}

bool has(const std::vector<int>& ranks, int rank) {
  return std::ranges::binary_search(ranks, rank);
}

std::optional<ModalitySet> rows_for(const SampleRoute& route, int rank) {
  const auto taken = route.taken_by.find(rank);
  return taken == route.taken_by.end() ? std::nullopt : std::optional(taken->second);
}

}  // namespace

SampleRouter::SampleRouter(const RunLanes& run, const Meshes& meshes, std::int64_t batch_samples)
    : world_(&meshes.backbone.world()),
      batch_samples_(batch_samples),
      replicas_(by_replica(meshes.backbone, /*stage=*/-1)),
      first_stage_(by_replica(meshes.backbone, /*stage=*/0)),
      inline_(ModalitySet(kMediaModalities).without(run.taken_apart())) {
  passes_ = run.has_encoders_apart() || replicas_.front().size() > 1;
  if (passes_)
    beside_ = meshes.backbone.all_ranks().open("samples", world_->ranks(), mesh::GroupUse::kBeside);
  for (const FeatureEdge& edge : run.edges)
    encoders_.push_back({edge.takes, by_seat(meshes.encoders.at(edge.encoder))});
  for (std::vector<int>& ranks : replicas_) std::ranges::sort(ranks);
  if (!meshes.backbone.is_here()) return;
  const std::vector<int>& own =
      first_stage_[static_cast<std::size_t>(meshes.backbone.data_index())];
  const auto place = std::ranges::find(own, world_->index()) - own.begin();
  if (place < std::ssize(own)) reader_ = place;
}

SampleRoute SampleRouter::route(std::int64_t replica, std::int64_t place,
                                std::span<const EncodingSeat> seats) const {
  const auto in_turn = [place](const std::vector<int>& ranks) {
    return ranks[static_cast<std::size_t>(place) % ranks.size()];
  };
  const std::vector<int>& own = replicas_[static_cast<std::size_t>(replica)];
  const std::vector<int>& first = first_stage_[static_cast<std::size_t>(replica)];
  const auto ranks_of = [this](const EncodingSeat& seat) -> const std::vector<int>& {
    return encoders_[static_cast<std::size_t>(seat.edge)]
        .ranks[static_cast<std::size_t>(seat.seat)];
  };
  SampleRoute route{.reader = in_turn(seats.empty() ? first : ranks_of(seats.front())),
                    .replica = own,
                    .taken_by = {}};
  for (const int rank : own) route.taken_by[rank] = {};
  for (const int rank : first) route.taken_by[rank] |= inline_;
  for (const EncodingSeat& seat : seats)
    for (const int rank : ranks_of(seat))
      route.taken_by[rank] |= encoders_[static_cast<std::size_t>(seat.edge)].takes;
  return route;
}

data::SampleDuty SampleRouter::duty_of(const SampleRoute& route) const {
  const int rank = world_->ranks()[static_cast<std::size_t>(world_->index())];
  return {.takes = route.taken_by.contains(rank),
          .reads = route.reader == rank,
          .counts = has(route.replica, rank)};
}

std::vector<data::SampleDuty> SampleRouter::deal(std::int64_t first_index,
                                                 std::span<const std::int32_t> replica_of,
                                                 const DealtItems& media) {
  const std::vector<std::vector<EncodingSeat>> seats = seats_of_samples(media, replica_of.size());
  std::vector<std::int64_t> places(replicas_.size());  // by replica
  std::map<std::int64_t, SampleRoute> routes;
  std::vector<data::SampleDuty> duties;
  for (std::size_t i = 0; i < replica_of.size(); ++i) {
    const std::int32_t replica = replica_of[i];
    SampleRoute own = route(replica, places[static_cast<std::size_t>(replica)]++, seats[i]);
    duties.push_back(duty_of(own));
    routes.emplace(first_index + static_cast<std::int64_t>(i), std::move(own));
  }
  const std::scoped_lock lock(mutex_);
  dealt_.insert_or_assign(first_index, std::move(routes));
  return duties;
}

std::map<std::int64_t, SampleRoute> SampleRouter::routes_of(std::int64_t first_index) {
  const std::scoped_lock lock(mutex_);
  if (const auto dealt = dealt_.find(first_index); dealt != dealt_.end()) {
    std::map<std::int64_t, SampleRoute> routes = std::move(dealt->second);
    dealt_.erase(dealt_.begin(), std::next(dealt));
    return routes;
  }
  std::map<std::int64_t, SampleRoute> in_turn;
  const std::int64_t replicas = std::ssize(replicas_);
  for (std::int64_t i = 0; i < batch_samples_; ++i)
    in_turn.emplace(first_index + i, route(i % replicas, i / replicas, {}));
  return in_turn;
}

std::vector<std::string> SampleRouter::pass_on(std::int64_t first_index,
                                               const data::WriteRead& write) {
  return exchange(beside_, routes_of(first_index), write);
}

std::vector<std::string> SampleRouter::pass_along(const std::map<std::int64_t, SampleRoute>& routes,
                                                  const data::WriteRead& write) const {
  return exchange(*world_, routes, write);
}

std::vector<std::string> SampleRouter::exchange(const mesh::Group& group,
                                                const std::map<std::int64_t, SampleRoute>& routes,
                                                const data::WriteRead& write) const {
  std::vector<std::string> to_each(static_cast<std::size_t>(world_->size()));
  for (int rank = 0; rank < world_->size(); ++rank)
    if (rank != world_->index())
      to_each[static_cast<std::size_t>(rank)] =
          write([&](std::int64_t id) { return rows_for(routes.at(id), rank); });
  std::vector<std::string> messages = mesh::exchange_bytes(group, to_each);
  std::erase_if(messages, [](const std::string& message) { return message.empty(); });
  return messages;
}

TakenSamples part_samples(std::vector<data::EncodedSample> samples, std::int64_t first_id,
                          std::span<const std::int32_t> replica_of, std::int64_t replica,
                          ModalitySet taken_apart) {
  TakenSamples taken;
  for (data::EncodedSample& sample : samples) {
    data::EncodedSample& media = taken.encoded.emplace_back();
    media.id = sample.id;
    for (data::PatchedItem& item : sample.items) {
      data::PatchedItem& apart =
          media.items.emplace_back(data::PatchedItem{.modality = item.modality,
                                                     .grid = item.grid,
                                                     .seconds_per_step = item.seconds_per_step,
                                                     .rows = {}});
      if (taken_apart.has(item.modality)) apart.rows = std::move(item.rows);
    }
    if (replica_of[static_cast<std::size_t>(sample.id - first_id)] == replica)
      taken.own.push_back(std::move(sample));
  }
  return taken;
}

std::vector<std::vector<EncodingSeat>> seats_of_samples(const DealtItems& media,
                                                        std::size_t samples) {
  std::vector<std::vector<EncodingSeat>> seats(samples);
  for (std::size_t edge = 0; edge < media.size(); ++edge)
    for (const schedule::MediaRound& round : media[edge])
      for (const schedule::MediaItem& item : round)
        seats[static_cast<std::size_t>(item.sample)].push_back(
            {.edge = static_cast<std::int32_t>(edge), .seat = item.seat});
  return seats;
}

}  // namespace tributary::train
