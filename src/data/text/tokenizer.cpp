#include "data/text/tokenizer.h"

#include <fstream>
#include <iterator>
#include <unordered_map>

#include "core/error.h"
#include "data/text/added_tokens.h"
#include "data/text/byte_alphabet.h"
#include "data/text/clean_utf8.h"
#include "data/text/merge_table.h"
#include "data/text/piece_cache.h"
#include "data/text/piece_splitter.h"
#include "data/text/tokenizer_file.h"
#include "data/text/vocabulary_files.h"

namespace tributary::data {
namespace {

/// The added tokens that are searched in the normalised text, or those searched before.
std::vector<AddedToken> select_added(const TokenizerFile& file, bool normalized) {
  std::vector<AddedToken> selected;
  for (const AddedToken& token : file.added) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (normalized && file.composes) {
      selected.back().content = compose(token.content).value_or(token.content);
    }
  }
  return selected;
}

std::array<TokenId, 256> list_byte_ids(const std::unordered_map<std::string_view, TokenId>& ids) {
  std::array<TokenId, 256> byte_ids{};
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids[byte] = ids.at(letter_of_byte(static_cast<std::uint8_t>(byte)));
  }
  return byte_ids;
}

std::unordered_map<std::string_view, TokenId> list_ids(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    ids.emplace(tokens[id], static_cast<TokenId>(id));
  }
  return ids;
}

std::vector<std::string> list_bytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> bytes;
  bytes.reserve(tokens.size());
  for (const std::string& token : tokens) bytes.push_back(read_spelled(token));
  return bytes;
}

std::vector<bool> list_special(const TokenizerFile& file) {
  std::vector<bool> special(file.tokens.size());
  for (const AddedToken& token : file.added) special[token.id] = token.special;
  return special;
}

}  // namespace

struct Tokenizer::Parts {
  Parts(TokenizerFile read, std::string_view read_from)
      : where(read_from),
        file(std::move(read)),
        ids(list_ids(file.tokens)),
        bytes(list_bytes(file.tokens)),
        special(list_special(file)),
        before_normalizing(select_added(file, /*normalized=*/false)),
        after_normalizing(select_added(file, /*normalized=*/true)),
        splitter(file.splits, read_from),
        merges(list_byte_ids(ids), file.merges) {}

  /// Memory of one call of encode.
  struct Scratch {
    PieceSplitter::Scratch search;
    MergeTable::Scratch merging;
  };

  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;
  [[nodiscard]] std::optional<TokenId> whole_token(std::string_view piece) const;

  std::string where;
  TokenizerFile file;
  std::unordered_map<std::string_view, TokenId> ids;  // keys lie in file.tokens
  std::vector<std::string> bytes;                     // by id
  std::vector<bool> special;                          // by id
  AddedTokens before_normalizing;
  AddedTokens after_normalizing;
  PieceSplitter splitter;
  MergeTable merges;
  mutable PieceCache cache;
};

/// The token that equals a whole piece; null unless the file puts such tokens before merging.
std::optional<TokenId> Tokenizer::Parts::whole_token(std::string_view piece) const {
  if (!file.ignores_merges) return std::nullopt;
  const auto found = ids.find(spell_bytes(piece));
  // Control tokens come only from their own search, never from text that spells them.
  if (found == ids.end() || !file.in_model[found->second] || special[found->second]) {
    return std::nullopt;
  }
  return found->second;
}

