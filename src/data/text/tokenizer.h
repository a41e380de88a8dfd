#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::data {

using TokenId = std::int32_t;

/// How text that spells a special token such as `<|im_end|>` is encoded: as the token, or as
/// letters.
enum class SpecialText { kControl, kPlain };

/// Whether special tokens appear in decoded text.
enum class SpecialTokens { kKeep, kSkip };

/// A byte-level BPE tokenizer, as a Hugging Face `tokenizer.json` describes it.
///
/// Any number of threads may use one tokenizer. Nothing is added before or after the text: the
/// file's post-processor is not run, because the chat template does its job.
class Tokenizer {
 public:
  /// Reads a `tokenizer.json`, or the tokenizer of a model directory (vocabulary_files.h).
  ///
  /// errors: Fault::kInput when the file is missing, damaged or asks for something unsupported
  /// cost:   150,000 tokens: about a second
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& place);
  /// Reads the content of a `tokenizer.json`; `where` names it in messages.
  [[nodiscard]] static Tokenizer parse(std::string_view json, std::string_view where);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Turns text into ids. Invalid UTF-8 is replaced as by clean_utf8().
  ///
  /// With kPlain no special token comes out, whatever the text spells; added tokens that the file
  /// does not call special (`<think>`) are found in both modes, as the reference does.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, SpecialText special) const;
  /// As encode, but appends to `ids`.
  void encode_to(std::string_view text, SpecialText special, std::vector<TokenId>& ids) const;

  /// Turns ids into UTF-8; bytes that do not form a character become U+FFFD.
  ///
  /// errors: Fault::kInput when an id is outside the vocabulary
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, SpecialTokens special) const;
  /// The bytes that one id stands for; they may end inside a character.
  ///
  /// errors: Fault::kInput when the id is outside the vocabulary
  [[nodiscard]] std::string_view bytes_of(TokenId id) const;

  /// The id of a token by its text in the file: `<|im_end|>`, or a byte-alphabet piece.
  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  /// errors: Fault::kInput, naming the token and the file, when there is none
  [[nodiscard]] TokenId id_of(std::string_view token) const;
  [[nodiscard]] bool is_special(TokenId id) const;
  /// Number of ids: 0 to size() - 1.
  [[nodiscard]] std::int64_t size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

/// Turns a stream of ids into text that can be printed at once: never ends inside a character.
///
/// The pieces, joined with finish(), are decode() of all ids.
/// owns: borrows the tokenizer
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, SpecialTokens special)
      : tokenizer_(&tokenizer), special_(special) {}

  [[nodiscard]] std::string push(TokenId id);
  /// The rest of the text, when no more ids come.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer* tokenizer_;
  SpecialTokens special_;
  std::string waiting_;  // bytes of a character that is not complete
};

}  // namespace tributary::data
