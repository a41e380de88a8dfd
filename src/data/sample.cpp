#include "data/sample.h"

#include <algorithm>

namespace tributary::data {

SampleShape EncodedSample::shape() const {
  SampleShape shape;
  shape.tokens = {static_cast<std::int64_t>(tokens.size())};
  shape.target_tokens = {std::count_if(targets.begin(), targets.end(), [](std::int64_t target) {
    return target != kIgnoredTarget;
  })};
  shape.rejected = {rejected};
  for (const PatchedItem& item : items) shape.grids(item.modality).push_back(item.grid);
  return shape;
}

}  // namespace tributary::data
