#include "app/requests/read_document.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
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
  if (document.is_path)
    return std::filesystem::is_directory(document.text) ? config::read_graph_of_model(document.text)
                                                        : config::read_module_graph(document.text);
  const bool is_graph = parse_json(document.text, document.name).contains("format");
  return is_graph ? config::parse_module_graph(document.text, document.name)
                  : config::parse_graph_of_model(document.text, document.name);
}

simulate::RecordedSizes read_sizes(const Document& document) {
  if (!document.is_path)
    return simulate::sizes_of(config::parse_shape_histogram(document.text, document.name));
  return std::filesystem::path(document.text).extension() == ".json"
             ? simulate::sizes_of(config::read_shape_histogram(document.text))
             : sizes_of(read_table(document.text));
}

simulate::RecordedSizes sizes_of(const NumberTable& table) {
  constexpr std::int64_t kColumns = 5;
  TRIB_REQUIRE(table.width <= kColumns, .what = "app: too many numbers in a line",
               .where = table.place_of(0), .found = str(table.width),
               .expected = "tokens, patches, items, audio positions, clips");
  simulate::RecordedSizes recorded;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t numbers[kColumns] = {1, 0, 0, 0, 0};
    for (std::int64_t column = 0; column < table.width; ++column) {
      const double number = table.values[row * table.width + column];
      const double min = column == 0 ? 1 : 0;
      TRIB_REQUIRE(number >= min && number <= 1e9 && number == std::floor(number),
                   .what = "app: size of a sample cannot be used", .where = table.place_of(row),
                   .found = str(number), .expected = str("a whole number, ", min, " to 1e9"));
      numbers[column] = static_cast<std::int64_t>(number);
    }
    if (numbers[1] > 0) numbers[2] = std::max<std::int64_t>(1, numbers[2]);
    if (numbers[3] > 0) numbers[4] = std::max<std::int64_t>(1, numbers[4]);
    recorded.sizes.push_back({.tokens = numbers[0],
                              .patches = numbers[1],
                              .items = numbers[2],
                              .frames = numbers[3],
                              .clips = numbers[4]});
  }
  return recorded;
}

std::optional<simulate::RecordedSizes> read_lengths(const Document& lengths,
                                                    const std::optional<NumberTable>& rows,
                                                    const config::ModuleGraph& model) {
  if (rows) return simulate::sizes_for(model, sizes_of(*rows));
  if (lengths.empty()) return std::nullopt;
  return simulate::sizes_for(model, read_sizes(lengths));
}

}  // namespace tributary::app
