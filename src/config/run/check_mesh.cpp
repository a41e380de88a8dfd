#include <algorithm>
#include <functional>

#include "config/family/known_modules.h"
#include "config/reading/problems.h"
#include "config/run/mesh_shape.h"
#include "config/run/module_places.h"
#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

bool divides(std::int64_t divisor, std::int64_t number) { return number % divisor == 0; }

/// The nearest values below and above `wrong` that keep the rule, at most `max`.
std::string nearest_values(std::int64_t wrong, std::int64_t max,
                           const std::function<bool(std::int64_t)>& keeps_rule) {
  std::string below;
  for (std::int64_t value = std::min(wrong - 1, max); value >= 1 && below.empty(); --value)
    if (keeps_rule(value)) below = str(value);
  std::string above;
  for (std::int64_t value = wrong + 1; value <= max && above.empty(); ++value)
    if (keeps_rule(value)) above = str(value);
  return below + (below.empty() || above.empty() ? "" : " or ") + above;
}

/// Gathers the rules that a shape breaks.
class ShapeCheck {
 public:
  explicit ShapeCheck(Problems& problems) : problems_(problems) {}

  /// Checks a rule of one axis; the fix proposes values up to `max`.
  void require(const std::string& key, std::int64_t value, const std::string& what,
               const std::string& found, const std::string& expected, std::int64_t max,
               const std::function<bool(std::int64_t)>& keeps_rule) {
    if (keeps_rule(value)) return;
    const std::string nearest = nearest_values(value, max, keeps_rule);
    problems_.add({.what = what,
                   .where = str(key, " = ", value),
                   .found = found,
                   .expected = expected,
                   .fix = nearest.empty() ? "" : str("set ", key, " to ", nearest)});
  }

  void require_division(const std::string& key, std::int64_t ranks, const std::string& of,
                        std::int64_t number) {
    require(key, ranks, str("config: ", of, " do not divide over the ranks"), str(number, " ", of),
            str("a number of ranks that divides ", number), number,
            [number](std::int64_t value) { return divides(value, number); });
  }

 private:
  Problems& problems_;
};

void check_availability(const MeshShape& shape, Problems& problems) {
  if (shape.ep > 1)
    problems.add({.what = "config: axis is not available yet",
                  .where = str("parallel.ep = ", shape.ep),
                  .expected = "1",
                  .fix = "set parallel.ep to 1"});
}

void check_backbone(const MeshShape& shape, const BackboneConfig& backbone, ShapeCheck& check) {
  const std::int64_t heads = backbone.heads;
  const std::int64_t kv_heads = backbone.kv_heads;
  check.require_division("parallel.tp", shape.tp, "attention heads", heads);
  check.require("parallel.tp", shape.tp, "config: key-value heads can be neither cut nor repeated",
                str(kv_heads, " key-value heads"),
                "a number of ranks that divides the key-value heads, or a multiple of them", heads,
                [&](std::int64_t tp) {
                  return divides(tp, heads) && (divides(tp, kv_heads) || divides(kv_heads, tp));
                });
  check.require_division("parallel.tp", shape.tp, "columns of model.mlp_width", backbone.mlp_width);
  // The remaining rules are about the heads of one tp rank.
  if (!divides(shape.tp, heads)) return;
  const std::int64_t own_heads = heads / shape.tp;
  const std::int64_t own_kv_heads = std::max<std::int64_t>(1, kv_heads / shape.tp);
  check.require("parallel.ulysses", shape.ulysses,
                "config: attention heads do not divide over tp * ulysses ranks",
                str(heads, " attention heads, ", own_heads, " on each of ", shape.tp, " tp ranks"),
                str("a number of ranks that divides ", own_heads), own_heads,
                [&](std::int64_t ulysses) { return divides(ulysses, own_heads); });
  check.require("parallel.ulysses", shape.ulysses,
                "config: key-value heads of a tp rank can be neither exchanged nor repeated",
                str(own_kv_heads, " key-value heads on each of ", shape.tp, " tp ranks"),
                "a number of ranks that divides them, or a multiple of them", own_heads,
                [&](std::int64_t ulysses) {
                  return divides(ulysses, own_heads) &&
                         (divides(ulysses, own_kv_heads) || divides(own_kv_heads, ulysses));
                });
}

/// Checks an encoder whose degree of tensor parallelism stands at `key`.
void check_encoder(const FrontModule& encoder, const std::string& key, std::int64_t tp,
                   ShapeCheck& check) {
  check.require_division(key, tp, encoder.name + " heads", encoder.heads);
  check.require_division(key, tp, str("columns of the ", encoder.name, " mlp_width"),
                         encoder.mlp_width);
}

MeshShape shape_of(const ParallelSection& parallel) {
  return {.pp = parallel.pp.count,
          .dp_replicate = parallel.dp_replicate.count,
          .dp_shard = parallel.dp_shard.count,
          .cp = parallel.cp.count,
          .ulysses = parallel.ulysses.count,
          .tp = parallel.tp.count,
          .ep = parallel.ep.count};
}

