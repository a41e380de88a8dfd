#include "data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "core/error.h"
#include "core/random.h"
#include "data/text/clean_utf8.h"
#include "data/text/merge_table.h"
#include "tests/data/tiny_tokenizer.h"

namespace tributary::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tokenizer parse(const Json& file) { return Tokenizer::parse(file.dump(), "tiny.json"); }

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                   SpecialText special = SpecialText::kControl) {
  std::vector<std::string> tokens;
  for (const TokenId id : tokenizer.encode(text, special)) {
    tokens.emplace_back(tokenizer.bytes_of(id));
  }
  return tokens;
}

/// Text of letters that merge, broken characters, and control tokens whole and in part.
std::string make_text(RandomStream& random) {
  const std::vector<std::string> parts = {"hello",
                                          "hell",
                                          " world",
                                          "12",
                                          "1",
                                          "e\u0301",
                                          "\u00e9",
                                          "\u4e2d\u6587",
                                          "\U0001f600",
                                          "<|im_end|>",
                                          "<|im_start|>",
                                          "<|image_pad|>",
                                          "<|im_",
                                          "end|>",
                                          "<",
                                          "|>",
                                          "\n",
                                          "  ",
                                          "\xFF",
                                          "\xE4\xB8"};
  std::string text;
  for (std::uint64_t i = random.below(12); i > 0; --i) text += parts[random.below(parts.size())];
  return text;
}

TEST(Tokenizer, MergesTheEarliestRuleFirst) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  EXPECT_THAT(tokens_of(tokenizer, "hello world"), ElementsAre("hello", " w", "o", "r", "l", "d"));
  EXPECT_THAT(tokens_of(tokenizer, "lll"), ElementsAre("ll", "l"));
  EXPECT_THAT(tokens_of(tokenizer, "12"), ElementsAre("1", "2"));  // the pattern parts digits
  EXPECT_THAT(tokens_of(tokenizer, ""), ElementsAre());
}

TEST(Tokenizer, ComposesTextWhereTheFileAsksForIt) {
  EXPECT_THAT(tokens_of(parse(tiny_tokenizer()), "e\u0301"), ElementsAre("\xC3", "\xA9"));
  Json plain = tiny_tokenizer();
  plain["normalizer"] = nullptr;
  EXPECT_THAT(tokens_of(parse(plain), "e\u0301"), ElementsAre("e", "\xCC", "\x81"));
}

TEST(Tokenizer, FindsControlTokensOnlyWhenAskedTo) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  EXPECT_THAT(tokens_of(tokenizer, "he<|im_end|>he"), ElementsAre("he", "<|im_end|>", "he"));
  EXPECT_THAT(tokenizer.encode("<|im_end|>", SpecialText::kPlain).size(), 10U);
}

TEST(Tokenizer, NeverMakesAControlTokenOfPlainText) {
  for (const bool ignores_merges : {false, true}) {
    Json file = tiny_tokenizer();
    file["model"]["ignore_merges"] = ignores_merges;
    // The token is in the model as well, and the pattern keeps it whole.
    file["model"]["vocab"]["<|im_end|>"] = file["added_tokens"][2]["id"];
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "<\\|im_end\\|>|.";
    const Tokenizer tokenizer = parse(file);
    RandomStream random(5, "plain");
    for (int round = 0; round < 2000; ++round) {
      const std::string text = make_text(random);
      for (const TokenId id : tokenizer.encode(text, SpecialText::kPlain)) {
        ASSERT_FALSE(tokenizer.is_special(id)) << "round " << round << ": " << escaped(text);
      }
    }
  }
}

TEST(Tokenizer, GivesBackTheTextOfItsIds) {
  Json file = tiny_tokenizer();
  file["normalizer"] = nullptr;
  const Tokenizer tokenizer = parse(file);
  RandomStream random(6, "round trip");
  for (int round = 0; round < 2000; ++round) {
    const std::string text = make_text(random);
    for (const SpecialText special : {SpecialText::kControl, SpecialText::kPlain}) {
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, special), SpecialTokens::kKeep),
                clean_utf8(text))
          << "round " << round;
    }
  }
}

TEST(Tokenizer, LeavesSpecialTokensOutOfTextWhenAskedTo) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  const std::vector<TokenId> ids =
      tokenizer.encode("<|im_start|>he<|im_end|>", SpecialText::kControl);
  EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kSkip), "he");
  EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kKeep), "<|im_start|>he<|im_end|>");
}

