#include "train/run/train_state.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::train {
namespace {

constexpr const char* kFormat = "tributary.train_state/1";

}  // namespace

Json to_json(const TrainState& state) {
  return {{"format", kFormat},
          {"step", state.step},
          {"optimizer_steps", state.optimizer_steps},
          {"skipped_steps", state.skipped_steps},
          {"skips_in_a_row", state.skips_in_a_row},
          {"best_score", state.best_score ? Json(*state.best_score) : Json()},
          {"validations_without_gain", state.validations_without_gain},
          {"tokens", state.tokens},
          {"target_tokens", state.target_tokens},
          {"train_seconds", state.train_seconds},
          {"wall_seconds", state.wall_seconds},
          {"loader", data::to_json(state.loader)},
          {"correction", state.correction}};
}

TrainState train_state_from_json(const Json& json, const std::string& where) {
  try {
    TRIB_REQUIRE(json.at("format") == kFormat, .what = "train: state of another version",
                 .where = where, .found = escaped(json.at("format").dump()), .expected = kFormat,
                 .exit = ExitCode::kCheckpointRefused);
    TrainState state;
    json.at("step").get_to(state.step);
    json.at("optimizer_steps").get_to(state.optimizer_steps);
    json.at("skipped_steps").get_to(state.skipped_steps);
    json.at("skips_in_a_row").get_to(state.skips_in_a_row);
    if (const Json best = json.value("best_score", Json()); !best.is_null())
      state.best_score = best.get<double>();
    state.validations_without_gain = json.value("validations_without_gain", std::int64_t{0});
    json.at("tokens").get_to(state.tokens);
    json.at("target_tokens").get_to(state.target_tokens);
    json.at("train_seconds").get_to(state.train_seconds);
    json.at("wall_seconds").get_to(state.wall_seconds);
    state.loader = data::loader_state_from_json(json.at("loader"), where);
    state.correction = json.value("correction", std::string());
    return state;
  } catch (const Json::exception& error) {
    TRIB_RAISE(Fault::kInput, .what = "train: state of the run cannot be read", .where = where,
               .found = escaped(error.what()), .exit = ExitCode::kCheckpointRefused);
  }
}

}  // namespace tributary::train
