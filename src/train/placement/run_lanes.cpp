#include "train/placement/run_lanes.h"

#include <algorithm>
#include <utility>

#include "config/family/known_modules.h"
#include "config/plan/plan_of_run.h"
#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::train {
namespace {

/// Groups of one name are one group, which both ways share.
std::int64_t sent_along(const parallel::EdgeLink& link) {
  const std::int64_t bytes = link.to_higher->traffic().bytes;
  const bool shares = link.to_higher->name() == link.to_lower->name();
  return shares ? bytes : bytes + link.to_lower->traffic().bytes;
}

}  // namespace

std::int64_t RunLanes::sent_bytes() const {
  std::int64_t bytes = 0;
  for (const FeatureEdge& edge : edges)
    bytes += sent_along(edge.ranks.features) + sent_along(edge.ranks.gradients);
  return bytes;
}

bool RunLanes::encodes_ahead() const {
  return std::ranges::any_of(pipeline.modules, &schedule::PipelineModule::ahead);
}

ModalitySet RunLanes::taken_apart() const {
  ModalitySet taken;
  for (const FeatureEdge& edge : edges) taken |= edge.takes;
  return taken;
}

int RunLanes::stages() const {
  int stages = 0;
  for (const schedule::PipelineModule& module : pipeline.modules) stages += module.stages;
  return stages;
}

int RunLanes::stage_of(int lane) const {
  const schedule::PipelineMap map(pipeline);
  const schedule::Lane at = map.at(lane);
  int before = 0;
  for (const int module : map.flow()) {
    if (module == at.module) return before + at.stage;
    before += pipeline.modules[static_cast<std::size_t>(module)].stages;
  }
  TRIB_RAISE(Fault::kBug, .what = "train: lane has no module");
}

std::vector<int> RunLanes::own() const {
  std::vector<int> lanes;
  for (const EncoderLane& each : encoders) lanes.push_back(each.lane);
  if (runs_backbone()) lanes.push_back(backbone);
  return lanes;
}

const EncoderLane* RunLanes::encoder_on(int lane) const {
  const auto found = std::ranges::find(encoders, lane, &EncoderLane::lane);
  return found == encoders.end() ? nullptr : &*found;
}

const EncoderLane* RunLanes::find_encoder(std::string_view encoder) const {
  const auto found = std::ranges::find(encoders, encoder, &EncoderLane::encoder);
  return found == encoders.end() ? nullptr : &*found;
}

RunLanes one_lane() {
  RunLanes lanes;
  lanes.pipeline.modules = {{.name = std::string(config::kBackboneModule)}};
  lanes.backbone = 0;
  return lanes;
}

RunLanes lanes_of_run(const config::Plan& plan, const schedule::Pipeline& pipeline,
                      const Meshes& meshes, std::span<const config::FrontModule> front) {
  RunLanes run;
  run.pipeline = pipeline;
  const schedule::PipelineMap map(run.pipeline);
  const auto rank = static_cast<std::size_t>(meshes.backbone.world().index());
  const std::vector<std::vector<int>> lanes =
      schedule::lanes_of_ranks(config::plan_of_ranks(plan), map);
  for (const int lane : lanes.at(rank)) {
    const std::string& module =
        run.pipeline.modules[static_cast<std::size_t>(map.at(lane).module)].name;
    const auto encoder = meshes.encoders.find(module);
    if (encoder == meshes.encoders.end()) {
      run.backbone = lane;
      continue;
    }
    const mesh::Mesh& mesh = encoder->second;
    run.encoders.push_back(
        {.lane = lane,
         .encoder = module,
         .edge = map.edges_from(map.at(lane).module).front(),
         .seat = mesh.data_index() * mesh.sequence().size() + mesh.sequence().index(),
         .mesh = &mesh});
  }
  for (const config::ModulePlan& module : plan.modules) {
    if (module.placement != config::Placement::kFlow) continue;
    run.beside.modules.push_back(module.name);
    run.beside.takes |= ModalitySet(config::find_module(front, module.name)->takes);
  }
  for (const schedule::PipelineEdge& edge : run.pipeline.edges) {
    const schedule::PipelineModule& from =
        run.pipeline.modules[static_cast<std::size_t>(edge.from)];
    run.edges.push_back(
        {.encoder = from.name,
         .takes = ModalitySet(config::find_module(front, from.name)->takes),
         .ranks = edge_of(meshes, from.name),
         .seats = schedule::seats_of(meshes.encoders.at(from.name).shape(), meshes.backbone.shape(),
                                     from.passes, from.takes_turns),
         .waits_on_host = plan.find(from.name)->features == config::FeatureMemory::kHost});
  }
  return run;
}

