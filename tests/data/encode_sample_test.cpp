#include "data/loader/encode_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "core/error.h"
#include "data/decode/data_url.h"
#include "data/decode/jpeg_file.h"
#include "data/decode/png_file.h"
#include "data/record/media_folder.h"
#include "data/record/record.h"
#include "tests/data/temporary_folder.h"
#include "tests/data/tiny_tokenizer.h"

namespace tributary::data {
namespace {

using ::testing::HasSubstr;

/// Takes the nearest pixel; the real kernel needs torch.
Picture resize_nearest(const Picture& picture, int height, int width) {
  Picture resized{.width = width, .height = height, .rgb = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < 3; ++channel)
        resized.rgb.push_back(
            picture
                .rgb[3 * (y * picture.height / height * picture.width + x * picture.width / width) +
                     channel]);
  return resized;
}

Picture paint(int width, int height, std::uint8_t level) {
  return {.width = width,
          .height = height,
          .rgb = std::vector<std::uint8_t>(std::size_t{3} * width * height, level)};
}

/// A JPEG with an EXIF block: stored on its side, and with a preview that makes the header long.
std::vector<std::uint8_t> write_turned_jpeg(int width, int height) {
  std::vector<std::uint8_t> file = write_jpeg(paint(width, height, 90), 90);
  std::vector<std::uint8_t> exif{0xff, 0xe1, 0xff, 0xfe, 'E', 'x', 'i', 'f', 0, 0,    'M',
                                 'M',  0,    42,   0,    0,   0,   8,   0,   1, 0x01, 0x12,
                                 0,    3,    0,    0,    0,   1,   0,   6,   0, 0};
  exif.resize(2 + 0xfffe, 0x55);
  std::vector<std::uint8_t> more{0xff, 0xe2, 0x80, 0x00};  // so that 64 KiB do not reach the frame
  more.resize(2 + 0x8000);
  file.insert(file.begin() + 2, more.begin(), more.end());
  file.insert(file.begin() + 2, exif.begin(), exif.end());
  return file;
}

class EncodeSample : public testing::Test {
 protected:
  EncodeSample() {
    media_.write("a.png", write_png(paint(100, 60, 10)));
    media_.write("b.jpg", write_jpeg(paint(31, 90, 200), 90));
    media_.write("turned.jpg", write_turned_jpeg(120, 40));
    for (int i = 0; i < 3; ++i)
      media_.write(str("frame", i, ".png"), write_png(paint(64, 48, static_cast<std::uint8_t>(i))));
    folder_.emplace(media_.path());
  }

  std::unique_ptr<SampleEncoder> make(Tokens max = {}, bool sees = true,
                                      Resize resize = resize_nearest,
                                      bool truncates = false) const {
    QwenEncoding encoding;
    encoding.tokenizer = &tokenizer_;
    encoding.chat.system_prompt = "hi";
    if (sees) encoding.pictures = PreprocessorConfig{};
    encoding.resize = std::move(resize);
    encoding.max_tokens = max;
    encoding.truncates = truncates;
    return make_qwen_encoder(std::move(encoding));
  }
  Record read(const std::string& line) const {
    Record record = parse_record(line, "t.jsonl:1").value().record;
    record.folder = &*folder_;
    return record;
  }

