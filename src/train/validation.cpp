#include "train/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/generate.h"
#include "train/collate.h"
#include "train/gradients.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kMostAnswerTokens = 1024;                   // where no key says how many
constexpr std::size_t kMostPictureBytes = std::size_t{512} << 20;  // kept for wrong answers

/// A held-out sample and the source that it is of.
struct Question {
  int source = 0;
  data::HeldOutSample held_out;
};

std::string trim(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

double share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// The prompts of the questions as one batch without targets.
Microbatch collate_prompts(const Session& session, const std::vector<Question>& questions) {
  std::vector<data::EncodedSample> prompts;
  for (const Question& question : questions) {
    const data::HeldOutSample& held_out = question.held_out;
    prompts.push_back(
        {.id = 0,
         .source = question.source,
         .key = held_out.sample.key,
         .tokens = held_out.prompt,
         .targets = std::vector<std::int64_t>(held_out.prompt.size(), data::kIgnoredTarget),
         .items = held_out.sample.items});
  }
  std::vector<const data::EncodedSample*> pointers;
  for (const data::EncodedSample& prompt : prompts) pointers.push_back(&prompt);
  return collate(pointers, session.model_config, session.config.model.mrope, session.device);
}

std::int64_t samples_asked(const Session& session, const ValidationOptions& options, int source) {
  const std::int64_t held_out = session.held_out->size(source);
  return options.samples_per_source > 0 ? std::min(options.samples_per_source, held_out) : held_out;
}

/// Most tokens of an answer, from all that is asked: the same on every rank.
std::int64_t find_max_new_tokens(const Session& session, const ValidationOptions& options) {
  const std::int64_t given = session.config.validation.max_new_tokens;
  if (given > 0) return given;
  std::int64_t longest = 0;
  for (int source = 0; source < std::ssize(session.sources); ++source) {
    for (std::int64_t i = 0; i < samples_asked(session, options, source); ++i) {
      const Result<std::string> answer = session.held_out->answer(source, i);
      if (!answer) continue;  // refused, and counted, when it is loaded
      longest = std::max(longest, std::ssize(session.tokenizer->encode(trim(answer.value()),
                                                                       data::SpecialText::kPlain)));
    }
  }
  return std::min(longest + std::max<std::int64_t>(8, longest / 4), kMostAnswerTokens);
}

struct Answer {
  std::string text;
  bool cut = false;
};

std::vector<Answer> answer_prompts(const Session& session, const model::PackedBatch& prompts,
                                   std::int64_t max_new_tokens) {
  const auto decoded = model::generate(
      *session.model, prompts,
      {.max_new_tokens = max_new_tokens, .stop_tokens = {session.tokenizer->id_of("<|im_end|>")}});
  std::vector<Answer> answers;
  for (const std::vector<std::int64_t>& answer : decoded) {
    const std::vector<data::TokenId> ids(answer.begin(), answer.end());
    answers.push_back({.text = trim(session.tokenizer->decode(ids, data::SpecialTokens::kSkip)),
                       .cut = std::ssize(answer) == max_new_tokens});
  }
  return answers;
}

std::size_t bytes_of(const std::vector<data::Picture>& pictures) {
  std::size_t bytes = 0;
  for (const data::Picture& picture : pictures) bytes += picture.rgb.size();
  return bytes;
}

/// Whether the next prediction keeps its pictures: the first of its source do, and wrong ones as
/// far as number and bytes allow.
bool keeps_pictures(const Prediction& prediction, std::size_t bytes,
                    const ValidationOptions& options, const ValidationResult& result) {
  if (result.count(prediction.source) < options.pictures_per_source) return true;
  if (prediction.correct()) return false;
  std::int64_t wrong = 0;
  for (const Prediction& earlier : result.predictions) {
    if (earlier.correct() || earlier.pictures.empty()) continue;
    bytes += bytes_of(earlier.pictures);
    wrong += earlier.source == prediction.source ? 1 : 0;
  }
  return wrong < options.wrong_pictures_per_source && bytes <= kMostPictureBytes;
}

void add_losses(const Session& session, const std::vector<Question>& questions,
                std::vector<SourceLoss>& by_source) {
  std::vector<const data::EncodedSample*> samples;
  for (const Question& question : questions) samples.push_back(&question.held_out.sample);
  const Microbatch microbatch =
      collate(samples, session.model_config, session.config.model.mrope, session.device);
  if (microbatch.target_sources.empty()) return;
  const at::Tensor hidden = session.model->forward(microbatch.batch);
  if (!session.model->layout().holds_head()) return;
  const model::LossSum loss =
      model::sum_loss(*session.model, hidden, microbatch.targets, microbatch.batch.cu_seqlens);
  add_by_source(loss.rows, microbatch.target_sources, by_source);
}

/// Every replica has computed the same losses, on the ranks that hold the head.
void share_losses(const model::Model& model, std::vector<SourceLoss>& by_source) {
  const mesh::Mesh& mesh = *model.layout().mesh;
  if (mesh.shape().pp == 1) return;
  const bool counts = model.layout().holds_head() && mesh.data_index() == 0 && mesh.leads_stage();
  add_over_ranks(mesh.world(), counts, by_source);
}

void zero_pixels(model::PackedBatch& batch) {
  if (batch.pixel_values.defined()) batch.pixel_values.zero_();
  if (batch.pixel_values_videos.defined()) batch.pixel_values_videos.zero_();
}

/// Scores and answers the questions of one pack.
void score_pack(const Session& session, const ValidationOptions& options,
                std::vector<Question>& questions, ValidationResult& result) {
  add_losses(session, questions, result.loss);
  Microbatch prompts = collate_prompts(session, questions);
  const std::vector<Answer> answers = answer_prompts(session, prompts.batch, result.max_new_tokens);
  std::vector<Answer> blind_answers;
  if (options.blind) {
    zero_pixels(prompts.batch);
    blind_answers = answer_prompts(session, prompts.batch, result.max_new_tokens);
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    Question& question = questions[i];
    Prediction prediction{.source = question.source,
                          .question = question.held_out.question,
                          .expected = trim(question.held_out.answer),
                          .answer = answers[i].text,
                          .cut = answers[i].cut,
                          .blind_answer = {},
                          .picture_count = std::ssize(question.held_out.pictures),
                          .pictures = {}};
    if (options.blind) prediction.blind_answer = blind_answers[i].text;
    if (keeps_pictures(prediction, bytes_of(question.held_out.pictures), options, result))
      prediction.pictures = std::move(question.held_out.pictures);
    result.predictions.push_back(std::move(prediction));
  }
  questions.clear();
}

}  // namespace

