#include "data/text/tokenizer_file.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "data/text/tokenizer.h"
#include "tests/data/tiny_tokenizer.h"

namespace tributary::data {
namespace {

using testing::HasSubstr;

using Damage = std::function<void(Json&)>;

/// Expects that the damaged tiny file is refused as an input error with these words.
void refuses(const Damage& damage, const std::string& words) {
  Json file = tiny_tokenizer();
  damage(file);
  try {
    (void)Tokenizer::parse(file.dump(), "tiny.json");
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_THAT(error.what(), HasSubstr("tiny.json"));
  }
}

Json& step(Json& file, int index) { return file["pre_tokenizer"]["pretokenizers"][index]; }

TEST(ParseTokenizerFile, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"", "{", "[1", "\xff", "{\"a\":1}{"}) {
    EXPECT_THAT([&] { (void)Tokenizer::parse(text, "tiny.json"); },
                testing::ThrowsMessage<Error>(HasSubstr("json: not valid JSON; where: tiny.json")));
  }
  refuses([](Json& file) { file = Json::array(); }, "wrong kind; where: tiny.json; found: \"[]\"");
}

TEST(ParseTokenizerFile, RefusesAnUnknownModel) {
  refuses([](Json& file) { file["model"]["type"] = "WordPiece"; },
          "unsupported model; where: tiny.json model.type; found: \"WordPiece\"; expected: BPE");
  refuses([](Json& file) { file["model"].erase("type"); }, "unsupported model");
  refuses([](Json& file) { file.erase("model"); },
          "tokenizer key is missing; where: tiny.json model");
  refuses([](Json& file) { file["model"]["byte_fallback"] = true; },
          "unsupported model option; where: tiny.json model.byte_fallback");
  refuses([](Json& file) { file["model"]["unk_token"] = "<unk>"; },
          "model.unk_token; found: \"<unk>\"; expected: null");
  refuses([](Json& file) { file["model"]["end_of_word_suffix"] = "</w>"; }, "found: \"</w>\"");
  refuses([](Json& file) { file["model"]["dropout"] = 0.1; }, "model.dropout");
  refuses(
      [](Json& file) { file["model"]["ignore_merges"] = 1; },
      "wrong kind; where: tiny.json model.ignore_merges; found: \"1\"; expected: true or false");
}

TEST(ParseTokenizerFile, RefusesDamagedVocabularies) {
  refuses([](Json& file) { file["model"]["vocab"]["hello"] = 7; }, "two tokens have one id");
  refuses([](Json& file) { file["model"]["vocab"]["extra"] = 300; },
          "token ids have a gap; where: tiny.json model.vocab; found: no token with id 270, the "
          "largest id is 300");
  refuses([](Json& file) { file["model"]["vocab"]["extra"] = -1; },
          "token id out of range; where: tiny.json model.vocab \"extra\"; found: \"-1\"");
  refuses([](Json& file) { file["model"]["vocab"]["extra"] = std::int64_t{1} << 22; },
          "found: \"4194304\"; expected: 0 to 4194303");
  refuses([](Json& file) { file["model"]["vocab"]["extra"] = 1.5; }, "found: \"1.5\"");
  refuses([](Json& file) { file["model"]["vocab"]["extra"] = "270"; }, "found: \"270\"");
  refuses([](Json& file) { file["model"]["vocab"] = nullptr; }, "key is missing");
  refuses(
      [](Json& file) {
        file["model"]["vocab"].erase("!");
        file["model"]["vocab"]["other"] = 33;
      },
      "a byte has no token; where: tiny.json model.vocab; found: no ! for byte 33");
  refuses(
      [](Json& file) {
        file["model"]["vocab"] = Json::object();
        file["added_tokens"] = Json::array();
      },
      "tokenizer has no tokens");
}

TEST(ParseTokenizerFile, RefusesDamagedAddedTokens) {
  refuses([](Json& file) { file["added_tokens"][1]["id"] = 262; },
          "two tokens have one id; where: tiny.json added_tokens[1]; found: id 262 for "
          "\"<|im_start|>\" and for \"<|endoftext|>\"");
  refuses([](Json& file) { file["added_tokens"][1]["content"] = ""; },
          "added token is empty; where: tiny.json added_tokens[1].content");
  refuses([](Json& file) { file["added_tokens"][1]["content"] = "<|endoftext|>"; },
          "added token stands twice; where: tiny.json added_tokens[1]");
  refuses([](Json& file) { file["added_tokens"][1]["content"] = "hello"; },
          "added token has two ids; where: tiny.json added_tokens[1]; found: \"hello\" as 263, in "
          "model.vocab as 259");
  refuses([](Json& file) { file["added_tokens"][1].erase("content"); },
          "tokenizer key is missing; where: tiny.json added_tokens[1].content");
  refuses([](Json& file) { file["added_tokens"][1].erase("id"); }, "added_tokens[1].id");
  refuses([](Json& file) { file["added_tokens"][1]["lstrip"] = "no"; }, "added_tokens[1].lstrip");
  refuses([](Json& file) { file["added_tokens"][1] = 3; }, "expected: an object");
  refuses([](Json& file) { file["added_tokens"] = 3; }, "expected: a list");
}

