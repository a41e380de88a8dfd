#include "train/start/memory_need.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "config/run/optimizer_state.h"
#include "core/error.h"
#include "model/model.h"
#include "parallel/unit_chain.h"
#include "train/optimizer/adamw_8bit.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kWide = 4;  // bytes of a float32

std::int64_t value_bytes_of(const config::ModelSection& section) {
  return section.dtype == config::Dtype::kFloat32 ? kWide : 2;
}

std::int64_t local_elements(const parallel::Unit& unit) {
  std::int64_t elements = 0;
  for (const auto& parameter : unit.parameters()) elements += parameter->local_elements();
  return elements;
}

/// Bytes of moments of a rank's part of a unit's parameters.
std::int64_t moment_bytes(const parallel::Unit& unit, config::OptimizerKind optimizer) {
  double bytes = 0;
  for (const auto& parameter : unit.parameters())
    bytes += config::moment_bytes(
                 optimizer, {.is_map = parameter->is_map, .is_large = is_quantised(*parameter)}) *
             static_cast<double>(parameter->local_elements());
  return std::llround(bytes);
}

/// Adds up the memory of the units of one mesh on this rank, by kind.
class Ledger {
 public:
  Ledger(MemoryNeed& need, const config::ModelSection& section,
         const config::OptimizerSection& optimizer, bool keeps_start,
         const parallel::Layout& layout)
      : need_(need),
        optimizer_(optimizer),
        keeps_start_(keeps_start),
        value_bytes_(value_bytes_of(section)),
        shards_(layout.mesh->shard().size()) {
    if (layout.chain) options_ = layout.chain->options();
    gradient_bytes_ = options_.reduce_in_f32 ? kWide : value_bytes_;
  }

  void add(const parallel::Unit& unit, bool trains) {
    const std::int64_t whole = local_elements(unit);
    const std::int64_t own = (whole + shards_ - 1) / shards_;
    add_to(need_.parameters, own * value_bytes_, options_.keep_values_on_host);
    if (shards_ > 1) add_whole(whole, trains);
    if (!trains) return;
    need_.gradients += {own * gradient_bytes_};
    add_to(need_.moments, (moment_bytes(unit, optimizer_.kind) + shards_ - 1) / shards_,
           options_.keep_optimizer_on_host);
    if (optimizer_.ema_decay > 0)
      add_to(need_.averages, std::llround(config::kAverageBytes * static_cast<double>(own)),
             options_.keep_optimizer_on_host);
    if (keeps_start_) add_to(need_.reference, own * value_bytes_, options_.keep_optimizer_on_host);
    std::int64_t masters = 0;
    if (value_bytes_ < kWide) masters += own * kWide;
    if (gradient_bytes_ < kWide) masters += own * kWide;
    add_to(need_.masters, masters, options_.keep_optimizer_on_host);
  }

 private:
  void add_to(Bytes& kind, std::int64_t bytes, bool is_on_host) {
    kind += {bytes};
    if (is_on_host) need_.on_host += {bytes};
  }
  /// Adds whole values and gradients of a sharded unit: of every unit where they live through the
  /// step, else only of the largest unit.
  void add_whole(std::int64_t elements, bool trains) {
    const Bytes values{elements * value_bytes_};
    const Bytes gradients{trains ? elements * gradient_bytes_ : 0};
    const auto count = [this](Bytes bytes, Bytes& largest, bool for_the_step) {
      if (for_the_step) {
        need_.whole += bytes;
      } else if (bytes > largest) {
        need_.whole += bytes - largest;
        largest = bytes;
      }
    };
    count(values, largest_values_, options_.release == parallel::Release::kAfterStep);
    count(gradients, largest_gradients_, options_.reduce_once);
  }

  MemoryNeed& need_;
  const config::OptimizerSection& optimizer_;
  bool keeps_start_;
  std::int64_t value_bytes_;
  std::int64_t gradient_bytes_ = kWide;
  std::int64_t shards_;
  parallel::ChainOptions options_;
  Bytes largest_values_;
  Bytes largest_gradients_;
};

