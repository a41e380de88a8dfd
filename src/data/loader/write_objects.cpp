#include "data/loader/write_objects.h"

#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/text.h"
#include "data/loader/encode_sample.h"
#include "data/preprocess/qwen_vl.h"
#include "data/record/record.h"

namespace tributary::data {
namespace {

constexpr double kGrid = 1000;

std::string join(const std::vector<std::int64_t>& numbers, const config::ObjectForm& form) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (form.in_pairs)
      text += i % 2 == 0 ? str(text.empty() ? "(" : ",(", numbers[i], ",") : str(numbers[i], ")");
    else
      text += str(text.empty() ? "" : ", ", numbers[i]);
  }
  return str(form.open, text, form.close);
}

/// A text between two control tokens, or alone where the family has none.
void add_words(std::string_view before, const std::string& text, std::string_view after,
               std::vector<Part>& parts) {
  if (!before.empty()) parts.emplace_back(ControlWord{std::string(before)});
  parts.emplace_back(text);
  if (!after.empty()) parts.emplace_back(ControlWord{std::string(after)});
}

class ObjectWriter final : public SampleEncoder {
 public:
  ObjectWriter(std::unique_ptr<SampleEncoder> encoder, const config::ObjectForm& form,
               std::optional<PreprocessorConfig> pictures)
      : encoder_(std::move(encoder)), form_(form), pictures_(std::move(pictures)) {}

  bool takes_pairs() const override { return encoder_->takes_pairs(); }
  Result<SampleShape> describe(const Record& record) const override {
    return with_words(record, [&](const Record& written) { return encoder_->describe(written); });
  }
  Result<SampleShape> describe_held_out(const Record& record) const override {
    return with_words(record,
                      [&](const Record& written) { return encoder_->describe_held_out(written); });
  }
  Result<EncodedSample> encode(const Record& record) const override {
    return with_words(record, [&](const Record& written) { return encoder_->encode(written); });
  }
  Result<EncodedSample> encode_without(const Record& record, ModalitySet rows) const override {
    return with_words(
        record, [&](const Record& written) { return encoder_->encode_without(written, rows); });
  }
  Result<std::vector<Picture>> pictures(const Record& record) const override {
    return with_words(record, [&](const Record& written) { return encoder_->pictures(written); });
  }
  Result<HeldOutSample> encode_held_out(const Record& record) const override {
    return with_words(record,
                      [&](const Record& written) { return encoder_->encode_held_out(written); });
  }
  Result<std::vector<std::string>> answers(const Record& record) const override {
    return with_words(record, [&](const Record& written) { return encoder_->answers(written); });
  }

 private:
  template <class Use>
  std::invoke_result_t<Use, const Record&> with_words(const Record& record, const Use& use) const {
    if (record.object_names.empty() && record.boxes.empty()) return use(record);
    const Result<std::vector<std::string>> boxes = write_boxes(record);
    if (!boxes) return boxes.refusal();
    Record written = record;
    for (std::vector<Turn>* turns : {&written.turns, &written.rejected})
      for (Turn& turn : *turns) write(record, boxes.value(), turn);
    return use(written);
  }

  void write(const Record& record, const std::vector<std::string>& boxes, Turn& turn) const {
    std::vector<Part> parts;
    for (Part& part : turn.parts) {
      const auto* object = std::get_if<ObjectReference>(&part);
      if (object == nullptr) {
        parts.push_back(std::move(part));
        continue;
      }
      const auto index = static_cast<std::size_t>(object->index);
      if (object->kind == ObjectReference::Kind::kName)
        add_words(form_.before_name, record.object_names[index], form_.after_name, parts);
      else
        add_words(form_.before_box, boxes[index], form_.after_box, parts);
    }
    turn.parts = std::move(parts);
  }

  /// The coordinates of all boxes as the family writes them. Each image is measured once.
  Result<std::vector<std::string>> write_boxes(const Record& record) const {
    if (!pictures_ && !record.boxes.empty())
      return Refusal{"no_vision", str(record.boxes.size(), " boxes, and the model sees no images")};
    std::map<std::size_t, Sides> sides;  // by image
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < record.boxes.size(); ++i) {
      const std::size_t image = record.boxes[i].image;
      if (!sides.contains(image)) {
        const Result<Sides> measured = measure(record, image);
        if (!measured) return measured.refusal();
        sides[image] = measured.value();
      }
      const auto corners = scale(record.boxes[i], sides[image], str("objects.bbox[", i, "]"));
      if (!corners) return corners.refusal();
      texts.push_back(join(corners.value(), form_));
    }
    return texts;
  }

  /// Width and height of an image.
  struct Sides {
    std::array<double, 2> given = {};  // in its file
    std::array<double, 2> seen = {};   // as the model sees it
  };

  Result<Sides> measure(const Record& record, std::size_t image) const {
    const Result<PictureSize> size = measure_picture(record, record.images[image]);
    if (!size) return size.refusal();
    const Result<Grid> grid =
        grid_of_image(size.value(), *pictures_, company_of(record.images.size()));
    if (!grid) return grid.refusal();
    return Sides{.given = {static_cast<double>(size.value().width),
                           static_cast<double>(size.value().height)},
                 .seen = {static_cast<double>(grid.value().columns * pictures_->patch),
                          static_cast<double>(grid.value().rows * pictures_->patch)}};
  }

  /// The corners of a box as the family counts them; `where` names it in a refusal.
  Result<std::vector<std::int64_t>> scale(const Box& box, const Sides& image,
                                          const std::string& where) const {
    std::vector<std::int64_t> corners;
    for (std::size_t i = 0; i < box.corners.size(); ++i) {
      const double max = form_.in_pixels ? image.seen[i % 2] : kGrid;
      const double at =
          std::nearbyint(box.corners[i] / (box.is_relative ? 1 : image.given[i % 2]) * max);
      if (!(at >= 0 && at <= max))
        return Refusal{"bad_box", str(where, " has ", box.corners[i], ", outside of ",
                                      box.is_relative ? "0 to 1"
                                                      : str("an image of ", image.given[0], " x ",
                                                            image.given[1]))};
      corners.push_back(static_cast<std::int64_t>(at));
    }
    return corners;
  }

  std::unique_ptr<SampleEncoder> encoder_;
  config::ObjectForm form_;
  std::optional<PreprocessorConfig> pictures_;
};

}  // namespace

std::unique_ptr<SampleEncoder> write_objects(std::unique_ptr<SampleEncoder> encoder,
                                             const config::ObjectForm& form,
                                             std::optional<PreprocessorConfig> pictures) {
  return std::make_unique<ObjectWriter>(std::move(encoder), form, std::move(pictures));
}

}  // namespace tributary::data
