#include "memory/protocol/table_view.h"

#include <algorithm>
#include <utility>

namespace tributary::memory {

TableView::TableView(PageTable table)
    : table_(std::move(table)), digest_(table_.digest()), newest_digest_(digest_) {
  for (const SegmentRow& row : table_.rows()) {
    epochs_[row.process] = std::max(epochs_[row.process], row.epoch);
    newest_ = std::max(newest_, row.epoch);
  }
}

Result<bool> TableView::apply(const EpochMessage& message) {
  if (message.epoch <= epoch_of(message.process)) return false;
  Result<PageTable> changed = table_.with_rows_of(message.process, message.rows);
  if (!changed) return changed.refusal();
  table_ = std::move(changed).value();
  epochs_[message.process] = message.epoch;
  digest_ = table_.digest();
  if (message.epoch > newest_) {
    newest_ = message.epoch;
    newest_digest_ = message.digest;
  }
  return true;
}

std::uint32_t TableView::epoch_of(std::uint16_t process) const {
  const auto found = epochs_.find(process);
  return found == epochs_.end() ? 0 : found->second;
}

bool TableView::binds(const ObjectHandle& handle) const {
  const auto lies_in_owned_row = [&](std::uint64_t gva, std::uint64_t bytes) {
    const auto address = GlobalAddress::from_bits(gva);
    const SegmentRow* row = address ? table_.find(address.value()) : nullptr;
    return row != nullptr && row->process == handle.fields.process &&
           row->epoch == handle.fields.epoch &&
           bytes <= row->offset + row->length - address.value().offset();
  };
  return lies_in_owned_row(handle.fields.first_gva, 1) &&
         std::ranges::all_of(handle.extents, [&](const Extent& extent) {
           return lies_in_owned_row(extent.gva, extent.bytes);
         });
}

}  // namespace tributary::memory
