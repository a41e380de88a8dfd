#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/sample_shape.h"
#include "model/backbone.h"
#include "model/encoder/encoder.h"
#include "model/model.h"

namespace tributary::model {

/// The placeholders of one modality: each stands for one token that an encoder makes.
struct Placeholder {
  Modality modality = Modality::kImage;
  std::int64_t token = -1;
  const char* items = "images";  // what they are called in messages
};

/// An encoder of a family and what it takes, in the order of its rows.
struct EncoderPart {
  std::string module;
  std::vector<Placeholder> takes;
  std::unique_ptr<Encoder> encoder;
};

/// Makes the encoders of a family, which append their units. `place_of` says where a module lies.
using PlaceOf = std::function<EncoderPlace(const std::string& module)>;
using MakeEncoders =
    std::function<std::vector<EncoderPart>(const config::ModelConfig& config, const PlaceOf&)>;

/// A backbone behind encoders, whose tokens take the places of placeholders among the embedded
/// ones. Tokens may have several levels side by side: the first takes the place, each further one
/// is added behind a layer of the backbone. `names` are those of the backbone's parameters.
[[nodiscard]] std::unique_ptr<Model> make_multimodal_model(const config::ModelConfig& config,
                                                           const ModelLayout& layouts,
                                                           const MakeEncoders& make_encoders,
                                                           const BackboneNames& names);

}  // namespace tributary::model
