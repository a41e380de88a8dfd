#include "train/balance/gather_parts.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/json.h"

namespace tributary::train {

std::vector<schedule::MeasuredPart> gather_parts(const schedule::MeasuredPart& own,
                                                 const mesh::Mesh& mesh) {
  Json part = nullptr;
  if (mesh.leads_stage())
    part = {{"replica", own.replica},
            {"microbatches", own.microbatches},
            {"as_planned", own.as_planned},
            {"step", own.step}};
  std::vector<schedule::MeasuredPart> parts;
  for (const std::string& text : mesh.world().gather_text(part.dump())) {
    const Json gathered = parse_json(text, "times of a rank");
    if (gathered.is_null()) continue;
    parts.push_back({.replica = gathered.at("replica").get<std::int64_t>(),
                     .microbatches = gathered.at("microbatches").get<std::vector<double>>(),
                     .as_planned = gathered.at("as_planned").get<bool>(),
                     .step = gathered.at("step").get<double>()});
  }
  return parts;
}

}  // namespace tributary::train
