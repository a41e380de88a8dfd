#include "data/record/document_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedRecord parse_document(const std::string& line) {
  auto parsed = parse_record(line, "a.jsonl:1");
  if (!parsed) throw std::runtime_error(parsed.refusal().code + ": " + parsed.refusal().reason);
  EXPECT_TRUE(parsed.value().record.is_document);
  EXPECT_EQ(parsed.value().record.turns.size(), 1u);
  return std::move(parsed).value();
}
std::string document_refusal(const std::string& line) {
  const auto parsed = parse_record(line, "a.jsonl:1");
  return parsed ? "accepted" : parsed.refusal().code + ": " + parsed.refusal().reason;
}
const MediaReference kImageA{Modality::kImage, 0};
const MediaReference kImageB{Modality::kImage, 1};

TEST(Text, IsADocument) {
  const ParsedRecord parsed =
      parse_document(R"({"text":"once upon","meta":{"url":"u"},"image":null})");
  EXPECT_EQ(parsed.form, RecordForm::kText);
  EXPECT_THAT(parsed.record.turns[0].parts, ElementsAre(Part("once upon")));
  EXPECT_THAT(parsed.record.unread_keys, ElementsAre("meta"));
  EXPECT_THAT(document_refusal(R"({"text":" \n"})"), HasSubstr("empty_text: document has no text"));
  EXPECT_THAT(document_refusal(R"({"text":["a"]})"), HasSubstr("bad_form: no known form"));
}

TEST(Interleaved, ReadsTwoLists) {
  const Record record =
      parse_document(R"({"texts":["a",null,"b",null],"images":[null,"x.png",null,{"path":"y"}]})")
          .record;
  EXPECT_THAT(record.turns[0].parts,
              ElementsAre(Part("a"), Part(kImageA), Part("b"), Part(kImageB)));
  EXPECT_THAT(record.images, ElementsAre("x.png", "y"));
  EXPECT_THAT(document_refusal(R"({"texts":["a"],"images":[]})"),
              HasSubstr("1 texts and 0 images"));
  EXPECT_THAT(document_refusal(R"({"texts":["a"],"images":["b"]})"),
              HasSubstr("texts[0] and images[0]: expected one of them"));
  EXPECT_THAT(document_refusal(R"({"texts":[null],"images":["b"]})"), HasSubstr("empty_text"));
}

TEST(Interleaved, ReadsMatchedPictures) {
  const Record record = parse_document(R"({"text_list":["a","b","c"],"image_info":[)"
                                       R"({"image_name":"x","matched_text_index":2},)"
                                       R"({"image_name":"y","matched_text_index":0}]})")
                            .record;
  EXPECT_THAT(record.turns[0].parts,
              ElementsAre(Part(kImageA), Part("a b"), Part(kImageB), Part("c")));
  EXPECT_THAT(record.images, ElementsAre("y", "x"));
  EXPECT_THAT(document_refusal(R"({"text_list":["a"],"image_info":[)"
                               R"({"image_name":"x","matched_text_index":1}]})"),
              HasSubstr("image_info[0].matched_text_index = 1, expected 0 to 0"));
}

TEST(Interleaved, ReadsPlaceholders) {
  const ParsedRecord parsed =
      parse_document(R"({"text":"see <image>, then <image>","images":["x","y"]})");
  EXPECT_EQ(parsed.form, RecordForm::kInterleaved);
  EXPECT_THAT(parsed.record.turns[0].parts,
              ElementsAre(Part("see "), Part(kImageA), Part(", then "), Part(kImageB)));
  EXPECT_THAT(document_refusal(R"({"text":"see <image>","images":["x","y"]})"),
              HasSubstr("placeholder_count"));
}

}  // namespace
}  // namespace tributary::data