void Tokenizer::Parts::encode_piece(std::string_view piece, Scratch& scratch,
                                    std::vector<TokenId>& out) const {
  const std::span<const TokenId> known = cache.find(piece);
  if (!known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const std::size_t before = out.size();
  if (const std::optional<TokenId> whole = whole_token(piece)) {
    out.push_back(*whole);
  } else {
    merges.merge(piece, scratch.merging, out);
  }
  cache.remember(piece, std::span(out).subspan(before));
}

void Tokenizer::Parts::encode_plain(std::string_view text, Scratch& scratch,
                                    std::vector<TokenId>& out) const {
  splitter.split(text, scratch.search,
                 [&](std::string_view piece) { encode_piece(piece, scratch, out); });
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& place) {
  const std::string file = place.string();
  if (std::filesystem::is_directory(place))
    return Tokenizer(std::make_unique<const Parts>(read_tokenizer_of(file), file));
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  TRIB_REQUIRE(in.good() && std::filesystem::is_regular_file(place),
               .what = "data: cannot read the tokenizer", .where = file,
               .expected = "a tokenizer.json");
  const auto size = static_cast<std::size_t>(in.tellg());
  TRIB_REQUIRE(size <= kMaxTokenizerBytes, .what = "data: tokenizer file is too large",
               .where = file, .found = str(size, " bytes"),
               .expected = str("at most ", kMaxTokenizerBytes, " bytes"));
  std::string json(size, '\0');
  in.seekg(0);
  in.read(json.data(), static_cast<std::streamsize>(size));
  TRIB_REQUIRE(in.good(), .what = "data: cannot read the tokenizer", .where = file);
  return parse(json, file);
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view where) {
  return Tokenizer(std::make_unique<const Parts>(parse_tokenizer_file(json, where), where));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<TokenId> ids;
  encode_to(text, special, ids);
  return ids;
}

void Tokenizer::encode_to(std::string_view text, SpecialText special,
                          std::vector<TokenId>& ids) const {
  const std::optional<std::string> mended =
      is_utf8(text) ? std::nullopt : std::optional(clean_utf8(text));
  if (mended) text = *mended;
  const bool finds_special = special == SpecialText::kControl;
  Parts::Scratch scratch;
  for (const auto& raw : parts_->before_normalizing.cut(text, finds_special)) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    const std::optional<std::string> composed =
        parts_->file.composes ? compose(raw.text) : std::nullopt;
    const std::string_view normal = composed ? std::string_view(*composed) : raw.text;
    for (const auto& stretch : parts_->after_normalizing.cut(normal, finds_special)) {
      if (stretch.id >= 0) {
        ids.push_back(stretch.id);
      } else {
        parts_->encode_plain(stretch.text, scratch, ids);
      }
    }
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SpecialTokens special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const std::string_view own = bytes_of(id);
    if (special == SpecialTokens::kKeep || !is_special(id)) bytes += own;
  }
  return is_utf8(bytes) ? bytes : clean_utf8(bytes);
}

std::string_view Tokenizer::bytes_of(TokenId id) const {
  TRIB_REQUIRE(0 <= id && id < size(), .what = "data: token id outside the vocabulary",
               .where = parts_->where, .found = str(id), .expected = str("0 to ", size() - 1));
  return parts_->bytes[id];
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const auto found = parts_->ids.find(token);
  return found == parts_->ids.end() ? std::nullopt : std::optional(found->second);
}

TokenId Tokenizer::id_of(std::string_view token) const {
  const std::optional<TokenId> id = find(token);
  TRIB_REQUIRE(id.has_value(), .what = "data: tokenizer lacks a token", .where = parts_->where,
               .found = str("no ", escaped(token)));
  return *id;
}

bool Tokenizer::is_special(TokenId id) const {
  return 0 <= id && id < size() && parts_->special[id];
}

std::int64_t Tokenizer::size() const { return std::ssize(parts_->bytes); }

std::string StreamDecoder::push(TokenId id) {
  if (special_ == SpecialTokens::kSkip && tokenizer_->is_special(id)) return {};
  waiting_ += tokenizer_->bytes_of(id);
  const std::size_t tail = unfinished_utf8(waiting_);
  std::string ready = clean_utf8(std::string_view(waiting_).substr(0, waiting_.size() - tail));
  waiting_.erase(0, waiting_.size() - tail);
  return ready;
}

std::string StreamDecoder::finish() { return clean_utf8(std::exchange(waiting_, {})); }

}  // namespace tributary::data
