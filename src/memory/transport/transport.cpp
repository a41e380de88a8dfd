#include "memory/transport/transport.h"

#include "core/error.h"

namespace tributary::memory {

void check_buffer(std::span<const std::byte> into, const ObjectHandle& handle) {
  TRIB_CHECK(into.size() == handle.fields.bytes && !into.empty(),
             .what = "memory: buffer of a GET has another size than the object",
             .found = str(into.size(), " bytes"), .expected = str(handle.fields.bytes, " bytes"));
}

}  // namespace tributary::memory