std::int64_t count_rounds(const DealtItems& items) {
  return items.empty() ? 0 : std::ssize(items.front());
}

std::vector<schedule::MediaItem> items_of_seat(const EncoderLane& own, const DealtItems& items) {
  std::vector<schedule::MediaItem> of_seat;
  for (const schedule::MediaRound& round : items[static_cast<std::size_t>(own.edge)])
    for (const schedule::MediaItem& item : round)
      if (item.seat == own.seat) of_seat.push_back(item);
  return of_seat;
}

std::vector<schedule::MediaItem> items_of_pass(const EncoderLane& own, const DealtItems& items,
                                               int pass) {
  std::vector<schedule::MediaItem> of_pass = items_of_seat(own, items);
  std::erase_if(of_pass, [pass](const schedule::MediaItem& item) { return item.pass != pass; });
  return of_pass;
}

namespace {

/// Lists the rows of items; seats make them in the order of `items`, pass after pass, and keep them
/// in the same order.
class RowList {
 public:
  RowList(const FeatureEdge& edge, const model::Model& model, Homes homes)
      : edge_(edge), model_(model), homes_(homes) {
    rows_.made.resize(edge.ranks.source.seats.size());
    rows_.kept.resize(edge.ranks.destination.seats.size());
  }
  void add(const schedule::MediaRound& round) {
    for (const schedule::MediaItem& item : round) {
      ItemRows& made =
          items_.emplace_back(ItemRows{.pass = item.pass,
                                       .seat = item.seat,
                                       .rows = model_.feature_rows(edge_.encoder, item.grid),
                                       .taken = {}});
      const std::int64_t first = item.replica * edge_.seats.homes;
      if (homes_ == Homes::kOne) keep(first + item.home, made);
      for (std::int64_t i = 0; homes_ == Homes::kAllOfReplica && i < edge_.seats.homes; ++i)
        keep(first + i, made);
    }
  }
  [[nodiscard]] parallel::EdgeRows take() {
    std::ranges::stable_sort(items_, {}, &ItemRows::pass);
    for (const ItemRows& item : items_) {
      std::int64_t& made = rows_.made[static_cast<std::size_t>(item.seat)];
      for (const auto& [seat, place] : item.taken)
        rows_.runs.push_back(
            {.from = item.seat, .first = made, .to = seat, .place = place, .rows = item.rows});
      made += item.rows;
    }
    return std::move(rows_);
  }

 private:
  struct ItemRows {
    int pass;
    int seat;
    std::int64_t rows;
    std::vector<std::pair<int, std::int64_t>> taken;  // by which seats, and the first row there
  };

  void keep(std::int64_t seat, ItemRows& item) {
    std::int64_t& kept = rows_.kept[static_cast<std::size_t>(seat)];
    item.taken.emplace_back(static_cast<int>(seat), kept);
    kept += item.rows;
  }

  const FeatureEdge& edge_;
  const model::Model& model_;
  Homes homes_;
  parallel::EdgeRows rows_;
  std::vector<ItemRows> items_;
};

}  // namespace

parallel::EdgeRows rows_of_round(std::span<const schedule::MediaRound> rounds, int microbatch,
                                 const FeatureEdge& edge, const model::Model& model, Homes homes) {
  RowList list(edge, model, homes);
  if (microbatch < std::ssize(rounds)) list.add(rounds[static_cast<std::size_t>(microbatch)]);
  return list.take();
}

parallel::EdgeRows rows_of_rounds(std::span<const schedule::MediaRound> rounds, int first, int end,
                                  const FeatureEdge& edge, const model::Model& model) {
  RowList list(edge, model, Homes::kOne);
  for (int round = first; round < std::min<std::int64_t>(end, std::ssize(rounds)); ++round)
    list.add(rounds[static_cast<std::size_t>(round)]);
  return list.take();
}

}  // namespace tributary::train
