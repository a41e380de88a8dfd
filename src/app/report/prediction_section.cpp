#include <algorithm>

#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::vector<std::string> list_sources(const std::vector<Prediction>& predictions) {
  std::vector<std::string> sources;
  for (const Prediction& prediction : predictions)
    if (std::find(sources.begin(), sources.end(), prediction.source) == sources.end())
      sources.push_back(prediction.source);
  return sources;
}

/// The first predictions of each source, sources in turn. At most half are wrong, unless fewer
/// right ones exist.
std::vector<const Prediction*> choose_examples(const RunRecord& run, std::size_t per_source) {
  std::vector<std::vector<const Prediction*>> by_source;
  for (const std::string& source : list_sources(run.predictions)) {
    std::vector<const Prediction*> right;
    std::vector<const Prediction*> wrong;
    for (const Prediction& prediction : run.predictions) {
      if (prediction.source == source) (prediction.correct ? right : wrong).push_back(&prediction);
    }
    const std::size_t max_wrong =
        std::max(per_source / 2, per_source - std::min(per_source, right.size()));
    wrong.resize(std::min(wrong.size(), max_wrong));
    right.resize(std::min(right.size(), per_source - wrong.size()));
    std::vector<const Prediction*>& chosen = by_source.emplace_back();
    for (std::size_t i = 0; i < std::max(right.size(), wrong.size()); ++i) {
      if (i < right.size()) chosen.push_back(right[i]);
      if (i < wrong.size()) chosen.push_back(wrong[i]);
    }
  }
  std::vector<const Prediction*> examples;
  for (std::size_t i = 0; i < per_source; ++i)
    for (const auto& chosen : by_source)
      if (i < chosen.size()) examples.push_back(chosen[i]);
  return examples;
}

/// The pictures of a question; empty for one without pictures.
std::string pictures(const Prediction& prediction, ImageEmbedder& embedder) {
  if (prediction.images.empty() && prediction.pictures.value_or(0) > 0)
    return "<div class=\"pictures none\"><p>picture not kept</p></div>";
  return picture_strip(prediction.images, embedder);
}

std::string shown_answer(const std::string& answer) {
  return answer.empty() ? "<em>nothing</em>" : html(answer);
}

/// What would have been right: up to four of the accepted answers.
std::string expected_answers(const Prediction& prediction) {
  constexpr std::size_t kMaxShown = 4;
  std::vector<std::string> answers = prediction.references;
  if (answers.empty()) answers = {prediction.expected};
  std::string text;
  for (std::size_t i = 0; i < std::min(answers.size(), kMaxShown); ++i)
    text += (i == 0 ? "" : " <small>or</small> ") + shown_answer(answers[i]);
  if (answers.size() > kMaxShown) text += str(" <small>and others</small>");
  return "<dt>expected</dt><dd>" + text + "</dd>";
}

std::string card(const Prediction& prediction, ImageEmbedder& embedder) {
  const char* result = prediction.correct ? "right" : "wrong";
  std::string text =
      str("<article class=\"card prediction ", result, "\" data-result=\"", result,
          "\" data-source=\"", html(prediction.source), "\">", pictures(prediction, embedder),
          "<div class=\"words\"><div class=\"tag\"><span>", html(prediction.source), "</span>",
          "<span class=\"pill ", prediction.correct ? "good\">right" : "bad\">wrong",
          "</span></div>", "<p class=\"question\">", html(prediction.question),
          "</p><dl><dt>answer</dt>", "<dd class=\"answer\">", shown_answer(prediction.answer),
          prediction.cut ? " <small>(cut)</small>" : "", "</dd>");
  if (!prediction.correct) text += expected_answers(prediction);
  for (const auto& [metric, score] : prediction.scores)
    text += str("<dt>", html(metric), "</dt><dd>", show_score(score), "</dd>");
  if (prediction.blind_answer)
    text += str("<dt>blind</dt><dd>", shown_answer(*prediction.blind_answer), "</dd>");
  return text + "</dl></div></article>\n";
}

std::string filter(const char* group, const std::string& value, const std::string& label) {
  return str("<button data-group=\"", group, "\" data-value=\"", html(value), "\" aria-pressed=\"",
             value.empty() ? "true" : "false", "\">", html(label), "</button>");
}

}  // namespace

std::string picture_strip(const std::vector<std::string>& images, ImageEmbedder& embedder) {
  constexpr std::size_t kMaxShown = 6;
  if (images.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(images.size(), kMaxShown); ++i) {
    const Result<std::string> url = embedder.embed(images[i]);
    text += url ? str("<img loading=\"lazy\" alt=\"picture ", i + 1, " of the question\" src=\"",
                      html(url.value()), "\">")
                : str("<p>", html(url.refusal().reason), "</p>");
  }
  if (images.size() > kMaxShown) text += str("<p>and ", images.size() - kMaxShown, " more</p>");
  return "<div class=\"pictures\">" + text + "</div>";
}

std::string prediction_section(const RunRecord& run, const ReportLimits& limits,
                               ImageEmbedder& embedder) {
  std::string text = "<section id=\"predictions\"><h2>Predictions</h2>\n";
  if (run.predictions.empty()) {
    const bool missing =
        std::find(run.missing.begin(), run.missing.end(), "predictions.jsonl") != run.missing.end();
    return text +
           (missing ? missing_box("predictions.jsonl",
                                  "the last validation writes it; this run has not got "
                                  "there.")
                    : "<p class=\"missing\">The run answered no held-out question.</p>\n") +
           "</section>\n";
  }
  const std::vector<const Prediction*> examples = choose_examples(run, limits.examples_per_source);
  text += str("<p class=\"about\">", show_count(static_cast<double>(examples.size())), " of ",
              show_count(static_cast<double>(run.predictions.size())),
              " held-out questions: the first of each source, up to half of them answered wrongly. "
              "Click a picture to enlarge it.</p>\n<div class=\"filters\">",
              filter("result", "", "All"), filter("result", "right", "Right"),
              filter("result", "wrong", "Wrong"), "<span class=\"gap\"></span>",
              filter("source", "", "Every source"));
  for (const std::string& source : list_sources(run.predictions))
    text += filter("source", source, source);
  text += "</div>\n<div class=\"predictions\">\n";
  for (const Prediction* prediction : examples) text += card(*prediction, embedder);
  return text + "</div></section>\n";
}

}  // namespace tributary::app