  Tokenizer tokenizer_ = Tokenizer::parse(tiny_tokenizer().dump(), "tiny tokenizer");
  TemporaryFolder media_;
  std::optional<MediaFolder> folder_;
};

const char* const kText =
    R"({"conversations":[{"from":"human","value":"1+1?"},{"from":"gpt","value":"2"}]})";
const char* const kMixed =
    R"({"conversations":[{"from":"human","value":"<image>or<image>in<video>?"},)"
    R"({"from":"gpt","value":"first"},{"from":"human","value":"and <image>?"},)"
    R"({"from":"gpt","value":"the turned one"}],)"
    R"("images":["a.png","b.jpg","turned.jpg"],)"
    R"("video":["frame0.png","frame1.png","frame2.png"],"fps":4})";

TEST_F(EncodeSample, DescribesWhatItEncodes) {
  const auto encoder = make();
  for (const char* line : {kText, kMixed}) {
    const Record record = read(line);
    const EncodedSample sample = encoder->encode(record).value();
    EXPECT_EQ(encoder->describe(record).value(), sample.shape());
    EXPECT_EQ(sample.tokens.size(), sample.targets.size());
  }
}

TEST_F(EncodeSample, PutsTheRejectedAnswerBehindTheChosenOne) {
  const auto encoder = make();
  const std::string asked = R"({"images":["a.png"],"prompt":"<image>?",)";
  const EncodedSample chosen = encoder->encode(read(asked + R"("response":"yes"})")).value();
  const EncodedSample rejected = encoder->encode(read(asked + R"("response":"no"})")).value();
  const Record record = read(asked + R"("chosen":"yes","rejected":"no"})");
  const EncodedSample pair = encoder->encode(record).value();
  std::vector<TokenId> tokens = chosen.tokens;
  tokens.insert(tokens.end(), rejected.tokens.begin(), rejected.tokens.end());
  EXPECT_EQ(pair.tokens, tokens);
  EXPECT_EQ(pair.targets.back(), rejected.targets.back());
  EXPECT_EQ(pair.rejected, std::ssize(rejected.tokens));
  ASSERT_EQ(pair.items.size(), 2U);
  EXPECT_EQ(pair.items[1].rows, chosen.items[0].rows);
  EXPECT_EQ(encoder->describe(record).value(), pair.shape());
  EXPECT_EQ(encoder->encode_held_out(record).value().pictures.size(), 1U);
}

/// A cut sample begins as the whole one, and holds each picture as a whole or not at all.
TEST_F(EncodeSample, CutsASampleAtAnyLimit) {
  const Record record = read(kMixed);
  const EncodedSample whole = make()->encode(record).value();
  const std::int64_t length = std::ssize(whole.tokens);
  const auto pads = [&](const EncodedSample& sample) {
    return std::ranges::count_if(sample.tokens, [&](TokenId token) {
      return token == tokenizer_.id_of("<|image_pad|>") ||
             token == tokenizer_.id_of("<|video_pad|>");
    });
  };
  std::set<std::size_t> items;
  std::int64_t cut = 0;
  for (std::int64_t limit = 1; limit <= length + 1; ++limit) {
    SCOPED_TRACE(limit);
    const auto encoder = make({limit}, /*sees=*/true, resize_nearest, /*truncates=*/true);
    const auto sample = encoder->encode(record);
    if (!sample) {
      EXPECT_EQ(sample.refusal().code, "too_long");
      EXPECT_EQ(cut, 0) << "the answers stand behind what cannot be cut";
      EXPECT_EQ(encoder->describe(record).refusal().code, "too_long");
      continue;
    }
    ++cut;
    const EncodedSample& part = sample.value();
    EXPECT_EQ(encoder->describe(record).value(), part.shape());
    ASSERT_LE(std::ssize(part.tokens), std::min(limit, length));
    EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin()));
    EXPECT_TRUE(std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin()));
    std::int64_t merged = 0;
    for (const PatchedItem& item : part.items) merged += item.grid.patches() / 4;
    EXPECT_EQ(pads(part), merged);
    EXPECT_NE(part.tokens.back(), tokenizer_.id_of("<|vision_start|>"));
    items.insert(part.items.size());
    if (limit >= length) {
      EXPECT_EQ(part.tokens, whole.tokens);
    }
  }
  EXPECT_EQ(items, (std::set<std::size_t>{3, 4}));
  EXPECT_GT(cut, 10);
  const auto encoder = make({length - 1}, true, resize_nearest, /*truncates=*/true);
  EXPECT_EQ(encoder->encode_held_out(record).refusal().code, "too_long");
  EXPECT_EQ(encoder->describe_held_out(record).refusal().code, "too_long");
}

config::VisionConfig tiny_tiles(config::VisionClass kind) {
  config::VisionConfig tower;
  tower.kind = kind;
  tower.tile = 28;
  tower.temporal_patch = 1;
  if (kind == config::VisionClass::kInternVit) return tower;
  tower.merge = 1;
  tower.max_tiles = 1;
  tower.arrangements = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
  return tower;
}

