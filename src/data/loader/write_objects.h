#pragma once

#include <memory>
#include <optional>

#include "config/family/object_form.h"
#include "data/loader/sample_encoder.h"
#include "data/preprocess/preprocessor_config.h"

namespace tributary::data {

/// Makes an encoder of records with objects from one of records without: it writes names and boxes
/// as the family does before it hands a record on.
///
/// Coordinates are scaled to a grid of 1000, or to the pixels of the picture as the model sees it,
/// and rounded, halves to even.
/// errors of its functions: also Refusal `bad_box` when a box leaves its image, `no_vision` when
///         there are boxes and the model sees no images, and those of measure_picture
[[nodiscard]] std::unique_ptr<SampleEncoder> write_objects(
    std::unique_ptr<SampleEncoder> encoder, const config::ObjectForm& form,
    std::optional<PreprocessorConfig> pictures);

}  // namespace tributary::data
