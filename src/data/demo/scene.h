#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "data/demo/glyphs.h"
#include "data/sample.h"

namespace tributary::data {

/// A question about the pictures of a scene and its one right answer.
struct Question {
  std::string ask;
  std::string answer;
};

enum class Media { kNone, kOnePicture, kNumberedPictures, kClip };

/// The pictures and questions of one record of the demo.
struct Scene {
  std::string content = {};  // what the pictures show, without noise; decides the split
  Media media = Media::kNone;
  std::vector<Picture> pictures = {};  // frames of a clip, in order
  std::string introduction = {};       // text before the first question
  std::vector<Question> turns = {};    // in the order of asking
  Question whole = {};                 // asks for all that is shown, in words
};

/// One source of the demo: a name, its share of the records, and how a scene is made.
struct DemoSource {
  std::string_view name;
  int share_percent;
  Scene (*draw)(RandomStream& random, const Glyphs& glyphs);
};

/// All sources, ordered by the size of their samples on the vision side.
[[nodiscard]] const std::vector<DemoSource>& demo_sources();

// One function a source, each in `<name>_source.cpp`.
[[nodiscard]] Scene draw_shapes(RandomStream& random, const Glyphs& glyphs);
[[nodiscard]] Scene draw_document(RandomStream& random, const Glyphs& glyphs);
[[nodiscard]] Scene draw_pairs(RandomStream& random, const Glyphs& glyphs);
[[nodiscard]] Scene draw_clip(RandomStream& random, const Glyphs& glyphs);
[[nodiscard]] Scene write_text(RandomStream& random, const Glyphs& glyphs);

}  // namespace tributary::data