/// Families of tiles put other tokens around a picture, or none; a clip of InternVL is a picture.
TEST_F(EncodeSample, CutsSamplesOfTilesAtAnyLimit) {
  const std::string own = tiny_tokenizer().dump();
  const auto renamed = [&](std::map<std::string, std::string> names) {
    std::string text = own;
    for (const auto& [from, to] : names)
      for (std::size_t at = 0; (at = text.find(from)) != std::string::npos;)
        text.replace(at, from.size(), to);
    return Tokenizer::parse(text, "tiny tokenizer");
  };
  const Tokenizer intern = renamed({{"<|vision_start|>", "<img>"},
                                    {"<|vision_end|>", "</img>"},
                                    {"<|image_pad|>", "<IMG_CONTEXT>"}});
  const Tokenizer llava = renamed({{"<|image_pad|>", "<image>"}, {"<|video_pad|>", "<video>"}});
  const Record record = read(kMixed);
  for (const MediaForm form : {MediaForm::kInternVl, MediaForm::kLlavaOneVision}) {
    const bool is_intern = form == MediaForm::kInternVl;
    const auto make_cutting = [&](std::int64_t max) {
      QwenEncoding encoding;
      encoding.tokenizer = is_intern ? &intern : &llava;
      encoding.chat.media = form;
      PreprocessorConfig& pictures = encoding.pictures.emplace();
      pictures.temporal_patch = 1;
      pictures.tiles =
          tiny_tiles(is_intern ? config::VisionClass::kInternVit : config::VisionClass::kSiglip);
      pictures.merge = pictures.tiles->merge;
      encoding.resize = resize_nearest;
      encoding.max_tokens = {max};
      encoding.truncates = true;
      return make_qwen_encoder(std::move(encoding));
    };
    const EncodedSample whole = make_cutting(0)->encode(record).value();
    EXPECT_EQ(whole.shape().images.size(), is_intern ? 4 : 3);
    const std::vector<std::string> pads{is_intern ? "<IMG_CONTEXT>" : "<image>",
                                        is_intern ? "<IMG_CONTEXT>" : "<video>"};
    int cut = 0;
    for (std::int64_t limit = 1; limit <= std::ssize(whole.tokens); ++limit) {
      const auto encoder = make_cutting(limit);
      const auto sample = encoder->encode(record);
      if (!sample) continue;
      ++cut;
      const EncodedSample& part = sample.value();
      EXPECT_EQ(encoder->describe(record).value(), part.shape());
      EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin()));
      std::int64_t expected = 0;
      for (const PatchedItem& item : part.items)
        expected += config::tokens_of_tiles(
            tiny_tiles(is_intern ? config::VisionClass::kInternVit : config::VisionClass::kSiglip),
            item.grid);
      const Tokenizer& tokenizer = is_intern ? intern : llava;
      EXPECT_EQ(std::ranges::count_if(part.tokens,
                                      [&](TokenId token) {
                                        return token == tokenizer.id_of(pads[0]) ||
                                               token == tokenizer.id_of(pads[1]);
                                      }),
                expected)
          << "limit " << limit;
    }
    EXPECT_GT(cut, 10);
  }
}

TEST_F(EncodeSample, LearnsAllTextOfADocument) {
  const Record record = read(R"({"text":"ab<image>c","images":["a.png"]})");
  const auto encoder = make();
  const EncodedSample sample = encoder->encode(record).value();
  EXPECT_EQ(encoder->describe(record).value(), sample.shape());
  const std::int64_t picture = 1 + sample.items.at(0).grid.patches() / 4 + 1;
  const std::vector<TokenId> before = tokenizer_.encode("ab", SpecialText::kPlain);
  const std::vector<TokenId> after = tokenizer_.encode("c", SpecialText::kPlain);
  ASSERT_EQ(std::ssize(sample.tokens), std::ssize(before) + picture + std::ssize(after) + 1);
  EXPECT_EQ(sample.tokens.back(), tokenizer_.id_of("<|endoftext|>"));
  EXPECT_EQ(sample.targets.back(), kIgnoredTarget);
  // Every token but the first and the picture's is a target of the token before it.
  EXPECT_EQ(sample.shape().target_tokens.count, std::ssize(before) - 1 + std::ssize(after) + 1);
  const HeldOutSample held_out = encoder->encode_held_out(record).value();
  EXPECT_EQ(held_out.prompt.size(), sample.tokens.size() - after.size() - 1);
  EXPECT_EQ(held_out.answer, "c");
  EXPECT_THAT(encoder->answers(record).value(), testing::IsEmpty());
}

