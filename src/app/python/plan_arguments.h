#pragma once

#include <optional>
#include <string>

#include "app/answer/plan_answer.h"
#include "app/answer/read_document.h"
#include "app/answer/simulate_answer.h"

namespace tributary::app {

/// What `tributary.plan` of Python is given.
struct PlanArguments {
  Document model;
  std::optional<Document> cluster;
  std::optional<Document> profile;
  std::optional<Document> sizes;
  std::optional<NumberTable> size_table;
  std::string options;  // JSON of all plain numbers, flags and lists
};

/// errors: Fault::kInput as the readers of the documents, or naming the argument
[[nodiscard]] PlanRequest read_request(const PlanArguments& arguments);

}  // namespace tributary::app
