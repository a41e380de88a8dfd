#include "train/balance/rank_load.h"

namespace tributary::train {
namespace {

/// The ranks that share the samples of a replica.
double ranks_of_replica(const mesh::Mesh& mesh) {
  return static_cast<double>(mesh.size()) / static_cast<double>(mesh.data_ranks());
}

/// The ranks that encode the same media: those of tp, and of all stages.
double ranks_of_seat(const mesh::Mesh& encoder) {
  return static_cast<double>(encoder.shape().pp * encoder.shape().tp);
}

ReplicaLoad of_backbone(const RankWork& work, std::span<const SampleShape> shapes) {
  std::vector<SampleShape> without_media(shapes.begin(), shapes.end());
  for (SampleShape& shape : without_media) {
    shape.images.clear();
    shape.videos.clear();
  }
  const ReplicaLoad load = load_of(work.model, work.section, without_media);
  return part_of_load(load, ranks_of_replica(work.backbone), work.backbone.leads_replica());
}

ReplicaLoad of_encoder(const RankWork& work, std::span<const schedule::MediaRound> rounds) {
  std::vector<Grid> grids;
  for (const schedule::MediaRound& round : rounds)
    for (const schedule::MediaItem& item : round)
      if (item.seat == work.lanes.seat) grids.push_back(item.grid);
  const bool leads = work.encoder->at().pp == 0 && work.encoder->at().tp == 0;
  return part_of_load(load_of_media(work.model, work.section, grids), ranks_of_seat(*work.encoder),
                      leads);
}

}  // namespace

ReplicaLoad load_of_rank(const RankWork& work, std::span<const SampleShape> shapes,
                         std::span<const schedule::MediaRound> rounds) {
  if (!work.lanes.has_encoders_apart())
    return work.backbone.leads_replica() ? load_of(work.model, work.section, shapes)
                                         : ReplicaLoad{};
  ReplicaLoad load{};
  if (work.backbone.is_here()) load = of_backbone(work, shapes);
  if (work.encoder == nullptr) return load;
  const ReplicaLoad media = of_encoder(work, rounds);
  for (std::size_t i = 0; i < load.size(); ++i) load[i] += media[i];
  return load;
}

LoadParts parts_of_load(const RunLanes& lanes, const mesh::Mesh& backbone) {
  const std::int64_t replicas = backbone.data_ranks();
  LoadParts parts{.time = replicas, .media = replicas, .replicas = replicas};
  for (const FeatureEdge& edge : lanes.edges) {
    parts.time = backbone.world().size();
    parts.media = edge.seats.replicas * edge.seats.seats;
  }
  return parts;
}

}  // namespace tributary::train
