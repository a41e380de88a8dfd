#pragma once

#include <optional>
#include <string>

#include "app/answer/read_document.h"
#include "app/answer/simulate_answer.h"

namespace tributary::app {

/// What `tributary.simulate` of Python is given.
struct SimulateArguments {
  std::optional<Document> plan;     // none: options name a workload
  std::optional<Document> model;    // none: what the plan names
  std::optional<Document> cluster;  // none: nodes of 8 A100
  std::optional<Document> profile;
  std::optional<Document> sizes;
  std::optional<NumberTable> size_table;
  std::string options;  // JSON of all plain numbers and flags, `run` and `workload`
};

/// Simulates steps of the plan, or of the workload.
///
/// errors: Fault::kInput as the readers of the documents, or naming the argument
[[nodiscard]] config::Trace simulate_given(const SimulateArguments& arguments);

}  // namespace tributary::app
