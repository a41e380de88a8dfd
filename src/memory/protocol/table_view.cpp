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

}  // namespace tributary::memory