TEST(ParseTokenizerFile, RefusesDamagedMerges) {
  refuses(
      [](Json& file) {
        file["model"]["merges"][2] = {"he", "zz"};
      },
      "merge of an unknown token; where: tiny.json model.merges[2]; found: \"zz\"");
  refuses([](Json& file) { file["model"]["merges"][2] = "zz he"; }, "found: \"zz\"");
  refuses([](Json& file) { file["model"]["merges"][2] = "ll he"; }, "found: \"llhe\"");
  refuses(
      [](Json& file) {
        file["model"]["merges"][2] = {"<|im_end|>", "h"};
      },
      "merge of an unknown token");
  refuses(
      [](Json& file) {
        file["model"]["merges"][2] = {"h", "e"};
      },
      "merge stands twice; where: tiny.json model.merges[2]; found: \"h\" \"e\"");
  refuses([](Json& file) { file["model"]["merges"][2] = {"h", "e", "l"}; }, "expected: two tokens");
  refuses([](Json& file) { file["model"]["merges"][2] = "h e l"; },
          "expected: two tokens with one space between");
  refuses([](Json& file) { file["model"]["merges"][2] = "he"; }, "one space between");
  refuses([](Json& file) { file["model"]["merges"] = "h e"; }, "expected: a list");
  refuses([](Json& file) { file["model"].erase("merges"); }, "where: tiny.json model.merges");
}

TEST(ParseTokenizerFile, RefusesStepsItDoesNotHave) {
  refuses([](Json& file) { file["normalizer"]["type"] = "Lowercase"; },
          "unsupported normalizer; where: tiny.json normalizer.type; found: \"Lowercase\"; "
          "expected: NFC, or none");
  refuses(
      [](Json& file) {
        file["normalizer"] = {{"type", "Sequence"}};
      },
      "key is missing; where: tiny.json normalizer.normalizers");
  refuses([](Json& file) { file.erase("pre_tokenizer"); }, "tokenizer without a pre-tokenizer");
  refuses([](Json& file) { file["pre_tokenizer"]["type"] = "Metaspace"; },
          "unsupported pre-tokenizer; where: tiny.json pre_tokenizer.type; found: \"Metaspace\"");
  refuses([](Json& file) { file["pre_tokenizer"]["pretokenizers"].erase(1); },
          "tokenizer is not byte-level");
  refuses([](Json& file) { std::swap(step(file, 0), step(file, 1)); },
          "unsupported step after ByteLevel; where: tiny.json pre_tokenizer.pretokenizers[1]");
  refuses([](Json& file) { step(file, 1)["add_prefix_space"] = true; },
          "unsupported ByteLevel option");
  refuses([](Json& file) { step(file, 0)["behavior"] = "Removed"; },
          "pretokenizers[0].behavior; found: \"Removed\"; expected: Isolated");
  refuses([](Json& file) { step(file, 0)["invert"] = true; }, "pretokenizers[0].invert");
}

TEST(ParseTokenizerFile, RefusesBrokenPatterns) {
  refuses([](Json& file) { step(file, 0)["pattern"]["Regex"] = "(a"; },
          "split pattern is not a regular expression; where: tiny.json pre_tokenizer; found: "
          "missing closing parenthesis at byte 2 of \"(a\"");
  refuses([](Json& file) { step(file, 0)["pattern"]["Regex"] = "\\C"; },
          "not a regular expression");
  refuses([](Json& file) { step(file, 0)["pattern"]["Regex"] = ""; }, "split pattern is empty");
  refuses([](Json& file) { step(file, 0)["pattern"] = Json::object(); }, "pattern.Regex");
  refuses([](Json& file) { step(file, 0)["pattern"] = "a"; }, "expected: an object");
}

TEST(ParseTokenizerFile, StopsAPatternThatRunsAway) {
  Json file = tiny_tokenizer();
  step(file, 0)["pattern"]["Regex"] = "(a+)+$";
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "tiny.json");
  EXPECT_THAT([&] { (void)tokenizer.encode(std::string(60, 'a') + "b", SpecialText::kPlain); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("split pattern fails on a text"), HasSubstr("match limit exceeded"))));
}

TEST(LoadTokenizer, NamesTheFileItCannotRead) {
  const auto folder = std::filesystem::temp_directory_path() / "tributary_load_tokenizer";
  std::filesystem::create_directories(folder);
  const auto refuses_file = [](const std::filesystem::path& file, const std::string& words) {
    EXPECT_THAT(
        [&] { (void)Tokenizer::load(file); },
        testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr(words), HasSubstr(file.string()))));
  };
  refuses_file(folder / "absent.json", "data: cannot read the tokenizer");
  refuses_file(folder, "data: the model has no tokenizer");
  const auto huge = folder / "huge.json";
  std::ofstream(huge).close();
  std::filesystem::resize_file(huge, (std::uint64_t{64} << 20) + 1);
  refuses_file(huge, "found: 67108865 bytes; expected: at most 67108864 bytes");
  std::filesystem::remove_all(folder);
}

TEST(ParseTokenizerFile, AcceptsOrRefusesAnyChangedFile) {
  const std::string valid = tiny_tokenizer().dump();
  RandomStream random(10, "fuzz");
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string file = valid;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const std::size_t at = random.below(file.size());
      switch (random.below(4)) {
        case 0:
          file[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          file[at] = "0123456789\"{}[],:\\ -.e"[random.below(22)];
          break;
        case 2:
          file.erase(at, 1 + random.below(40));
          break;
        default:
          file.insert(at, file.substr(random.below(file.size()), 1 + random.below(40)));
      }
      if (file.empty()) break;
    }
    try {
      const Tokenizer tokenizer = Tokenizer::parse(file, "fuzz.json");
      const std::vector<TokenId> ids =
          tokenizer.encode("hello <|im_end|>\u00e9 12's\n\n", SpecialText::kControl);
      (void)tokenizer.decode(ids, SpecialTokens::kKeep);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::kInput) << "round " << round << ": " << error.what();
    }
  }
  EXPECT_GT(accepted, 0);  // changes inside texts are legal
}

}  // namespace
}  // namespace tributary::data
