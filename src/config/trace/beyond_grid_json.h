#pragma once

#include "config/trace/trace.h"

namespace tributary::config {

/// The JSON of a BeyondGrid in all files that hold one: docs/formats/trace.md.
template <class BasicJson>
void to_json(BasicJson& json, const BeyondGrid& beyond) {
  json = {{"table", beyond.table},
          {"unit", beyond.unit},
          {"measured", beyond.measured},
          {"asked", beyond.asked}};
}

}  // namespace tributary::config
