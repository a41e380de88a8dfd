#include "app/answer/certificate_json.h"

#include <nlohmann/json.hpp>

namespace tributary::app {

Json to_json(const plan::Certificate& certificate) {
  return {{"status", name_of(certificate.status)},           {"value_ns", certificate.value.count},
          {"lower_bound_ns", certificate.lower_bound.count}, {"gap", certificate.gap()},
          {"evaluations", certificate.evaluations},          {"limit", certificate.limit}};
}

}  // namespace tributary::app
