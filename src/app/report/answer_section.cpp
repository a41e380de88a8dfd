#include <algorithm>
#include <map>
#include <set>

#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

constexpr std::size_t kMaxColumns = 8;

/// A question with its answers by the step of the validation.
struct Followed {
  const Prediction* question = nullptr;
  std::map<std::int64_t, const Prediction*> answers;
};

/// The steps that get a column: the first, the last, and some between at equal distances.
std::vector<std::int64_t> choose_steps(const std::set<std::int64_t>& steps) {
  std::vector<std::int64_t> all(steps.begin(), steps.end());
  if (all.size() <= kMaxColumns) return all;
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < kMaxColumns; ++i)
    chosen.push_back(all[i * (all.size() - 1) / (kMaxColumns - 1)]);
  return chosen;
}

/// The first picture of a question, from the predictions of the last validation.
std::string thumbnail(const RunRecord& run, const Prediction& question, ImageEmbedder& embedder) {
  const auto kept = std::ranges::find_if(run.predictions, [&](const Prediction& each) {
    return each.key == question.key && each.source == question.source && !each.images.empty();
  });
  if (kept == run.predictions.end()) return "";
  const Result<std::string> url = embedder.embed(kept->images.front());
  if (!url) return "";
  return str("<div class=\"pictures\"><img loading=\"lazy\" alt=\"picture of the question\" src=\"",
             html(url.value()), "\"></div>");
}

std::string answer_cell(const Prediction* answer) {
  if (answer == nullptr) return "<td>–</td>";
  const std::string text = answer->answer.empty() ? "<em>nothing</em>" : html(answer->answer);
  return str("<td class=\"", answer->correct ? "right" : "wrong", "\"><div>", text,
             answer->cut ? " <small>(cut)</small>" : "", "</div></td>");
}

std::string question_row(const RunRecord& run, const Followed& followed,
                         const std::vector<std::int64_t>& steps, ImageEmbedder& embedder) {
  const Prediction& question = *followed.question;
  std::string row =
      str("<tr><td class=\"question\"><div>", thumbnail(run, question, embedder), "<div><small>",
          html(question.source), "</small><p>", html(question.question),
          "</p></div></div></td><td><div>", html(question.expected), "</div></td>");
  for (const std::int64_t step : steps) {
    const auto answer = followed.answers.find(step);
    row += answer_cell(answer == followed.answers.end() ? nullptr : answer->second);
  }
  return row + "</tr>\n";
}

}  // namespace

std::string answer_section(const RunRecord& run, const ReportLimits& limits,
                           ImageEmbedder& embedder) {
  std::string text =
      "<section id=\"answers\"><h2>Answers</h2>\n<p class=\"about\">The same held-out questions at "
      "successive validations: how the answers change while the model learns.</p>\n";
  if (run.answers.empty())
    return text + missing_box("validation_answers.jsonl", "the run was not validated on the way.") +
           "</section>\n";
  std::vector<Followed> questions;
  std::set<std::int64_t> steps;
  std::map<std::string, std::size_t> of_source;
  for (const FollowedAnswer& answer : run.answers) {
    steps.insert(answer.step);
    const Prediction& prediction = answer.prediction;
    auto known = std::ranges::find_if(questions, [&](const Followed& each) {
      return each.question->key == prediction.key && each.question->source == prediction.source;
    });
    if (known == questions.end()) {
      if (of_source[prediction.source]++ >= limits.examples_per_source) continue;
      known = questions.insert(questions.end(), {.question = &prediction, .answers = {}});
    }
    known->answers[answer.step] = &prediction;
  }
  const std::vector<std::int64_t> chosen = choose_steps(steps);
  text += "<div class=\"card scroll\"><table><tr><th>question</th><th>expected</th>";
  for (const std::int64_t step : chosen)
    text += str("<th>step ", show_count(static_cast<double>(step)), "</th>");
  text += "</tr>\n";
  for (const Followed& question : questions) text += question_row(run, question, chosen, embedder);
  return text + "</table></div></section>\n";
}

}  // namespace tributary::app
