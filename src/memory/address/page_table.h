#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "memory/address/global_address.h"
#include "memory/bytes.h"

namespace tributary::memory {

/// A SHA-256.
using Digest = std::array<std::byte, 32>;

/// A way to reach a segment. The values travel in page-table rows.
enum class Engine : std::uint16_t { kInProcess = 1, kMemfd = 2, kTcp = 3, kUcx = 4, kCudaMap = 5 };

/// What an engine needs to reach a segment: a token, an endpoint, a handle of the driver.
struct TransportKey {
  static constexpr std::size_t kMaxBytes = 512;
  Engine engine{};
  std::vector<std::byte> bytes = {};

  friend bool operator==(const TransportKey&, const TransportKey&) = default;
};

/// The bound part of one segment. Does not change inside one epoch.
///
/// units: offset and length in bytes, multiples of page_bytes; device is a GPU's ordinal or a NUMA
///        node, -1 for none
struct SegmentRow {
  Tier tier{};
  std::uint16_t process = 0;
  std::uint64_t offset = 0, length = 0;
  std::uint32_t page_bytes = 0, epoch = 0, incarnation = 0;
  std::int16_t device = -1;
  bool read_only = true;  // readers map it read-only
  Digest host_id{};       // address/host_id.h
  std::vector<TransportKey> keys = {};

  /// The key for `engine`; null when the segment cannot be reached by it.
  [[nodiscard]] const TransportKey* find_key(Engine engine) const;
  friend bool operator==(const SegmentRow&, const SegmentRow&) = default;
};

/// Appends the canonical bytes of a row: little endian, no padding.
void put_row(ByteWriter& to, const SegmentRow& row);
/// errors: Refusal with the field that breaks a rule; also when the message ends too early
[[nodiscard]] Result<SegmentRow> get_row(ByteReader& from);

/// All rows of a job in the order (tier, process, offset). Every rank holds the same one.
class PageTable {
 public:
  PageTable() = default;
  /// Sorts and checks the rows.
  ///
  /// errors: Refusal when a row breaks a rule or two rows overlap
  static Result<PageTable> make(std::vector<SegmentRow> rows);

  [[nodiscard]] std::span<const SegmentRow> rows() const { return rows_; }
  /// The row that binds this address; null when nothing is bound there.
  [[nodiscard]] const SegmentRow* find(GlobalAddress address) const;
  /// A copy in which `rows` replace all rows of `process`: what an EPOCH message does.
  ///
  /// errors: as make(), and Refusal when a new row is of another process
  [[nodiscard]] Result<PageTable> with_rows_of(std::uint16_t process,
                                               std::span<const SegmentRow> rows) const;

  /// The canonical bytes of all rows in order, after their number.
  [[nodiscard]] std::vector<std::byte> canonical_bytes() const;
  /// SHA-256 of the canonical bytes. No rank reads before it has seen that all ranks have the same.
  [[nodiscard]] Digest digest() const;

 private:
  std::vector<SegmentRow> rows_;
};

/// Compares the table with that of another rank.
///
/// errors: Fault::kInput, naming the first row that differs and the two ranks
void require_same_table(const PageTable& own, int own_rank, const PageTable& other, int other_rank);

}  // namespace tributary::memory
