#include "train/balance/rank_load.h"

#include <algorithm>

#include "config/family/known_modules.h"

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

/// The work of a replica of the backbone.
WorkLoad of_replica(const RankWork& work, std::span<const SampleShape> shapes) {
  ModalitySet elsewhere = work.lanes.taken_apart();
  elsewhere |= work.lanes.beside.takes;
  std::vector<SampleShape> encoded_here;
  for (const SampleShape& shape : shapes) encoded_here.push_back(shape.without(elsewhere));
  return load_of(work.model, work.section, encoded_here, work.times);
}

WorkLoad of_encoder(const RankWork& work, const EncoderLane& own, const DealtItems& items) {
  std::vector<Grid> grids;
  for (const schedule::MediaItem& item : items_of_seat(own, items)) grids.push_back(item.grid);
  const bool leads = own.mesh->at().pp == 0 && own.mesh->at().tp == 0;
  return part_of_load(load_of_media(work.model, work.section, own.encoder, grids, work.times),
                      ranks_of_seat(*own.mesh), leads);
}

}  // namespace

WorkLoad load_of_rank(const RankWork& work, std::span<const SampleShape> shapes,
                      const DealtItems& items) {
  WorkLoad load(config::chains_of(work.model).size());
  if (!work.lanes.has_encoders_apart())
    return work.backbone.leads_replica() ? of_replica(work, shapes) : load;
  if (work.backbone.is_here())
    load = part_of_load(of_replica(work, shapes), ranks_of_replica(work.backbone),
                        work.backbone.leads_replica());
  for (const EncoderLane& own : work.lanes.encoders) load += of_encoder(work, own, items);
  return load;
}

LoadParts parts_of_load(const config::ModelConfig& model, const RunLanes& lanes,
                        const mesh::Mesh& backbone) {
  LoadParts parts{.time = backbone.data_ranks()};
  if (lanes.has_encoders_apart()) parts.time = backbone.world().size();
  for (const config::ModuleChain& chain : config::chains_of(model)) {
    const auto edge = std::ranges::find(lanes.edges, chain.name, &FeatureEdge::encoder);
    parts.chains.push_back(edge == lanes.edges.end() ? backbone.data_ranks()
                                                     : edge->seats.replicas * edge->seats.seats);
  }
  return parts;
}

}  // namespace tributary::train