std::int64_t ValidationResult::count(int source) const {
  return std::count_if(predictions.begin(), predictions.end(),
                       [&](const Prediction& p) { return source < 0 || p.source == source; });
}

std::int64_t ValidationResult::count_cut() const {
  return std::ranges::count_if(predictions, &Prediction::cut);
}

double ValidationResult::mean_loss() const {
  SourceLoss all;
  for (const SourceLoss& one : loss) all += one;
  return all.targets == 0 ? std::numeric_limits<double>::quiet_NaN() : all.mean();
}

double ValidationResult::accuracy(int source) const {
  const auto right = std::count_if(
      predictions.begin(), predictions.end(),
      [&](const Prediction& p) { return (source < 0 || p.source == source) && p.correct(); });
  return share(right, count(source));
}

double ValidationResult::blind_accuracy(int source) const {
  const auto right = std::count_if(
      predictions.begin(), predictions.end(),
      [&](const Prediction& p) { return (source < 0 || p.source == source) && p.blind_correct(); });
  return share(right, count(source));
}

ValidationResult validate(const Session& session, const ValidationOptions& options) {
  const at::NoGradGuard no_grad;
  ValidationResult result;
  result.loss.resize(session.sources.size());
  result.max_new_tokens = find_max_new_tokens(session, options);
  const std::int64_t capacity = session.config.batch.capacity_tokens.count;
  const int sources = static_cast<int>(session.sources.size());
  for (int source = 0; source < sources && !result.stopped; ++source) {
    const std::int64_t samples = samples_asked(session, options, source);
    std::vector<Question> pack;
    std::int64_t tokens = 0;
    for (std::int64_t position = 0; position < samples && !result.stopped; ++position) {
      Result<data::HeldOutSample> loaded = session.held_out->load(source, position);
      if (!loaded) {
        ++result.refused;
        continue;
      }
      Question question{source, std::move(loaded).value()};
      question.held_out.sample.source = source;
      const auto size = static_cast<std::int64_t>(question.held_out.sample.tokens.size());
      if (!pack.empty() && tokens + size > capacity) {
        score_pack(session, options, pack, result);
        tokens = 0;
        result.stopped = options.should_stop && options.should_stop();
      }
      tokens += size;
      pack.push_back(std::move(question));
    }
    if (!pack.empty()) score_pack(session, options, pack, result);
  }
  share_losses(*session.model, result.loss);
  return result;
}

Json to_json(const ValidationResult& result, std::int64_t step,
             const std::vector<std::string>& sources) {
  const auto finite = [](double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  };
  Json line{{"step", step},
            {"loss", finite(result.mean_loss())},
            {"loss_by_source", Json::object()},
            {"accuracy", {{"overall", finite(result.accuracy())}}},
            {"samples", Json::object()},
            {"refused", result.refused},
            {"cut", result.count_cut()},
            {"max_new_tokens", result.max_new_tokens}};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const int source = static_cast<int>(i);
    if (result.loss[i].targets > 0)
      line["loss_by_source"][sources[i]] = finite(result.loss[i].mean());
    if (result.count(source) == 0) continue;
    line["accuracy"][sources[i]] = result.accuracy(source);
    line["samples"][sources[i]] = result.count(source);
  }
  return line;
}

std::string describe(const ValidationResult& result) {
  std::array<char, 100> line{};
  std::snprintf(line.data(), line.size(), "loss %.4f, exact match %.1f %% of %zu",
                result.mean_loss(), 100 * result.accuracy(), result.predictions.size());
  std::string text = line.data();
  if (result.count_cut() > 0)
    text +=
        str("; ", result.count_cut(), " of ", result.predictions.size(), " answers were cut at ",
            result.max_new_tokens, " tokens (validation.max_new_tokens)");
  return text;
}

std::string draw_table(const ValidationResult& result, const std::vector<std::string>& sources) {
  std::size_t width = std::string("overall").size();
  for (const std::string& source : sources) width = std::max(width, source.size());
  const bool blind = !result.predictions.empty() && result.predictions.front().blind_answer;
  std::string table;
  const auto add = [&](const std::string& name, int source) {
    std::array<char, 200> line{};
    const long count = static_cast<long>(result.count(source));
    std::snprintf(line.data(), line.size(), "%-*s  %7ld  %9.1f %%", static_cast<int>(width),
                  name.c_str(), count, 100 * result.accuracy(source));
    table += line.data();
    if (blind) {
      std::snprintf(line.data(), line.size(), "  %9.1f %%", 100 * result.blind_accuracy(source));
      table += line.data();
    }
    table += "\n";
  };
  table += std::string("source") + std::string(width - 4, ' ') + "samples  exact match" +
           (blind ? "  without pixels" : "") + "\n";
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (result.count(static_cast<int>(i)) > 0) add(sources[i], static_cast<int>(i));
  add("overall", -1);
  return table;
}

}  // namespace tributary::train
