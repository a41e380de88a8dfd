#include "memory/address/page_table.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "core/sha256.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kMaxKeys = 16;

auto place_of(const SegmentRow& row) { return std::tuple(row.tier, row.process, row.offset); }

std::string name_of(const SegmentRow& row) {
  return str("row ", name_of(row.tier), " of process ", row.process, " at offset ", row.offset);
}

std::optional<std::string> find_broken_rule(const SegmentRow& row) {
  constexpr std::uint64_t kEnd = GlobalAddress::kSegmentBytes;
  const std::uint64_t page = row.page_bytes;
  if (row.tier != Tier::kDram && row.tier != Tier::kHbm) return "its tier is none";
  if (page == 0 || (page & (page - 1)) != 0)
    return str("page_bytes = ", page, " is no power of two");
  if (row.offset % page != 0 || row.length % page != 0 || row.length == 0)
    return str("length = ", row.length, " is no positive multiple of page_bytes = ", page,
               ", or the offset none");
  if (row.offset >= kEnd || row.length > kEnd - row.offset)
    return str("length = ", row.length, " leaves the segment of 2^44 bytes");
  if (row.keys.size() > kMaxKeys)
    return str(row.keys.size(), " transport keys, at most ", kMaxKeys);
  for (const TransportKey& key : row.keys)
    if (key.bytes.size() > TransportKey::kMaxBytes)
      return str("a transport key of ", key.bytes.size(), " B, at most ", TransportKey::kMaxBytes);
  return std::nullopt;
}

}  // namespace

const TransportKey* SegmentRow::find_key(Engine engine) const {
  const auto found = std::ranges::find(keys, engine, &TransportKey::engine);
  return found == keys.end() ? nullptr : &*found;
}

void put_row(ByteWriter& to, const SegmentRow& row) {
  to.put(static_cast<std::uint8_t>(row.tier));
  to.put(static_cast<std::uint8_t>(row.read_only));
  to.put(row.process);
  to.put(row.offset);
  to.put(row.length);
  to.put(row.page_bytes);
  to.put(row.epoch);
  to.put(row.incarnation);
  to.put(row.device);
  to.put_bytes(row.host_id);
  to.put(static_cast<std::uint16_t>(row.keys.size()));
  for (const TransportKey& key : row.keys) {
    to.put(static_cast<std::uint16_t>(key.engine));
    to.put(static_cast<std::uint16_t>(key.bytes.size()));
    to.put_bytes(key.bytes);
  }
}

Result<SegmentRow> get_row(ByteReader& from) {
  SegmentRow row;
  row.tier = static_cast<Tier>(from.get<std::uint8_t>());
  const auto read_only = from.get<std::uint8_t>();
  row.read_only = read_only != 0;
  row.process = from.get<std::uint16_t>();
  row.offset = from.get<std::uint64_t>();
  row.length = from.get<std::uint64_t>();
  row.page_bytes = from.get<std::uint32_t>();
  row.epoch = from.get<std::uint32_t>();
  row.incarnation = from.get<std::uint32_t>();
  row.device = from.get<std::int16_t>();
  row.host_id = from.get<Digest>();
  const auto keys = from.get<std::uint16_t>();
  for (std::uint16_t i = 0; i < keys && from.holds(keys - i, 4); ++i) {
    TransportKey key{.engine = static_cast<Engine>(from.get<std::uint16_t>()), .bytes = {}};
    const std::span<const std::byte> bytes = from.get_bytes(from.get<std::uint16_t>());
    key.bytes.assign(bytes.begin(), bytes.end());
    row.keys.push_back(std::move(key));
  }
  if (from.failed()) return Refusal{"row", "memory: a page-table row ends too early"};
  if (read_only > 1) return Refusal{"row", str("memory: read_only = ", read_only, ", 0 or 1")};
  if (const auto broken = find_broken_rule(row))
    return Refusal{"row", str("memory: ", name_of(row), ": ", *broken)};
  return row;
}

Result<PageTable> PageTable::make(std::vector<SegmentRow> rows) {
  std::ranges::sort(rows, {}, place_of);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (const auto broken = find_broken_rule(rows[i]))
      return Refusal{"row", str("memory: ", name_of(rows[i]), ": ", *broken)};
    if (i == 0 ||
        std::tie(rows[i - 1].tier, rows[i - 1].process) != std::tie(rows[i].tier, rows[i].process))
      continue;
    if (rows[i - 1].offset + rows[i - 1].length > rows[i].offset)
      return Refusal{"row", str("memory: ", name_of(rows[i]), " overlaps the row before it")};
  }
  PageTable table;
  table.rows_ = std::move(rows);
  return table;
}

const SegmentRow* PageTable::find(GlobalAddress address) const {
  const auto after = std::ranges::upper_bound(
      rows_, std::tuple(address.tier(), address.process(), address.offset()), {}, place_of);
  if (after == rows_.begin()) return nullptr;
  const SegmentRow& row = *std::prev(after);
  const bool is_inside = row.tier == address.tier() && row.process == address.process() &&
                         address.offset() - row.offset < row.length;
  return is_inside ? &row : nullptr;
}

Result<PageTable> PageTable::with_rows_of(std::uint16_t process,
                                          std::span<const SegmentRow> rows) const {
  std::vector<SegmentRow> changed;
  for (const SegmentRow& row : rows_)
    if (row.process != process) changed.push_back(row);
  for (const SegmentRow& row : rows) {
    if (row.process != process)
      return Refusal{"row", str("memory: ", name_of(row), " among the rows of process ", process)};
    changed.push_back(row);
  }
  return make(std::move(changed));
}

std::vector<std::byte> PageTable::canonical_bytes() const {
  ByteWriter bytes;
  bytes.put(static_cast<std::uint32_t>(rows_.size()));
  for (const SegmentRow& row : rows_) put_row(bytes, row);
  return bytes.take();
}

Digest PageTable::digest() const {
  const std::vector<std::byte> bytes = canonical_bytes();
  return sha256_digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void require_same_table(const PageTable& own, int own_rank, const PageTable& other,
                        int other_rank) {
  if (own.digest() == other.digest()) return;
  const std::span<const SegmentRow> mine = own.rows();
  const std::span<const SegmentRow> theirs = other.rows();
  const std::size_t shared = std::min(mine.size(), theirs.size());
  std::size_t first = 0;
  while (first < shared && mine[first] == theirs[first]) ++first;
  const auto show = [first](std::span<const SegmentRow> rows) {
    return first < rows.size() ? name_of(rows[first]) : str("no row ", first);
  };
  TRIB_RAISE(Fault::kInput, .what = "memory: ranks hold different page tables",
             .where = str("row ", first),
             .found = str("rank ", own_rank, ": ", show(mine), ", rank ", other_rank, ": ",
                          show(theirs), first < shared ? ", which differ in a field" : ""),
             .expected = "the same rows on every rank");
}

}  // namespace tributary::memory
