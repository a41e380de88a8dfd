#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/sample_shape.h"
#include "data/sample.h"

namespace tributary::data {

/// Appends facts, or a sample, to a message for another rank of the same job. Media of other
/// modalities than `with_rows` are sent without their rows.
///
/// units: bytes in the order of the machine; facts as CBOR behind their length
void append_facts(std::string& message, const Json& facts);
void append_sample(std::string& message, const EncodedSample& sample, ModalitySet with_rows);

/// Takes the first facts, or the first sample, off the front of a message.
///
/// errors: Fault::kBug when the message is shorter than it says
[[nodiscard]] Json take_facts(std::string_view& message);
/// owns: a sample without rows has items whose `rows` are empty
[[nodiscard]] EncodedSample take_sample(std::string_view& message);

}  // namespace tributary::data
