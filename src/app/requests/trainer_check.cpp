#include "app/requests/trainer_check.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/family/all_families.h"
#include "config/plan/plan.h"
#include "core/error.h"
#include "core/json.h"

namespace tributary::app {
namespace {

/// An error shortened to one line: what, found and expected, without the name of the room.
std::string in_a_line(const ErrorParts& parts) {
  std::string text = parts.what.substr(parts.what.find(": ") + 2);
  if (!parts.found.empty()) text += ", found " + parts.found;
  if (!parts.expected.empty()) text += ", expected " + parts.expected;
  for (char& letter : text)
    if (letter == '\n') letter = ' ';
  return text;
}

bool is_graph(const Document& model) {
  return model.is_path ? !std::filesystem::is_directory(model.text)
                       : parse_json(model.text, model.name).contains("format");
}

}  // namespace

TrainerCheck::TrainerCheck(const Document& model, config::RunConfig run) : run_(std::move(run)) {
  if (is_graph(model)) {
    refusal_ = "the model is a module graph, and it trains models with a config.json";
    return;
  }
  try {
    model_ = model.is_path ? config::read_model_config(model.text)
                           : config::parse_model_config(model.text, model.name);
  } catch (const Error& error) {
    refusal_ = in_a_line(error.parts());
  }
}

std::string TrainerCheck::refusal_of(const config::Plan& plan) const {
  if (!model_) return refusal_;
  const auto limits = config::trainer_limits(plan, "", run_.model.has_adapters());
  if (!limits.empty())
    return str("of", limits.front().where, " it takes ", limits.front().expected, ", not ",
               limits.front().found);
  try {
    config::check_trains(plan, "plan", run_, *model_);
  } catch (const Error& error) {
    return in_a_line(error.parts());
  }
  return {};
}

}  // namespace tributary::app
