#include "data/loader/fill_slots.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/error.h"

namespace tributary::data {

void fill_slot(const SampleReader& reader, Slot& slot, ModalitySet without) {
  slot.read = {};
  slot.failure = nullptr;
  try {
    reader.read(slot.draw, slot.read, without);
  } catch (const Error& error) {
    slot.failure = std::current_exception();
    slot.read.sample.id = slot.draw.index;
    if (error.exit_code() == ExitCode::kDataLimit) slot.read.passed.limit = error.what();
  } catch (...) {
    slot.failure = std::current_exception();
  }
}

std::int64_t count_decoded(const EncodedSample& sample) {
  const auto rows = std::ranges::count_if(
      sample.items, [](const PatchedItem& item) { return !item.rows.empty(); });
  return rows / (sample.rejected > 0 ? 2 : 1);
}

void fill_lacking(const SampleReader& reader, const Batch& batch, const LoaderOptions& options) {
  std::vector<Slot*> slots;
  for (const std::unique_ptr<Slot>& slot : batch.slots)
    if (slot->duty.reads && !slot->failure && options.lacks(slot->read.sample))
      slots.push_back(slot.get());
  std::atomic<std::size_t> next = 0;
  const auto fill = [&] {
    if (options.begin_thread) options.begin_thread();
    for (std::size_t i = next++; i < slots.size(); i = next++) fill_slot(reader, *slots[i], {});
  };
  std::vector<std::jthread> workers;
  const std::size_t max = std::min(slots.size(), static_cast<std::size_t>(options.data.workers));
  while (workers.size() < max) workers.emplace_back(fill);
}

}  // namespace tributary::data