std::int64_t& axis_of(MeshShape& shape, const std::string& key) {
  if (key == "parallel.pp") return shape.pp;
  if (key == "parallel.dp_replicate") return shape.dp_replicate;
  if (key == "parallel.dp_shard") return shape.dp_shard;
  if (key == "parallel.cp") return shape.cp;
  if (key == "parallel.ulysses") return shape.ulysses;
  if (key == "parallel.tp") return shape.tp;
  TRIB_CHECK(key == "parallel.ep", .what = "config: no axis of the mesh", .found = key);
  return shape.ep;
}

/// The processes of a run, and which of them belong to modules beside the backbone.
struct World {
  std::int64_t ranks = 1;
  std::int64_t separate = 0;
  std::string modules = {};  // `vision 3`

  [[nodiscard]] std::int64_t of_backbone() const { return ranks - separate; }
};

/// Checks that the degrees without `auto` multiply to the ranks of the backbone.
void check_product(const MeshShape& shape, const World& world) {
  const std::int64_t fixed = shape.world();
  const std::int64_t left = world.of_backbone();
  const std::int64_t others = fixed / shape.dp_shard;
  const std::string start = str("start ", fixed + world.separate, " processes");
  TRIB_REQUIRE(fixed == left, .what = "config: axes do not multiply to the world size",
               .where = "parallel", .found = str(describe(shape), ": ", fixed, " ranks"),
               .expected = world.separate == 0 ? str(left, " ranks, as many as there are processes")
                                               : str(left, " ranks: ", world.ranks,
                                                     " processes without those of ", world.modules),
               .fix = divides(others, left)
                          ? str("set parallel.dp_shard to ", left / others, ", or ", start)
                          : start);
}

/// Gives the auto axis the ranks that the others leave.
MeshShape fill_auto(const ParallelSection& parallel, const World& world) {
  MeshShape shape = shape_of(parallel);
  std::string automatic;
  for (const auto& [key, degree] : degrees_of(parallel)) {
    if (!degree.is_auto()) continue;
    TRIB_REQUIRE(automatic.empty(), .what = "config: more than one axis of the mesh is auto",
                 .where = key, .found = str(automatic, ", ", key),
                 .expected = "auto for at most one of them", .fix = "give the others a number");
    automatic = key;
    axis_of(shape, key) = 1;
  }
  TRIB_REQUIRE(automatic != "parallel.ep", .what = "config: ep cannot be auto",
               .where = "parallel.ep", .found = "auto",
               .expected = "a number: ep is a view of the ranks of the other axes");
  const std::int64_t fixed = shape.world();
  const std::int64_t left = world.of_backbone();
  TRIB_REQUIRE(left >= 1, .what = "config: no rank is left for the backbone",
               .where = str("parallel, ", world.modules), .found = str(world.ranks, " ranks"),
               .expected = str(world.separate + fixed, " or more"),
               .fix = str("start ", world.separate + fixed, " processes"));
  if (automatic.empty()) {
    check_product(shape, world);
    return shape;
  }
  const std::int64_t fewer = left / fixed * fixed;
  const std::int64_t more = fewer + fixed + world.separate;
  TRIB_REQUIRE(
      divides(fixed, left), .what = "config: other axes do not divide the world size",
      .where = automatic + " = auto", .found = str(left, " ranks, the other axes take ", fixed),
      .expected = str("a multiple of ", fixed, " ranks"),
      .fix = fewer == 0 ? str("start ", more, " processes")
                        : str("start ", fewer + world.separate, " or ", more, " processes"));
  axis_of(shape, automatic) = left / fixed;
  return shape;
}

/// Checks a plan's number of ranks; where a degree is `auto`, no plan has been applied.
void check_plan_ranks(const ParallelSection& parallel, std::int64_t world) {
  const auto degrees = degrees_of(parallel);
  const std::int64_t ranks = count_ranks(parallel);
  const bool is_applied =
      !parallel.plan.empty() &&
      std::ranges::none_of(degrees, [](const auto& each) { return each.second.is_auto(); });
  TRIB_REQUIRE(!is_applied || ranks == world, .what = "config: plan is for another number of ranks",
               .where = parallel.plan,
               .found = str("plan is for ", ranks, " ranks, ", world, " were started"),
               .expected = "as many processes as the plan has ranks",
               .fix = str("start ", ranks, " processes"));
}

}  // namespace

MeshShape resolve_mesh(const ParallelSection& parallel, std::int64_t world,
                       const ModelConfig& model) {
  TRIB_CHECK(world >= 1, .what = "config: world has no ranks", .found = str(world));
  check_plan_ranks(parallel, world);
  const MeshShape shape = fill_auto(parallel, {.ranks = world,
                                               .separate = count_separate_ranks(parallel),
                                               .modules = describe_separate_modules(parallel)});
  Problems problems;
  check_availability(shape, problems);
  ShapeCheck check(problems);
  check_backbone(shape, model.backbone, check);
  const std::vector<FrontModule> front = front_modules(model);
  for (const FrontModule& module : front) {
    if (!module.is_encoder()) continue;
    const auto section = std::ranges::find(parallel.modules, module.name, &ModuleSection::module);
    const bool is_placed =
        section != parallel.modules.end() && section->placement != Placement::kInline;
    check_encoder(module, is_placed ? str("parallel.", module.name, ".tp") : "parallel.tp",
                  is_placed ? section->tp : shape.tp, check);
  }
  (void)place_modules(parallel, shape, front, problems);
  problems.raise_if_any("mesh of the run");
  return shape;
}

}  // namespace tributary::config
