// Encoding and decoding speed on one core. The reference of the goal is 5 MB/s.
//
// The text has words by Zipf's law in Latin, Cyrillic and Han letters, digits, marks and emoji,
// from a seed. The tokenizer has the bytes and, for half of the words, the merges that build them,
// about 100,000 tokens. TRIB_TOKENIZER and TRIB_TEXT name files to take instead.

#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json.h"
#include "core/random.h"
#include "core/text.h"
#include "data/text/byte_alphabet.h"
#include "data/text/tokenizer.h"

namespace tributary::data {
namespace {

constexpr std::size_t kLexicon = 60000;
constexpr std::size_t kTextBytes = 8 << 20;

std::string utf8(std::int64_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | (point >> 6)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | (point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)};
}

std::string make_word(RandomStream& random) {
  const std::uint64_t kind = random.below(10);
  std::string word;
  if (kind < 6) {
    for (std::int64_t i = random.between(2, 10); i > 0; --i) word += utf8(random.between('a', 'z'));
  } else if (kind < 8) {
    for (std::int64_t i = random.between(2, 9); i > 0; --i) {
      word += utf8(random.between(0x430, 0x44F));
    }
  } else {
    for (std::int64_t i = random.between(1, 4); i > 0; --i) {
      word += utf8(random.between(0x4E00, 0x9FA5));
    }
  }
  return word;
}

std::vector<std::string> make_lexicon() {
  RandomStream random(1, "lexicon");
  std::vector<std::string> words(kLexicon);
  for (std::string& word : words) word = make_word(random);
  return words;
}

/// Draws words by Zipf's law (the rank is log-uniform), now and then one never seen before.
std::string make_text(const std::vector<std::string>& words) {
  RandomStream random(2, "text");
  std::string text;
  while (text.size() < kTextBytes) {
    const auto rank = std::exp(random.uniform() * std::log(double(words.size())));
    text += random.below(20) == 0 ? make_word(random) : words[static_cast<std::size_t>(rank) - 1];
    switch (random.below(12)) {
      case 0:
        text += ", ";
        break;
      case 1:
        text += ".\n";
        break;
      case 2:
        text += " " + str(random.below(10000)) + " ";
        break;
      case 3:
        text += random.below(8) == 0 ? utf8(random.between(0x1F600, 0x1F64F)) : "e\u0301 ";
        break;
      default:
        text += ' ';
    }
  }
  return text;
}

std::string make_tokenizer(const std::vector<std::string>& words) {
  Json vocab = Json::object();
  Json merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(letter_of_byte(static_cast<std::uint8_t>(byte)))] = byte;
  }
  std::set<std::string> built;
  for (std::size_t i = 0; i < words.size() / 2; ++i) {
    const std::string bytes = (i % 2 == 0 ? " " : "") + words[i];
    for (std::size_t end = 2; end <= bytes.size(); ++end) {
      if (!built.insert(bytes.substr(0, end)).second) continue;
      const std::string left = spell_bytes(bytes.substr(0, end - 1));
      const std::string right = spell_bytes(bytes.substr(end - 1, 1));
      vocab[left + right] = vocab.size();
      merges.push_back({left, right});
    }
  }
  const char* pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return Json{{"normalizer", {{"type", "NFC"}}},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
              {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}}
      .dump();
}

struct Material {
  Tokenizer tokenizer;
  std::string text;
};

const Material& material() {
  static const Material kMaterial = [] {
    const std::vector<std::string> words = make_lexicon();
    const char* tokenizer_file = std::getenv("TRIB_TOKENIZER");
    const char* text_file = std::getenv("TRIB_TEXT");
    std::string text;
    if (text_file == nullptr) {
      text = make_text(words);
    } else {
      std::ifstream in(text_file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    return Material{tokenizer_file == nullptr ? Tokenizer::parse(make_tokenizer(words), "bench")
                                              : Tokenizer::load(tokenizer_file),
                    std::move(text)};
  }();
  return kMaterial;
}

/// Encodes the whole text in stretches of `bytes`, like the records of a data set.
void encode(benchmark::State& state) {
  const Material& given = material();
  const auto stretch = static_cast<std::size_t>(state.range(0));
  std::vector<TokenId> ids;
  for (auto _ : state) {
    ids.clear();
    for (std::size_t at = 0; at < given.text.size(); at += stretch) {
      given.tokenizer.encode_to(std::string_view(given.text).substr(at, stretch),
                                SpecialText::kControl, ids);
    }
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(given.text));
  state.counters["bytes_per_token"] = double(given.text.size()) / double(ids.size());
}
BENCHMARK(encode)->ArgName("bytes")->Arg(200)->Arg(4096)->Arg(1 << 30)->Unit(
    benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const Material& given = material();
  const std::vector<TokenId> ids = given.tokenizer.encode(given.text, SpecialText::kControl);
  for (auto _ : state) {
    benchmark::DoNotOptimize(given.tokenizer.decode(ids, SpecialTokens::kKeep));
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(given.text));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void parse(benchmark::State& state) {
  const std::string file = make_tokenizer(make_lexicon());
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::parse(file, "bench"));
  state.SetBytesProcessed(state.iterations() * std::ssize(file));
}
BENCHMARK(parse)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::data
