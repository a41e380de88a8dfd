#include "app/answer/read_document.h"

#include <nlohmann/json.hpp>

#include "app/answer/simulate_answer.h"
#include "core/json.h"
#include "studies/methods/read_cost_table.h"

namespace tributary::app {

config::Plan read_plan(const Document& document) {
  return document.is_path ? config::read_plan(document.text)
                          : config::parse_plan(document.text, document.name);
}

config::Cluster read_cluster(const Document& document) {
  return document.is_path ? config::read_cluster(document.text)
                          : config::parse_cluster(document.text, document.name);
}

config::Profile read_profile(const Document& document) {
  return document.is_path ? config::read_profile(document.text)
                          : config::parse_profile(document.text, document.name);
}

studies::TrainingProblem read_cost_table(const Document& document) {
  return document.is_path ? studies::read_cost_table(document.text)
                          : studies::parse_cost_table(document.text, document.name);
}

config::ModuleGraph read_model(const Document& document) {
  if (document.is_path) return read_graph(document.text);
  const bool is_graph = parse_json(document.text, document.name).contains("format");
  return is_graph ? config::parse_module_graph(document.text, document.name)
                  : config::parse_graph_of_model(document.text, document.name);
}

simulate::RecordedSizes read_sizes(const Document& document) {
  return document.is_path
             ? read_sizes(document.text)
             : simulate::sizes_of(config::parse_shape_histogram(document.text, document.name));
}

}  // namespace tributary::app
