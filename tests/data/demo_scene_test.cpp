#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "data/demo/figure.h"
#include "data/demo/make_demo.h"

namespace tributary::data {
namespace {

const Glyphs& glyphs() {
  static const Glyphs once{std::string(kDemoFont)};
  return once;
}

const DemoSource& source(std::string_view name) {
  const auto& all = demo_sources();
  return *std::ranges::find(all, name, &DemoSource::name);
}

std::vector<Scene> scenes(std::string_view name, int count, Split split = Split::kTrain,
                          std::uint64_t seed = 3) {
  std::vector<Scene> drawn;
  for (int i = 0; i < count; ++i)
    drawn.push_back(draw_scene(source(name), seed, split, i, glyphs()));
  return drawn;
}

std::string answer_to(const Scene& scene, const std::string& ask) {
  for (const Question& question : scene.turns)
    if (question.ask == ask) return question.answer;
  return "";
}

using Rgb = std::array<int, 3>;

Rgb pixel(const Picture& picture, int x, int y) {
  const std::uint8_t* at = picture.rgb.data() + 3 * (y * picture.width + x);
  return {at[0], at[1], at[2]};
}

/// Whether each pixel is nearer to `colour` than to the colour of the top left corner.
std::vector<bool> mask_of(const Picture& picture, Rgb colour) {
  const auto distance = [](Rgb a, Rgb b) {
    int sum = 0;
    for (int i = 0; i < 3; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  };
  const Rgb background = pixel(picture, 0, 0);
  std::vector<bool> mask;
  for (int y = 0; y < picture.height; ++y)
    for (int x = 0; x < picture.width; ++x)
      mask.push_back(distance(pixel(picture, x, y), colour) <
                     distance(pixel(picture, x, y), background));
  return mask;
}

/// The most frequent colour apart from that of the corner.
Rgb main_colour(const Picture& picture) {
  std::map<Rgb, int> counts;
  for (int y = 0; y < picture.height; ++y)
    for (int x = 0; x < picture.width; ++x) ++counts[pixel(picture, x, y)];
  counts.erase(pixel(picture, 0, 0));
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

int count_islands(std::vector<bool> mask, int width) {
  int islands = 0;
  for (std::size_t start = 0; start < mask.size(); ++start) {
    if (!mask[start]) continue;
    ++islands;
    std::vector<std::size_t> open{start};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (at >= mask.size() || !mask[at]) continue;
      mask[at] = false;
      open.insert(open.end(), {at + 1, at - 1, at + width, at - width});
    }
  }
  return islands;
}

/// (x, y) of the centre of what is drawn, in pixels.
std::array<double, 2> centre_of(const Picture& picture, Rgb colour) {
  const std::vector<bool> mask = mask_of(picture, colour);
  double x = 0;
  double y = 0;
  double count = 0;
  for (std::size_t at = 0; at < mask.size(); ++at)
    if (mask[at]) {
      x += static_cast<double>(at % picture.width);
      y += static_cast<double>(at / picture.width);
      ++count;
    }
  return {x / count, y / count};
}

TEST(DemoScene, ShowsAsManyDotsAsTheAnswerSays) {
  std::set<std::string> answers;
  for (const Scene& scene : scenes("shapes", 400)) {
    const std::string dots = answer_to(scene, "How many dots?");
    if (dots.empty()) continue;
    answers.insert(dots);
    const Picture& picture = scene.pictures.front();
    EXPECT_EQ(str(count_islands(mask_of(picture, main_colour(picture)), picture.width)), dots)
        << scene.content;
  }
  EXPECT_EQ(answers.size(), 6u);
}

TEST(DemoScene, PaintsTheColourThatIsTheAnswer) {
  std::map<std::string, Rgb> seen;  // the first shade met; all others must be near
  for (const Scene& scene : scenes("shapes", 300)) {
    const std::string name = answer_to(scene, "Which colour?");
    if (name.empty()) continue;  // a price tag
    const Rgb colour = main_colour(scene.pictures.front());
    const Rgb first = seen.try_emplace(name, colour).first->second;
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(colour[i], first[i], 20) << scene.content;
  }
  EXPECT_EQ(seen.size(), kColourNames.size());
}

TEST(DemoScene, MovesTheShapeTheWayTheAnswerSays) {
  std::set<std::string> ways;
  for (const Scene& scene : scenes("clips", 300)) {
    const std::string way = answer_to(scene, "Which way does it move?");
    if (way.empty()) continue;
    const Rgb colour = main_colour(scene.pictures.front());
    const auto first = centre_of(scene.pictures.front(), colour);
    const auto last = centre_of(scene.pictures.back(), colour);
    std::string seen;
    if (last[1] < first[1] - 5) seen = "up";
    if (last[1] > first[1] + 5) seen = "down";
    if (last[0] < first[0] - 5) seen += seen.empty() ? "left" : " left";
    if (last[0] > first[0] + 5) seen += seen.empty() ? "right" : " right";
    EXPECT_EQ(seen, way) << scene.content;
    ways.insert(way);
  }
  EXPECT_EQ(ways.size(), 8u);
}

TEST(DemoScene, AsksForTheLinesOfAReceiptByTheirPlace) {
  int receipts = 0;
  for (const Scene& scene : scenes("document", 200)) {
    if (answer_to(scene, "Which table?").empty()) continue;
    const std::vector<std::string> asked{
        answer_to(scene, "Which shop?"), answer_to(scene, "Which is first?"),
        answer_to(scene, "Which is second?"), answer_to(scene, "Which is third?"),
        answer_to(scene, "Which table?")};
    std::string whole;
    for (const std::string& line : asked) whole += (whole.empty() ? "" : "\n") + line;
    EXPECT_EQ(scene.whole.answer, whole);
    ++receipts;
  }
  EXPECT_GT(receipts, 50);
}

TEST(DemoScene, DrawsTheTallestBarOfTheChartTallest) {
  int charts = 0;
  for (const Scene& scene : scenes("document", 200)) {
    if (answer_to(scene, "How high is the tallest bar?").empty()) continue;
    const Picture& picture = scene.pictures.front();
    const std::vector<bool> mask = mask_of(picture, main_colour(picture));
    std::array<int, 4> painted{};  // bars lie 42 pixels apart
    for (std::size_t at = 0; at < mask.size(); ++at)
      if (mask[at] && at / picture.width < 112) ++painted[at % picture.width / 42];
    const auto height = [&](auto found) {
      return scene.content.substr(4 * (found - painted.begin()) + 2,
                                  1);  // "H 7, F 5, ..." in lines
    };
    EXPECT_EQ(height(std::ranges::max_element(painted)),
              answer_to(scene, "How high is the tallest bar?"));
    EXPECT_EQ(height(std::ranges::min_element(painted)),
              answer_to(scene, "How high is the shortest bar?"));
    ++charts;
  }
  EXPECT_GT(charts, 20);
}

TEST(DemoScene, HoldsEverySingleAnswerInTheWhole) {
  for (const DemoSource& from : demo_sources())
    for (const Scene& scene : scenes(from.name, 100))
      for (const Question& question : scene.turns)
        EXPECT_THAT(scene.whole.answer, testing::HasSubstr(question.answer)) << question.ask;
}

TEST(DemoScene, AsksInTextForWordsThatStandThere) {
  for (const Scene& scene : scenes("text", 200)) {
    EXPECT_TRUE(scene.pictures.empty());
    for (const Question& question : scene.turns)
      EXPECT_THAT(scene.introduction, testing::HasSubstr(question.answer));
  }
}

/// All pixels and all words that come before the answer when the question is asked first.
std::string shown_by(const Scene& scene, const Question& question) {
  std::string shown = scene.introduction + question.ask;
  for (const Picture& picture : scene.pictures)
    shown.append(picture.rgb.begin(), picture.rgb.end());
  return shown;
}

TEST(DemoScene, NeverShowsHeldOutContentInTraining) {
  for (const DemoSource& from : demo_sources()) {
    std::set<std::string> contents;
    std::set<std::string> shown;
    for (const std::uint64_t seed : {1u, 2u})
      for (const Scene& scene : scenes(from.name, 400, Split::kTrain, seed)) {
        contents.insert(scene.content);
        for (const Question& question : scene.turns) shown.insert(shown_by(scene, question));
      }
    for (const Scene& scene : scenes(from.name, 100, Split::kHeldOut)) {
      EXPECT_FALSE(contents.contains(scene.content)) << from.name << ": " << scene.content;
      for (const Question& question : scene.turns)
        EXPECT_FALSE(shown.contains(shown_by(scene, question)));
    }
  }
}

TEST(DemoScene, CannotBeAnsweredWithoutThePicture) {
  for (const DemoSource& from : demo_sources()) {
    if (from.name == "text") continue;
    std::map<std::string, std::map<std::string, int>> answers;  // by question
    int asked = 0;
    for (const Scene& scene : scenes(from.name, 600)) {
      ++answers[scene.turns.front().ask][scene.turns.front().answer];
      ++asked;
    }
    double guessed = 0;  // by the most frequent answer to each question
    for (const auto& [ask, counts] : answers)
      guessed +=
          std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->second;
    EXPECT_LT(guessed / asked, 0.3) << from.name;
  }
}

TEST(DemoScene, HasSourcesOfVeryDifferentSize) {
  std::map<std::string_view, int> pixels;
  for (const DemoSource& from : demo_sources()) {
    const Scene scene = scenes(from.name, 1).front();
    for (const Picture& picture : scene.pictures) {
      EXPECT_EQ(picture.width % 28, 0);
      EXPECT_EQ(picture.height % 28, 0);
      pixels[from.name] += picture.width * picture.height;
    }
  }
  EXPECT_EQ(pixels["text"], 0);
  EXPECT_EQ(pixels["shapes"], 56 * 56);
  EXPECT_EQ(pixels["pairs"], 3 * 56 * 56);
  EXPECT_EQ(pixels["clips"], 4 * 56 * 56);
  EXPECT_EQ(pixels["document"], 168 * 140);
}

}  // namespace
}  // namespace tributary::data
