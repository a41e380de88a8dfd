#include "data/text/byte_alphabet.h"

#include <array>

namespace tributary::data {
namespace {

constexpr int kLetters = 0x144;  // code points below this one hold the whole alphabet

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<int, kLetters> bytes;  // by code point; -1 for a letter that is not in the alphabet
};

bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int point = is_printable(byte) ? byte : next++;
    std::string& letter = alphabet.letters[byte];
    if (point < 0x80) {
      letter = {static_cast<char>(point)};
    } else {
      letter = {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
    }
    alphabet.bytes[point] = byte;
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet kAlphabet = make_alphabet();
  return kAlphabet;
}

}  // namespace

std::string_view letter_of_byte(std::uint8_t byte) { return alphabet().letters[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) spelled += letter_of_byte(static_cast<std::uint8_t>(byte));
  return spelled;
}

std::string read_spelled(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    int point = static_cast<std::uint8_t>(token[i]);
    if (point >= 0x80) {
      if (point >= 0xE0 || i + 1 == token.size()) return std::string(token);
      point = (point & 0x1F) << 6 | (static_cast<std::uint8_t>(token[++i]) & 0x3F);
    }
    if (point >= kLetters || alphabet().bytes[point] < 0) return std::string(token);
    bytes += static_cast<char>(alphabet().bytes[point]);
  }
  return bytes;
}

}  // namespace tributary::data