TEST(Tokenizer, LooksUpIdsByText) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  EXPECT_EQ(tokenizer.size(), 256 + 6 + 8);
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 262);
  EXPECT_EQ(tokenizer.find("hello"), std::optional<TokenId>(259));
  EXPECT_EQ(tokenizer.find("absent"), std::nullopt);
  EXPECT_THAT([&] { (void)tokenizer.id_of("<|audio|>"); },
              ThrowsMessage<Error>(
                  HasSubstr("tokenizer lacks a token; where: tiny.json; found: no \"<|audio|>\"")));
  EXPECT_THAT([&] { (void)tokenizer.bytes_of(270); },
              ThrowsMessage<Error>(HasSubstr("found: 270; expected: 0 to 269")));
  EXPECT_THAT([&] { (void)tokenizer.decode(std::vector<TokenId>{-1}, SpecialTokens::kSkip); },
              ThrowsMessage<Error>(HasSubstr("found: -1; expected: 0 to 269")));
}

TEST(Tokenizer, GivesTheSameIdsOnManyThreads) {
  const Tokenizer shared = parse(tiny_tokenizer());
  std::vector<std::string> texts;
  RandomStream random(7, "threads");
  for (int i = 0; i < 500; ++i) texts.push_back(make_text(random));
  const auto encode_all = [&](const Tokenizer& tokenizer) {
    std::vector<TokenId> ids;
    for (const std::string& text : texts) tokenizer.encode_to(text, SpecialText::kControl, ids);
    return ids;
  };
  const std::vector<TokenId> alone = encode_all(parse(tiny_tokenizer()));
  std::vector<std::vector<TokenId>> together(4);
  {
    std::vector<std::jthread> threads;
    for (auto& ids : together) threads.emplace_back([&] { ids = encode_all(shared); });
  }
  for (const auto& ids : together) EXPECT_EQ(ids, alone);
}

TEST(StreamDecoder, NeverEndsInsideACharacter) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  RandomStream random(8, "stream");
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random.below(20));
    for (TokenId& id : ids) {
      id =
          static_cast<TokenId>(random.below(4) == 0 ? random.below(270) : random.between(128, 255));
    }
    StreamDecoder stream(tokenizer, SpecialTokens::kSkip);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_TRUE(is_utf8(piece)) << "round " << round;
      joined += piece;
    }
    EXPECT_EQ(joined + stream.finish(), tokenizer.decode(ids, SpecialTokens::kSkip));
  }
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  const std::vector<TokenId> ids = tokenizer.encode("\U0001f600", SpecialText::kPlain);
  ASSERT_EQ(ids.size(), 4U);
  StreamDecoder stream(tokenizer, SpecialTokens::kKeep);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stream.push(ids[i]), "");
  EXPECT_EQ(stream.push(ids[3]), "\U0001f600");
  EXPECT_EQ(stream.finish(), "");
}

/// Applies the earliest rule anywhere, leftmost first, until none applies.
std::vector<std::int32_t> merge_by_brute_force(std::vector<std::int32_t> ids,
                                               const std::vector<MergeRule>& rules) {
  for (std::size_t rule = 0; rule < rules.size();) {
    std::size_t at = 0;
    while (at + 1 < ids.size() &&
           (ids[at] != rules[rule].left || ids[at + 1] != rules[rule].right)) {
      ++at;
    }
    if (at + 1 >= ids.size()) {
      ++rule;
      continue;
    }
    ids[at] = rules[rule].joined;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    rule = 0;  // the new token may be part of an earlier rule
  }
  return ids;
}

TEST(MergeTable, EqualsBruteForceOnRandomRules) {
  std::array<std::int32_t, 256> byte_ids{};
  for (int byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
  RandomStream random(9, "merges");
  for (int round = 0; round < 500; ++round) {
    // Rules join three letters, and tokens of earlier rules, in any order of rank.
    std::vector<std::int32_t> known = {'a', 'b', 'c'};
    std::vector<MergeRule> rules;
    for (int i = 0; i < 12; ++i) {
      const MergeRule rule = {random.pick(std::span(known)), random.pick(std::span(known)),
                              256 + i};
      const bool is_new = std::none_of(rules.begin(), rules.end(), [&](const MergeRule& other) {
        return other.left == rule.left && other.right == rule.right;
      });
      if (!is_new) continue;
      rules.push_back(rule);
      known.push_back(rule.joined);
    }
    random.shuffle(std::span(rules));
    const MergeTable table(byte_ids, rules);
    MergeTable::Scratch scratch;
    for (int text = 0; text < 20; ++text) {
      std::string piece;
      for (std::uint64_t i = random.below(20); i > 0; --i) piece += "abc"[random.below(3)];
      std::vector<std::int32_t> ids;
      table.merge(piece, scratch, ids);
      EXPECT_EQ(ids, merge_by_brute_force({piece.begin(), piece.end()}, rules))
          << "round " << round << ": " << piece;
    }
  }
}

}  // namespace
}  // namespace tributary::data
