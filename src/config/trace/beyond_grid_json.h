#pragma once

#include "config/trace/trace.h"

namespace tributary::config {

/// JSON of what is beyond a profile's grid, wherever it is written: docs/formats/trace.md.
template <class BasicJson>
void to_json(BasicJson& json, const BeyondGrid& beyond) {
  json = {{"table", beyond.table},
          {"unit", beyond.unit},
          {"measured", beyond.measured},
          {"asked", beyond.asked}};
}

}  // namespace tributary::config