TEST_F(EncodeSample, ExpandsEveryItemToItsPatches) {
  const EncodedSample sample = make()->encode(read(kMixed)).value();
  ASSERT_EQ(sample.items.size(), 4u);
  // Nearest multiples of 28: 100 x 60 -> 112 x 56; 31 x 90 -> 28 x 84, below 56 * 56, so larger.
  EXPECT_EQ(sample.items[0].grid, (Grid{1, 4, 8}));
  EXPECT_EQ(sample.items[1].grid, grid_of_image({.height = 90, .width = 31}, {}).value());
  EXPECT_EQ(sample.items[2].modality, Modality::kVideo);
  EXPECT_EQ(sample.items[2].grid.time, 2);  // three frames, the last one twice
  EXPECT_DOUBLE_EQ(sample.items[2].seconds_per_step, 0.5);
  // Stored as 120 x 40, shown as 40 x 120.
  EXPECT_EQ(sample.items[3].grid, grid_of_image({.height = 120, .width = 40}, {}).value());
  const auto pads = [&](const char* name) {
    return std::count(sample.tokens.begin(), sample.tokens.end(), tokenizer_.id_of(name));
  };
  const auto merged = [&](std::size_t item) { return sample.items[item].grid.patches() / 4; };
  EXPECT_EQ(pads("<|image_pad|>"), merged(0) + merged(1) + merged(3));
  EXPECT_EQ(pads("<|video_pad|>"), merged(2));
  EXPECT_EQ(sample.items[0].rows.size(), static_cast<std::size_t>(1 * 4 * 8 * 1176));
}

TEST_F(EncodeSample, LearnsTheAnswersAlone) {
  const EncodedSample sample = make()->encode(read(kMixed)).value();
  std::vector<TokenId> learned;
  for (const std::int64_t target : sample.targets)
    if (target != kIgnoredTarget) learned.push_back(static_cast<TokenId>(target));
  EXPECT_EQ(tokenizer_.decode(learned, SpecialTokens::kKeep),
            "first<|im_end|>\nthe turned one<|im_end|>\n");
}

TEST_F(EncodeSample, HeldOutPromptEndsWhereTheAnswerBegins) {
  const auto encoder = make();
  const HeldOutSample held_out = encoder->encode_held_out(read(kMixed)).value();
  EXPECT_EQ(held_out.answer, "the turned one");
  EXPECT_EQ(held_out.question, "and ?");
  EXPECT_EQ(held_out.pictures.size(), 6u);
  EXPECT_EQ(held_out.pictures.back().width, 40);
  EXPECT_EQ(held_out.sample.tokens, encoder->encode(read(kMixed)).value().tokens);
  // The whole chat is the prompt, then the answer.
  ASSERT_LT(held_out.prompt.size(), held_out.sample.tokens.size());
  EXPECT_TRUE(
      std::equal(held_out.prompt.begin(), held_out.prompt.end(), held_out.sample.tokens.begin()));
  const std::vector<TokenId> rest(held_out.sample.tokens.begin() + std::ssize(held_out.prompt),
                                  held_out.sample.tokens.end());
  EXPECT_EQ(tokenizer_.decode(rest, SpecialTokens::kKeep), "the turned one<|im_end|>\n");
}

TEST_F(EncodeSample, RefusesALongSampleByItsHeaders) {
  const Tokens whole = make()->describe(read(kMixed)).value().tokens;
  EXPECT_TRUE(make(whole)->encode(read(kMixed)));
  const Refusal refusal = make(whole - Tokens{1})->encode(read(kMixed)).refusal();
  EXPECT_EQ(refusal.code, "too_long");
  EXPECT_THAT(refusal.reason, HasSubstr(str(whole.count)));
  EXPECT_THAT(refusal.reason, HasSubstr(str("limit ", whole.count - 1)));
  EXPECT_EQ(make(whole - Tokens{1})->describe(read(kMixed)).refusal().code, "too_long");
}

