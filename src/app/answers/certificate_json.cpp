#include "app/answers/certificate_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tributary::app {

double gap_above(Nanoseconds value, Nanoseconds bound) {
  return static_cast<double>(value.count) /
             static_cast<double>(std::max<std::int64_t>(1, bound.count)) -
         1;
}

Json to_json(const plan::Certificate& certificate) {
  return {{"status", name_of(certificate.status)},           {"value_ns", certificate.value.count},
          {"lower_bound_ns", certificate.lower_bound.count}, {"gap", certificate.gap()},
          {"evaluations", certificate.evaluations},          {"limit", certificate.limit}};
}

}  // namespace tributary::app
