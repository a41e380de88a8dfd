#include "data/loader/pass_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/loader/sample_bytes.h"

namespace tributary::data {

void pass_batch(Batch& batch, const Pass& pass) {
  // Data beyond a limit end the step on all readers, so they are passed on.
  const bool has_failed = std::ranges::any_of(batch.slots, [](const auto& slot) {
    return slot->failure != nullptr && slot->read.passed.limit.empty();
  });
  if (has_failed) return;
  const auto write = [&](const RowsOf& rows_of) {
    std::string message;
    for (const std::unique_ptr<Slot>& slot : batch.slots) {
      if (!slot->duty.reads) continue;
      if (const std::optional<ModalitySet> with_rows = rows_of(slot->draw.index))
        append_read(message, slot->read, *with_rows);
    }
    return message;
  };
  const std::int64_t first = batch.slots.front()->draw.index;
  for (const std::string& message : pass(first, write))
    for (ReadSample& read : take_read(message)) {
      const auto place = static_cast<std::size_t>(read.sample.id - first);
      batch.slots.at(place)->read = std::move(read);
    }
}

}  // namespace tributary::data
