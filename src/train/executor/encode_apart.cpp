#include "train/executor/encode_apart.h"

#include <vector>

#include <ATen/ATen.h>

#include "parallel/stage/stage_link.h"

namespace tributary::train {
namespace {

/// What this rank's encoder gives for its media; undefined on all but its last stage.
at::Tensor encode(model::Model& model, const std::string& encoder,
                  const model::EncoderInput& media) {
  return parallel::run_stages(
      model.encoder_layouts().at(encoder),
      [&](int stage) { return model.empty_encoder_input(encoder, stage, media); },
      [&](int stage, const at::Tensor& input) {
        return model.run_encoder_stage(encoder, stage, media, input);
      });
}

/// The features that this rank's first stage of the backbone takes along an edge; undefined
/// elsewhere.
at::Tensor bring_features(model::Model& model, const RunLanes& run, std::size_t edge_index,
                          const ForwardMedia& media, Homes homes) {
  const FeatureEdge& edge = run.edges[edge_index];
  at::Tensor features;
  if (run.find_encoder(edge.encoder) != nullptr)
    features = encode(model, edge.encoder, media.inputs.at(edge.encoder));
  const bool gives = edge.ranks.source.seat >= 0;
  const bool takes = edge.ranks.destination.seat >= 0;
  if (!gives && !takes) return {};
  parallel::Redistribute rows(
      edge.ranks, rows_of_round(media.items[edge_index], 0, edge, model, homes), /*tag=*/0);
  std::vector<mesh::Pending> sent;
  if (gives) sent = rows.send(features.narrow(0, 0, rows.source_rows()).contiguous());
  at::Tensor taken;
  if (takes)
    taken = rows.take(
        rows.receive(model.feature_width(edge.encoder), model.units().front()->whole_options()));
  for (mesh::Pending& message : sent) message.wait();
  return taken;
}

}  // namespace

std::function<model::Features(bool tokens_are_whole)> encode_apart(model::Model& model,
                                                                   const RunLanes& run,
                                                                   const ForwardMedia& media) {
  if (!run.has_encoders_apart()) return {};
  return [&model, &run, &media](bool tokens_are_whole) {
    const Homes homes = tokens_are_whole ? Homes::kAllOfReplica : Homes::kOne;
    model::Features features;
    for (std::size_t edge = 0; edge < run.edges.size(); ++edge)
      if (at::Tensor taken = bring_features(model, run, edge, media, homes); taken.defined())
        features[run.edges[edge].encoder] = std::move(taken);
    return features;
  };
}

}  // namespace tributary::train