ModuleSize& module_of(std::vector<ModuleSize>& modules, const std::string& name) {
  const auto found = std::ranges::find(modules, name, &ModuleSize::name);
  if (found != modules.end()) return *found;
  return modules.emplace_back(ModuleSize{.name = name});
}

}  // namespace

std::int64_t MemoryNeed::count_parameters() const {
  std::int64_t count = 0;
  for (const ModuleSize& module : modules) count += module.parameters;
  return count;
}

std::int64_t MemoryNeed::count_trained() const {
  std::int64_t count = 0;
  for (const ModuleSize& module : modules) count += module.trained;
  return count;
}

MemoryNeed count_memory(const config::ModelSection& section, const config::ModelConfig& model,
                        const model::ModelLayout& layouts,
                        const config::OptimizerSection& optimizer, bool keeps_start) {
  const auto hollow = model::make_model(model, layouts);
  MemoryNeed need;
  std::map<const mesh::Mesh*, Ledger> ledgers;
  std::set<std::string> counted;
  for (const auto& unit : hollow->units()) {
    const bool trains = model::trains(section, *unit);
    ModuleSize& module = module_of(need.modules, unit->module());
    for (const auto& parameter : unit->parameters()) {
      if (!counted.insert(parameter->name).second) continue;
      module.parameters += parameter->elements();
      if (trains) module.trained += parameter->elements();
    }
    if (unit->is_here())
      ledgers
          .try_emplace(unit->layout().mesh, need, section, optimizer, keeps_start, unit->layout())
          .first->second.add(*unit, trains);
  }
  for (const auto& [encoder, layout] : layouts.encoders)
    need.features[encoder] = {hollow->feature_width(encoder) * value_bytes_of(section)};
  return need;
}

std::string describe_sum(const MemoryNeed& need) {
  std::string text;
  const auto add = [&text](const char* name, Bytes bytes) {
    if (bytes.count > 0) text += str(text.empty() ? "" : " + ", name, " ", describe_bytes(bytes));
  };
  add("parameters", need.parameters);
  add("gradients", need.gradients);
  add("moments", need.moments);
  add("averaged weights", need.averages);
  add("reference", need.reference);
  add("float32 copies", need.masters);
  add("gathered shards", need.whole);
  return str(text, " = ", describe_bytes(need.total()));
}

MemoryPlace tightest_place(const MemoryNeed& need, Bytes device_left,
                           const std::vector<MemoryLimit>& limits, std::int64_t local_ranks) {
  const bool is_cuda = device_left.count > 0;
  const Bytes of_host = is_cuda ? need.on_host : need.total();
  std::vector<MemoryPlace> places;
  if (is_cuda)
    places.push_back({need.total() - need.on_host, device_left, "free memory of the device"});
  for (const MemoryLimit& limit : limits) {
    const bool is_shared = !limit.of_process && local_ranks > 1;
    places.push_back(
        {of_host, share_of(limit, local_ranks),
         is_shared ? str("a rank's part of the ", limit.name, ", for ", local_ranks, " ranks")
                   : limit.name});
  }
  if (places.empty()) return {};
  return *std::ranges::min_element(
      places, {}, [](const MemoryPlace& place) { return (place.left - place.needed).count; });
}

void require_memory(const MemoryNeed& need, const MemoryPlace& place) {
  if (place.name.empty() || place.needed <= place.left) return;
  const std::int64_t parts =
      place.left.count > 0 ? (place.needed.count - 1) / place.left.count + 1 : 0;
  TRIB_RAISE(Fault::kResource, .what = "train: the model does not fit into memory",
             .where = "model.path, model.freeze",
             .found = str(describe_sum(need), " on each rank, activations not counted"),
             .expected = str("at most ", describe_bytes(place.left), ", ", place.name),
             .fix = str("train less of it (model.freeze), take a smaller model, ",
                        parts > 1 ? str("or shard it over ", parts,
                                        " times the memory (parallel.dp_shard on more machines or "
                                        "devices)")
                                  : "or free memory"));
}

}  // namespace tributary::train
