#include "data/record/gzip_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>
#include <zlib.h>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::size_t kInputBytes = std::size_t{64} << 10;
constexpr std::size_t kWindowBytes = std::size_t{32} << 10;  // what deflate may refer back to
constexpr std::int64_t kMinSpan = std::int64_t{1} << 20;     // between two places, decompressed
constexpr std::size_t kMaxPlaces = 4096;
constexpr std::size_t kMaxIdle = 16;  // decompressors that wait where a read has ended
constexpr int kGzip = 31;             // window bits of zlib: a header is expected
constexpr int kRaw = -15;             // likewise: in the middle of a member
constexpr std::size_t kTrailerBytes = 8;

/// A place from which decompression can go on.
struct Place {
  std::int64_t out = 0;  // offset in the decompressed bytes
  std::int64_t in = 0;   // offset of the next byte in the file
  int bits = 0;          // of the byte before `in` that are still to be read
  bool begins_member = true;
  std::vector<std::uint8_t> window = {};  // the bytes before `out`
};

/// Decompresses from a place on.
class Inflater {
 public:
  Inflater(const StoredFile& file, const Place& place)
      : file_(file), in_(place.in), out_(place.out), is_raw_(!place.begins_member) {
    TRIB_CHECK(inflateInit2(&zlib_, is_raw_ ? kRaw : kGzip) == Z_OK,
               .what = "data: zlib has no memory");
    if (!is_raw_) return;
    if (place.bits > 0) {
      char before = 0;
      if (file_.read_at(&before, 1, place.in - 1) != 1) problem_ = "file ends too early";
      inflatePrime(&zlib_, place.bits, static_cast<std::uint8_t>(before) >> (8 - place.bits));
    }
    inflateSetDictionary(&zlib_, place.window.data(), static_cast<uInt>(place.window.size()));
  }
  ~Inflater() { inflateEnd(&zlib_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] std::int64_t out() const { return out_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Whether deflate is between two blocks, so that the place() here can be kept.
  [[nodiscard]] bool is_between_blocks() const {
    return begins_member_ || ((zlib_.data_type & 128) != 0 && (zlib_.data_type & 64) == 0);
  }
  [[nodiscard]] Place place(std::vector<std::uint8_t> window) const {
    const std::int64_t in = in_ - zlib_.avail_in;
    if (begins_member_) return {.out = out_, .in = in};
    return {.out = out_,
            .in = in,
            .bits = zlib_.data_type & 7,
            .begins_member = false,
            .window = std::move(window)};
  }

  /// Decompresses up to `max` bytes; with `by_block` it also stops after each block of deflate.
  /// 0 at the end of the file or with a problem; a block may also be empty: see is_at_end().
  std::size_t next(char* to, std::size_t max, bool by_block) {
    zlib_.next_out = reinterpret_cast<Bytef*>(to);
    zlib_.avail_out = static_cast<uInt>(max);
    while (problem_.empty() && !is_at_end_ && zlib_.avail_out > 0) {
      if (zlib_.avail_in == 0 && !fill()) break;
      begins_member_ = false;
      const int status = inflate(&zlib_, by_block ? Z_BLOCK : Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        begin_member();
        if (by_block) break;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        problem_ = zlib_.msg != nullptr ? zlib_.msg : "damaged data";
      } else if (by_block && is_between_blocks()) {
        break;
      }
    }
    const std::size_t got = max - zlib_.avail_out;
    out_ += static_cast<std::int64_t>(got);
    return got;
  }
  [[nodiscard]] bool is_at_end() const { return is_at_end_; }

 private:
  /// Reads more of the file. At its end only a finished member may stand.
  bool fill() {
    const std::int64_t got = file_.read_at(input_.data(), input_.size(), in_);
    if (got < 0) problem_ = std::strerror(errno);
    if (got == 0) problem_ = "file ends within compressed data";
    if (got <= 0) return false;
    in_ += got;
    zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
    zlib_.avail_in = static_cast<uInt>(got);
    return true;
  }

  /// Goes to the header of the next member. Zeros behind the last one are padding, as for gunzip.
  void begin_member() {
    if (is_raw_) skip(kTrailerBytes);
    is_raw_ = false;
    while (zlib_.avail_in > 0 || in_ < file_.bytes()) {
      if (zlib_.avail_in == 0 && !fill()) return;
      if (*zlib_.next_in != 0) break;
      skip(1);
    }
    is_at_end_ = zlib_.avail_in == 0;
    begins_member_ = !is_at_end_;
    inflateReset2(&zlib_, kGzip);
  }
  void skip(std::size_t count) {
    for (; count > 0; --count) {
      if (zlib_.avail_in == 0 && !fill()) return;
      ++zlib_.next_in;
      --zlib_.avail_in;
    }
  }

  const StoredFile& file_;
  z_stream zlib_{};
  std::array<char, kInputBytes> input_;
  std::int64_t in_;   // of the file, behind what input_ holds
  std::int64_t out_;  // decompressed so far
  bool is_raw_;       // within a member that began elsewhere: its sum is not checked
  bool begins_member_ = false;
  bool is_at_end_ = false;
  std::string problem_;
};

class GzipFile final : public ByteFile {
 public:
  explicit GzipFile(StoredFile file) : file_(std::move(file)) {}

  std::string beginning(std::size_t max) const override {
    Inflater inflater(file_, Place{});
    std::string text(max, '\0');
    text.resize(inflater.next(text.data(), max, /*by_block=*/false));
    return text;
  }

  void scan(const Use& use) override;
  Result<std::string> read(std::int64_t offset, std::size_t length) const override;
  const std::string& path() const override { return file_.path(); }
  std::int64_t stored_bytes() const override { return file_.bytes(); }
  const std::string& digest() const override { return digest_; }

 private:
  void keep(Place place);
  std::unique_ptr<Inflater> begin_before(std::int64_t offset) const;

  StoredFile file_;
  std::string digest_;
  std::int64_t span_ = kMinSpan;
  std::vector<Place> places_{Place{}};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Inflater>> idle_;  // guarded; the oldest first
};

/// Keeps a place; when there are too many, every second one goes and they lie twice as far apart.
void GzipFile::keep(Place place) {
  if (places_.size() == kMaxPlaces) {
    for (std::size_t i = 0; 2 * i < places_.size(); ++i) places_[i] = std::move(places_[2 * i]);
    places_.resize(kMaxPlaces / 2);
    span_ *= 2;
  }
  if (place.out - places_.back().out >= span_) places_.push_back(std::move(place));
}

void GzipFile::scan(const Use& use) {
  digest_ = digest_of(file_);
  Inflater inflater(file_, Place{});
  std::vector<char> block(2 * kWindowBytes);  // the window, then what is new
  std::size_t kept = 0;                       // bytes of the window
  while (!inflater.is_at_end()) {
    const std::size_t got = inflater.next(block.data() + kept, kWindowBytes, /*by_block=*/true);
    TRIB_REQUIRE(inflater.problem().empty(), .what = "data: gzip file is damaged",
                 .where = file_.path(), .found = inflater.problem(),
                 .fix = "gunzip -t " + file_.path() + " checks it; fetch or write it again");
    if (got > 0) use({block.data() + kept, got});
    const std::size_t window = std::min(kept + got, kWindowBytes);
    std::memmove(block.data(), block.data() + kept + got - window, window);
    kept = window;
    if (inflater.is_between_blocks() && inflater.out() - places_.back().out >= span_)
      keep(inflater.place({block.begin(), block.begin() + static_cast<std::ptrdiff_t>(kept)}));
  }
}

/// A decompressor that stands at `offset` or before it: one that waits nearby, or a new one.
std::unique_ptr<Inflater> GzipFile::begin_before(std::int64_t offset) const {
  const auto after = std::ranges::upper_bound(places_, offset, {}, &Place::out);
  const Place& place = *std::prev(after);
  {
    const std::lock_guard lock(mutex_);
    const auto nearest = std::ranges::max_element(
        idle_, {}, [&](const auto& idle) { return idle->out() <= offset ? idle->out() : -1; });
    if (nearest != idle_.end() && (*nearest)->out() <= offset && (*nearest)->out() >= place.out) {
      std::unique_ptr<Inflater> found = std::move(*nearest);
      idle_.erase(nearest);
      return found;
    }
  }
  return std::make_unique<Inflater>(file_, place);
}

Result<std::string> GzipFile::read(std::int64_t offset, std::size_t length) const {
  if (auto changed = file_.refuse_change()) return *changed;
  std::unique_ptr<Inflater> inflater = begin_before(offset);
  std::array<char, kWindowBytes> passed_over;
  std::string text(length, '\0');
  std::size_t done = 0;
  while (done < length) {
    const std::int64_t before = offset - inflater->out();
    const std::size_t got =
        before > 0
            ? inflater->next(
                  passed_over.data(),
                  static_cast<std::size_t>(std::min<std::int64_t>(before, std::ssize(passed_over))),
                  /*by_block=*/false)
            : inflater->next(text.data() + done, length - done, /*by_block=*/false);
    if (got == 0)
      return Refusal{"read_failed",
                     inflater->problem().empty() ? "file ends too early" : inflater->problem()};
    if (before <= 0) {
      done += got;
      offset += static_cast<std::int64_t>(got);
    }
  }
  const std::lock_guard lock(mutex_);
  if (idle_.size() == kMaxIdle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(inflater));
  return text;
}

}  // namespace

bool is_gzip(const StoredFile& file) {
  std::array<char, 3> mark{};
  return file.read_at(mark.data(), mark.size(), 0) == 3 && mark[0] == '\x1f' && mark[1] == '\x8b' &&
         mark[2] == '\x08';
}

std::unique_ptr<ByteFile> open_gzip(StoredFile file) {
  return std::make_unique<GzipFile>(std::move(file));
}

}  // namespace tributary::data
