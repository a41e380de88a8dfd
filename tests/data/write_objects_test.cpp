#include "data/loader/write_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/family/all_families.h"
#include "data/decode/png_file.h"
#include "data/loader/encode_sample.h"
#include "data/record/media_folder.h"
#include "data/record/record.h"
#include "tests/data/temporary_folder.h"
#include "tests/data/tiny_tokenizer.h"

namespace tributary::data {
namespace {

using config::ModelFamily;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Gives the text of the last turn, with its control tokens, as the answer.
class Parrot final : public SampleEncoder {
 public:
  Result<SampleShape> describe(const Record&) const override { return SampleShape{}; }
  Result<EncodedSample> encode(const Record&) const override { return EncodedSample{}; }
  Result<HeldOutSample> encode_held_out(const Record&) const override { return HeldOutSample{}; }
  Result<std::vector<std::string>> answers(const Record& record) const override {
    std::string text;
    for (const Part& part : record.turns.back().parts) {
      if (const auto* word = std::get_if<ControlWord>(&part)) text += word->token;
      if (const auto* plain = std::get_if<std::string>(&part)) text += *plain;
    }
    return std::vector<std::string>{text};
  }
};

class WriteObjects : public testing::Test {
 protected:
  WriteObjects() {
    media_.write("a.png", write_png({100, 60, std::vector<std::uint8_t>(18000)}));
    media_.write("b.png", write_png({64, 128, std::vector<std::uint8_t>(24576)}));
    folder_.emplace(media_.path());
  }
  Record read(const std::string& answer, const std::string& objects) const {
    Record record =
        parse_record(R"({"messages":[{"role":"user","content":"<image><image>where?"},)"
                     R"({"role":"assistant","content":")" +
                         answer + R"("}],"images":["a.png","b.png"],"objects":)" + objects + "}",
                     "t.jsonl:1")
            .value()
            .record;
    record.folder = &*folder_;
    return record;
  }
  Result<std::vector<std::string>> write(ModelFamily family, const std::string& answer,
                                         const std::string& objects) const {
    return write_objects(std::make_unique<Parrot>(), config::entry_of(family).objects,
                         PreprocessorConfig{})
        ->answers(read(answer, objects));
  }

  TemporaryFolder media_;
  std::optional<MediaFolder> folder_;
};

constexpr const char* kCat = R"({"ref":["a cat"],"bbox":[[10,15,50.4,45]]})";

TEST_F(WriteObjects, WritesNamesAndBoxesAsEachFamily) {
  const auto written = [&](ModelFamily family) {
    return write(family, "<ref-object>: <bbox>", kCat).value().front();
  };
  // On the grid 1000 x / 100 and 1000 y / 60; the Qwen processors make 112 x 56 of 100 x 60.
  EXPECT_EQ(written(ModelFamily::kQwen2Vl),
            "<|object_ref_start|>a cat<|object_ref_end|>: <|box_start|>(100,250),(504,750)"
            "<|box_end|>");
  EXPECT_EQ(written(ModelFamily::kQwen2_5Vl), "a cat: [11, 14, 56, 42]");
  EXPECT_EQ(written(ModelFamily::kQwen2_5OmniThinker), "a cat: [11, 14, 56, 42]");
  EXPECT_EQ(written(ModelFamily::kQwen3Vl), "a cat: [100, 250, 504, 750]");
  EXPECT_EQ(written(ModelFamily::kInternVl), "<ref>a cat</ref>: <box>[[100, 250, 504, 750]]</box>");
  EXPECT_EQ(written(ModelFamily::kLlavaOneVision), "a cat: [(100,250),(504,750)]");
}

TEST_F(WriteObjects, WritesPointsAndRoundsHalvesToEven) {
  const auto written = [&](const std::string& objects) {
    return write(ModelFamily::kQwen3Vl, "<bbox>", objects).value().front();
  };
  EXPECT_EQ(written(R"({"bbox":[[10,15]]})"), "[100, 250]");
  EXPECT_EQ(written(R"({"bbox":[[0.0625,0.1875,1,1]],"bbox_type":"norm1"})"),
            "[62, 188, 1000, 1000]");
  EXPECT_EQ(written(R"({"bbox":[[16,32,64,128]],"image_id":[1]})"), "[250, 250, 1000, 1000]");
  EXPECT_EQ(write(ModelFamily::kQwen2Vl, "<bbox>", R"({"bbox":[[10,15]]})").value().front(),
            "<|box_start|>(100,250)<|box_end|>");
}

TEST_F(WriteObjects, RefusesABoxThatLeavesItsImage) {
  const auto refusal = [&](const std::string& objects) {
    return write(ModelFamily::kQwen3Vl, "<bbox>", objects).refusal();
  };
  const Refusal outside = refusal(R"({"bbox":[[10,15,101,45]]})");
  EXPECT_EQ(outside.code, "bad_box");
  EXPECT_EQ(outside.reason, "objects.bbox[0] has 101, outside of an image of 100 x 60");
  EXPECT_THAT(refusal(R"({"bbox":[[-1,15]]})").reason, HasSubstr("has -1, outside of an image"));
  EXPECT_THAT(refusal(R"({"bbox":[[1,15]],"bbox_type":"norm1"})").reason,
              HasSubstr("has 15, outside of 0 to 1"));
  const auto blind = write_objects(std::make_unique<Parrot>(), {}, std::nullopt);
  EXPECT_EQ(blind->answers(read("<bbox>", R"({"bbox":[[1,2]]})")).refusal().code, "no_vision");
}

TEST_F(WriteObjects, LearnsTheControlTokensOfAnAnswer) {
  Json json = tiny_tokenizer();
  for (const char* token :
       {"<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>"}) {
    Json added = json["added_tokens"].front();
    added["content"] = token;
    added["id"] = json["added_tokens"].back()["id"].get<int>() + 1;
    json["added_tokens"].push_back(added);
  }
  const Tokenizer tokenizer = Tokenizer::parse(json.dump(), "tiny tokenizer");
  QwenEncoding encoding;
  encoding.tokenizer = &tokenizer;
  encoding.pictures = PreprocessorConfig{};
  encoding.resize = [](const Picture&, int height, int width) {
    return Picture{width, height, std::vector<std::uint8_t>(std::size_t{3} * width * height)};
  };
  const auto encoder =
      write_objects(make_qwen_encoder(encoding), config::entry_of(ModelFamily::kQwen2Vl).objects,
                    PreprocessorConfig{});
  const Record record = read("<ref-object><bbox>.", kCat);
  const EncodedSample sample = encoder->encode(record).value();
  EXPECT_EQ(encoder->describe(record).value(), sample.shape());
  std::vector<TokenId> learned;
  for (const std::int64_t target : sample.targets)
    if (target != kIgnoredTarget) learned.push_back(static_cast<TokenId>(target));
  EXPECT_EQ(tokenizer.decode(learned, SpecialTokens::kKeep),
            "<|object_ref_start|>a cat<|object_ref_end|><|box_start|>(100,250),(504,750)"
            "<|box_end|>.<|im_end|>\n");
  for (const char* token : {"<|object_ref_start|>", "<|box_end|>"})
    EXPECT_EQ(std::ranges::count(learned, tokenizer.id_of(token)), 1) << token;
  // What is asked of a held-out record is the text that a model would be heard to say.
  EXPECT_THAT(encoder->answers(record).value(), ElementsAre("a cat(100,250),(504,750)."));
  EXPECT_EQ(encoder->encode_held_out(record).value().answer, "a cat(100,250),(504,750).");
}

}  // namespace
}  // namespace tributary::data
