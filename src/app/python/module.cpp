// The functions of `tributary._engine`. They take numbers and JSON and return JSON, which the
// package beside this file turns into lists and dictionaries. Its docstrings explain the arguments.
// All work is done without the lock of the interpreter.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "app/answers/action_list_answer.h"
#include "app/answers/balance_answer.h"
#include "app/answers/flow_answer.h"
#include "app/answers/pack_answer.h"
#include "app/answers/plan_answer.h"
#include "app/answers/search_answer.h"
#include "app/answers/simulate_answer.h"
#include "app/answers/split_answer.h"
#include "app/answers/staging_answer.h"
#include "app/python/read_arguments.h"
#include "app/python/read_numbers.h"
#include "app/requests/read_document.h"
#include "core/error.h"

namespace tributary::app {
namespace {

namespace nb = nanobind;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kInput:
      return "input";
    case Fault::kResource:
      return "resource";
    case Fault::kBug:
      return "bug";
  }
  return "bug";
}

/// A message may hold bytes of a file that are not UTF-8; they are escaped.
nb::object text(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                        "backslashreplace"));
}

/// Raises an Error of C++ as `tributary.Error`, with its parts as attributes.
void translate(const std::exception_ptr& raised, void* /*payload*/) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    const ErrorParts& parts = error.parts();
    const nb::object type = nb::module_::import_("tributary.errors").attr("Error");
    const nb::object value =
        type(text(error.what()), text(parts.what), text(parts.where), text(parts.found),
             text(parts.expected), text(parts.fix), name_of(error.fault()));
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

/// A Document of Python: is_path, and the path or JSON.
using GivenDocument = std::pair<bool, std::string>;

Document to_document(const char* name, const GivenDocument& given) {
  return {.name = name, .is_path = given.first, .text = given.second};
}

std::string pack(nb::handle lengths, const PackRequest& request) {
  check_request(request);
  const NumberTable table = read_numbers(lengths, "lengths");
  const nb::gil_scoped_release unlocked;
  return to_json(answer_pack(request, table)).dump();
}

std::string balance(nb::handle items, const BalanceRequest& request) {
  check_request(request);
  const NumberTable table = read_numbers(items, "items");
  const nb::gil_scoped_release unlocked;
  return to_json(answer_balance(request, table)).dump();
}

std::string search_3d(const GivenDocument& table, const std::string& method, std::int64_t keep) {
  const Document document = to_document("cost_table", table);
  const SearchRequest request = {
      .method = method, .keep = keep, .caller = Caller::kPython, .table = document.where()};
  check_request(request);
  Json answers = Json::array();
  const studies::RecomputedTables tables{.problem = read_cost_table(document)};
  for (const SearchAnswer& answer : answer_search(request, std::span(&tables, 1)))
    answers.push_back(to_json(answer));
  return answers.dump();
}

/// Limits of a problem as JSON.
constexpr JsonLimits kProblem = {.max_bytes = std::size_t{256} << 20};

std::string allocate_flow(const std::string& problem) {
  return answer_flow(parse_json(problem, "allocate_flow", kProblem), "allocate_flow").dump();
}
std::string split_layers(const std::string& problem) {
  return answer_split(parse_json(problem, "split_layers", kProblem), "split_layers").dump();
}
std::string group_stages(const std::string& problem) {
  return answer_staging(parse_json(problem, "group_stages", kProblem), "group_stages").dump();
}
std::string fit_interference(const std::string& problem) {
  return answer_interference(parse_json(problem, "fit_interference", kProblem), "fit_interference")
      .dump();
}

std::string action_lists(const GivenDocument& plan) {
  return answer_action_lists(read_plan(to_document("plan", plan))).dump();
}

/// Reads the arguments of a call of `plan` or `simulate`.
template <class Options>
Options read_options(const char* function, const std::string& arguments, nb::handle lengths) {
  Options options;
  if (!lengths.is_none()) options.length_rows = read_numbers(lengths, "lengths");
  options.given =
      read_arguments(function, arguments, fields_of(options), options.length_rows.has_value());
  return options;
}

std::pair<std::string, std::string> simulate(const std::string& arguments, nb::handle lengths,
                                             bool with_trace) {
  auto options = read_options<SimulateOptions>("simulate", arguments, lengths);
  const nb::gil_scoped_release unlocked;
  const config::Trace trace = answer_simulate(read_request(std::move(options)));
  return {config::write_summary(trace), with_trace ? config::write_trace(trace) : "null"};
}

std::pair<std::string, std::string> plan_model(const std::string& arguments, nb::handle lengths) {
  const auto options = read_options<PlanOptions>("plan", arguments, lengths);
  check_keep(options);
  const nb::gil_scoped_release unlocked;
  const PlanAnswer answer = answer_plan(read_request(options));
  if (answer.plans.empty()) return {to_json(answer, options.keep).dump(), "null"};
  config::Plan best = answer.plans.front().found.plan;
  if (options.model.is_path) best.model = options.model.text;
  return {to_json(answer, options.keep).dump(), config::write_plan(best)};
}

}  // namespace

NB_MODULE(_engine, module) {
  nb::register_exception_translator(translate);
  module.def(
      "pack",
      [](nb::handle lengths, std::int64_t capacity, std::int64_t replicas, std::int64_t window,
         const std::string& method, const std::string& meet, std::int64_t attention_length) {
        return pack(lengths, {.capacity = capacity,
                              .replicas = replicas,
                              .window = window,
                              .rule = method,
                              .meet = meet,
                              .attention_length = attention_length,
                              .caller = Caller::kPython});
      },
      nb::arg("lengths").none(), nb::arg("capacity"), nb::arg("replicas"), nb::arg("window"),
      nb::arg("method"), nb::arg("meet"), nb::arg("attention_length"));
  module.def(
      "balance",
      [](nb::handle items, std::int64_t buckets, double deadline_ms, std::int64_t evaluations) {
        return balance(items, {.buckets = buckets,
                               .deadline_ms = deadline_ms,
                               .evaluations = evaluations,
                               .caller = Caller::kPython});
      },
      nb::arg("items").none(), nb::arg("buckets"), nb::arg("deadline_ms"), nb::arg("evaluations"));
  module.def("search_3d", search_3d, Unlocked());
  module.def("search_methods", search_methods);
  module.def("allocate_flow", allocate_flow, Unlocked());
  module.def("split_layers", split_layers, Unlocked());
  module.def("group_stages", group_stages, Unlocked());
  module.def("fit_interference", fit_interference, Unlocked());
  module.def("staging_methods", staging_methods);
  module.def("plan", plan_model, nb::arg("arguments"), nb::arg("lengths").none());
  module.def("action_lists", action_lists, Unlocked());
  module.def("simulate", simulate, nb::arg("arguments"), nb::arg("lengths").none(),
             nb::arg("with_trace"));
}

}  // namespace tributary::app
