#include "train/measured_parts.h"

#include <nlohmann/json.hpp>

#include "core/json.h"

namespace tributary::train {
namespace {

/// Whether a seat of an encoder has the media that were planned for it.
bool encodes_as_planned(const TakenStep& taken, const EncoderLane& own) {
  return taken.planned_items.empty() ||
         items_of_seat(own, taken.planned_items) == items_of_seat(own, taken.media.items);
}

}  // namespace

std::vector<schedule::MeasuredPart> measured_parts(const Session& session, const TakenStep& taken,
                                                   const BatchResult& batch, double seconds) {
  const RunLanes& lanes = session.lanes;
  std::vector<schedule::MeasuredPart> parts;
  if (lanes.runs_backbone() && session.mesh->leads_stage())
    parts.push_back({.place = session.mesh->data_index(),
                     .passes = batch.of_lanes.at(lanes.backbone),
                     .as_planned = taken.balance.repacked == 0,
                     .step = seconds});
  for (const EncoderLane& own : lanes.encoders) {
    if (own.mesh->at().tp != 0) continue;  // in which alone the ranks of a seat differ
    parts.push_back({.encoder = own.edge,
                     .place = own.seat,
                     .passes = batch.of_lanes.at(own.lane),
                     .as_planned = encodes_as_planned(taken, own),
                     .step = seconds});
  }
  return parts;
}

std::vector<schedule::MeasuredPart> gather_parts(std::span<const schedule::MeasuredPart> own,
                                                 const mesh::Group& world) {
  Json told = Json::array();
  for (const schedule::MeasuredPart& part : own)
    told.push_back({{"encoder", part.encoder},
                    {"place", part.place},
                    {"passes", part.passes},
                    {"as_planned", part.as_planned},
                    {"step", part.step}});
  std::vector<schedule::MeasuredPart> parts;
  for (const std::string& text : world.gather_text(told.dump()))
    for (const Json& part : parse_json(text, "times of a rank"))
      parts.push_back({.encoder = part.at("encoder").get<std::int32_t>(),
                       .place = part.at("place").get<std::int64_t>(),
                       .passes = part.at("passes").get<std::vector<double>>(),
                       .as_planned = part.at("as_planned").get<bool>(),
                       .step = part.at("step").get<double>()});
  return parts;
}

}  // namespace tributary::train