TEST_F(EncodeSample, RefusesPicturesForATextModel) {
  EXPECT_TRUE(make({}, false)->encode(read(kText)));
  const Refusal refusal = make({}, false)->encode(read(kMixed)).refusal();
  EXPECT_EQ(refusal.code, "no_vision");
  EXPECT_THAT(refusal.reason, HasSubstr("4 images or clips"));
}

TEST_F(EncodeSample, NamesTheImageThatIsBad) {
  const auto refusal = [&](const std::string& image) {
    return make()
        ->encode(read(R"({"conversations":[{"from":"human","value":"<image>?"},)"
                      R"({"from":"gpt","value":"x"}],"image":")" +
                      image + "\"}"))
        .refusal();
  };
  EXPECT_EQ(refusal("none.png").code, "missing_file");
  EXPECT_EQ(refusal("../a.png").code, "path_escapes");
  std::vector<std::uint8_t> png = write_png(paint(9, 9, 1));
  png[30] ^= 1;  // in the CRC of IHDR
  media_.write("broken.png", png);
  EXPECT_EQ(refusal("broken.png").code, "png_crc");
  EXPECT_THAT(refusal("broken.png").reason, HasSubstr("broken.png"));
  media_.write("note.txt", "hello");
  EXPECT_EQ(refusal("note.txt").code, "unknown_format");
  media_.write("thin.png", write_png(paint(1, 201, 1)));
  EXPECT_EQ(refusal("thin.png").code, "bad_aspect");
}

TEST_F(EncodeSample, TakesPicturesOfAnyShapeWithinTheLimits) {
  const auto encoder = make();
  const std::vector<std::pair<int, int>> sizes{{1, 1}, {1, 200}, {13, 13}, {2000, 14}, {1400, 900}};
  for (const auto& [width, height] : sizes) {
    SCOPED_TRACE(str(width, " x ", height));
    media_.write("any.png", write_png(paint(width, height, 3)));
    const Record record =
        read(R"({"conversations":[{"from":"human","value":"<image>?"},{"from":"gpt","value":"x"}],)"
             R"("image":"any.png"})");
    const EncodedSample sample = encoder->encode(record).value();
    EXPECT_EQ(encoder->describe(record).value(), sample.shape());
    EXPECT_GE(sample.items[0].grid.patches(), 16);
  }
}

TEST_F(EncodeSample, NoticesAPictureThatChangesUnderItsHands) {
  const auto encoder = make({}, true, [&](const Picture& picture, int height, int width) {
    media_.write("b.jpg", write_jpeg(paint(300, 300, 5), 90));  // after its header was read
    return resize_nearest(picture, height, width);
  });
  EXPECT_EQ(encoder->encode(read(kMixed)).refusal().code, "length_changed");
}

TEST_F(EncodeSample, RefusesClipsWhoseFramesDiffer) {
  const Refusal refusal =
      make()
          ->encode(read(R"({"conversations":[{"from":"human","value":"<video>?"},)"
                        R"({"from":"gpt","value":"x"}],"video":["frame0.png","a.png"]})"))
          .refusal();
  EXPECT_EQ(refusal.code, "frame_sizes");
  EXPECT_THAT(refusal.reason, HasSubstr("a.png"));
}

TEST_F(EncodeSample, TakesImagesOutOfDataUrls) {
  const std::vector<std::uint8_t> png = write_png(paint(100, 60, 10));
  const std::string url = "data:image/png;base64," +
                          encode_base64({reinterpret_cast<const char*>(png.data()), png.size()});
  const auto line = [](const std::string& image) {
    return R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
           image + R"("}},{"type":"text","text":"?"}]},{"role":"assistant","content":"x"}]})";
  };
  const auto encoder = make();
  const EncodedSample inlined = encoder->encode(read(line(url))).value();
  const EncodedSample by_path = encoder->encode(read(line("a.png"))).value();
  EXPECT_EQ(inlined.tokens, by_path.tokens);
  EXPECT_EQ(inlined.items.at(0).rows, by_path.items.at(0).rows);
  EXPECT_EQ(encoder->describe(read(line(url))).value(), inlined.shape());
  EXPECT_EQ(encoder->encode(read(line("data:image/png;base64,AA!="))).refusal().code,
            "bad_data_url");
}

}  // namespace
}  // namespace tributary::data
