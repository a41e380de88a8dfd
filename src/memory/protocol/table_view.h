#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "memory/address/page_table.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

/// What one process knows of the page table and of the epochs of all processes. Epochs count up
/// over the whole job, so that the newest EPOCH message names the table that all should have.
class TableView {
 public:
  /// `table` is the one whose digest all ranks compared at the start.
  explicit TableView(PageTable table);

  /// Replaces the rows of a process. An EPOCH that is not newer than the known one changes nothing.
  ///
  /// errors: Refusal when the rows break a rule of the page table
  Result<bool> apply(const EpochMessage& message);

  /// The epoch of a process; 0 when it never had one.
  [[nodiscard]] std::uint32_t epoch_of(std::uint16_t process) const;
  /// Whether the table is the one that the newest EPOCH names. Nothing is read while it is not.
  [[nodiscard]] bool is_agreed() const { return digest_ == newest_digest_; }
  [[nodiscard]] const PageTable& table() const { return table_; }
  [[nodiscard]] const Digest& digest() const { return digest_; }  // of the table
  /// Whether all bytes of the object lie in rows of its owner under its owner's epoch.
  [[nodiscard]] bool binds(const ObjectHandle& handle) const;

 private:
  PageTable table_;
  std::map<std::uint16_t, std::uint32_t> epochs_;
  Digest digest_;
  Digest newest_digest_;
  std::uint32_t newest_ = 0;
};

}  // namespace tributary::memory
