#include "train/validation/validate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/split_text.h"
#include "data/text/chat_template.h"
#include "model/generate.h"
#include "train/executor/gradients.h"
#include "train/executor/token_loss.h"
#include "train/validation/held_out_rounds.h"
#include "train/validation/score/answer_scores.h"
#include "train/validation/score_pairs.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kMaxAnswerTokens = 1024;                   // where no key says how many
constexpr std::size_t kMaxPictureBytes = std::size_t{512} << 20;  // kept for wrong answers

std::string trim(const std::string& text) { return std::string(trimmed(text, " \t\r\n")); }

/// The prompts of the questions as one batch without targets; without questions it is empty.
Microbatch collate_prompts(const Session& session, const std::vector<Question>& questions) {
  std::vector<data::EncodedSample> prompts;
  for (const Question& question : questions) {
    const data::HeldOutSample& held_out = question.held_out;
    prompts.push_back(
        {.id = 0,
         .source = held_out.sample.source,
         .key = held_out.sample.key,
         .tokens = held_out.prompt,
         .targets = std::vector<std::int64_t>(held_out.prompt.size(), data::kIgnoredTarget),
         .items = held_out.sample.items});
  }
  std::vector<const data::EncodedSample*> pointers;
  for (const data::EncodedSample& prompt : prompts) pointers.push_back(&prompt);
  return collate(pointers, session.model_config, session.config.model.mrope, session.device,
                 rows_taken_inline(session.model->layout(), session.lanes));
}

std::int64_t samples_asked(const Session& session, const ValidationOptions& options, int source) {
  const std::int64_t held_out = session.held_out->size(source);
  return options.samples_per_source > 0 ? std::min(options.samples_per_source, held_out) : held_out;
}

/// Max tokens of an answer, from all questions: the same on every rank.
std::int64_t find_max_new_tokens(const Session& session, const ValidationOptions& options) {
  const std::int64_t given = session.config.validation.max_new_tokens;
  if (given > 0) return given;
  std::int64_t longest = 0;
  for (int source = 0; source < std::ssize(session.sources); ++source) {
    for (std::int64_t i = 0; i < samples_asked(session, options, source); ++i) {
      const Result<std::vector<std::string>> answers = session.held_out->answers(source, i);
      if (!answers) continue;  // refused, and counted, when it is loaded
      for (const std::string& answer : answers.value())
        longest = std::max(longest, std::ssize(session.tokenizer->encode(
                                        trim(answer), data::SpecialText::kPlain)));
    }
  }
  return std::min(longest + std::max<std::int64_t>(8, longest / 4), kMaxAnswerTokens);
}

/// How the questions of this replica are answered. Questions sample by their places in the data, so
/// that answers do not depend on the number of replicas.
model::Decoding decode_as(const Session& session, const ValidationOptions& options,
                          const std::vector<Question>& questions, std::int64_t max_new_tokens) {
  constexpr int kSourceBits = 40;
  model::Decoding decoding{
      .max_new_tokens = max_new_tokens,
      .stop_tokens = {data::ChatTemplate(*session.tokenizer, {}).end_of_turn()},
      .temperature = options.temperature,
      .top_p = options.top_p,
      .seed = options.seed};
  for (const Question& question : questions)
    decoding.streams.push_back(
        static_cast<std::uint64_t>(question.position) +
        (static_cast<std::uint64_t>(question.held_out.sample.source) << kSourceBits));
  return decoding;
}

struct Answer {
  std::string text;
  std::int64_t tokens = 0;
  bool cut = false;
};

/// shape: one answer a prompt of this replica
std::vector<Answer> answer_prompts(const Session& session, const model::PackedBatch& prompts,
                                   const model::Decoding& decoding) {
  const auto decoded = model::generate(*session.model, prompts, decoding);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const std::vector<std::int64_t>& answer = decoded[i];
    const std::vector<data::TokenId> ids(answer.begin(), answer.end());
    const std::int64_t prompt = prompts.cu_seqlens[i + 1] - prompts.cu_seqlens[i];
    answers.push_back({.text = trim(session.tokenizer->decode(ids, data::SpecialTokens::kSkip)),
                       .tokens = std::ssize(answer),
                       .cut = std::ssize(answer) ==
                              model::room_behind(prompt, session.model_config.backbone, decoding)});
  }
  return answers;
}

/// A prediction on its way to all ranks.
struct Scored {
  std::int64_t position = 0;
  Prediction prediction;
  std::vector<data::PictureSize> picture_sizes;
};

std::string write_scored(const std::vector<Scored>& scored) {
  std::string message;
  for (const Scored& one : scored) {
    const Prediction& prediction = one.prediction;
    Json sizes = Json::array();
    for (const data::PictureSize& size : one.picture_sizes)
      sizes.push_back({size.height, size.width});
    Json facts{{"position", one.position},
               {"key", prediction.key},
               {"question", prediction.question},
               {"expected", prediction.expected},
               {"references", prediction.references},
               {"answer", prediction.answer},
               {"scores", prediction.scores},
               {"prompt_tokens", prediction.prompt_tokens},
               {"answer_tokens", prediction.answer_tokens},
               {"cut", prediction.cut},
               {"pictures", std::move(sizes)}};
    if (prediction.blind_answer) facts["blind"] = *prediction.blind_answer;
    data::append_facts(message, facts);
  }
  return message;
}

void take_scored(std::string_view message, int source, std::vector<Scored>& scored) {
  while (!message.empty()) {
    const Json facts = data::take_facts(message);
    Scored& one = scored.emplace_back();
    one.position = facts.at("position").get<std::int64_t>();
    one.prediction.source = source;
    one.prediction.key = facts.at("key").get<std::string>();
    one.prediction.question = facts.at("question").get<std::string>();
    one.prediction.expected = facts.at("expected").get<std::string>();
    one.prediction.references = facts.at("references").get<std::vector<std::string>>();
    one.prediction.answer = facts.at("answer").get<std::string>();
    one.prediction.scores = facts.at("scores").get<std::vector<double>>();
    one.prediction.prompt_tokens = facts.at("prompt_tokens").get<std::int64_t>();
    one.prediction.answer_tokens = facts.at("answer_tokens").get<std::int64_t>();
    one.prediction.cut = facts.at("cut").get<bool>();
    if (facts.contains("blind")) one.prediction.blind_answer = facts.at("blind").get<std::string>();
    for (const Json& size : facts.at("pictures"))
      one.picture_sizes.push_back(
          {.height = size.at(0).get<std::int64_t>(), .width = size.at(1).get<std::int64_t>()});
  }
}

/// Gathers what the replicas have scored, in the order of the source, on every rank.
std::vector<Scored> gather_scored(const mesh::Mesh& mesh, int source, std::vector<Scored> own) {
  if (!mesh.world().is_single()) {
    const std::string message = mesh.leads_replica() ? write_scored(own) : "";
    own.clear();
    for (const std::string& text : mesh.world().gather_text(message))
      take_scored(text, source, own);
  }
  std::ranges::sort(own, {}, &Scored::position);
  return own;
}

/// Decides which predictions keep their pictures: the first of each source do, and wrong ones as
/// far as number and bytes allow.
class PictureBudget {
 public:
  PictureBudget(const ValidationOptions& options, std::size_t sources)
      : options_(options), seen_(sources), wrong_(sources) {}

  /// Asked for every prediction in its order.
  bool keeps(const Scored& scored) {
    const Prediction& prediction = scored.prediction;
    const auto source = static_cast<std::size_t>(prediction.source);
    std::size_t bytes = 0;
    for (const data::PictureSize& size : scored.picture_sizes)
      bytes += static_cast<std::size_t>(3 * size.height * size.width);
    const bool is_first = seen_[source]++ < options_.pictures_per_source;
    const bool is_shown = !prediction.correct() &&
                          wrong_[source] < options_.wrong_pictures_per_source &&
                          wrong_bytes_ + bytes <= kMaxPictureBytes;
    if (bytes == 0 || !(is_first || is_shown)) return false;
    if (!prediction.correct()) {
      ++wrong_[source];
      wrong_bytes_ += bytes;
    }
    return true;
  }

 private:
  ValidationOptions options_;
  std::vector<std::int64_t> seen_;
  std::vector<std::int64_t> wrong_;
  std::size_t wrong_bytes_ = 0;
};

/// Adds the losses. A replica without questions runs an idle batch, to gather parameters with the
/// others.
void add_losses(const Session& session, const RoundPart& part, std::vector<SourceLoss>& by_source) {
  const Microbatch microbatch = collate_round(session, part);
  const at::Tensor hidden = session.model->forward(microbatch.batch);
  if (!session.model->layout().holds_head()) return;
  const model::LossSum loss =
      model::sum_loss(*session.model, hidden, microbatch.targets, microbatch.batch.cu_seqlens);
  add_by_source(loss.rows, microbatch.target_sources, by_source);
}

void zero_pixels(model::PackedBatch& batch, ForwardMedia& media) {
  for (auto& [encoder, input] : media.inputs)
    if (input.rows.defined()) input.rows.zero_();
  for (auto& [modality, own] : batch.media)
    if (own.rows.defined()) own.rows.zero_();
}

/// The prediction for a question, without the answer of a blind model.
Prediction predict(const Question& question, const Answer& answer,
                   const std::vector<std::string>& metrics) {
  const data::HeldOutSample& held_out = question.held_out;
  Prediction prediction;
  prediction.source = held_out.sample.source;
  prediction.key = held_out.sample.key;
  prediction.question = held_out.question;
  prediction.expected = trim(held_out.answer);
  for (const std::string& reference : held_out.references)
    prediction.references.push_back(trim(reference));
  prediction.answer = answer.text;
  prediction.prompt_tokens = std::ssize(held_out.prompt);
  prediction.answer_tokens = answer.tokens;
  prediction.cut = answer.cut;
  for (const std::string& metric : metrics)
    prediction.scores.push_back(score_answer(metric, prediction.answer, prediction.references));
  return prediction;
}

/// Scores and answers the questions of this rank's replica.
std::vector<Scored> score_pack(const Session& session, const ValidationOptions& options,
                               RoundPart& part, ValidationResult& result) {
  const std::vector<Question>& questions = part.questions;
  add_losses(session, part, result.loss);
  Microbatch prompts = collate_prompts(session, questions);
  prompts.batch.encode_apart = encode_apart(*session.model, session.lanes, part.media);
  const model::Decoding decoding = decode_as(session, options, questions, result.max_new_tokens);
  const std::vector<Answer> answers = answer_prompts(session, prompts.batch, decoding);
  std::vector<Answer> blind_answers;
  if (options.blind) {
    zero_pixels(prompts.batch, part.media);
    blind_answers = answer_prompts(session, prompts.batch, decoding);
  }
  std::vector<Scored> scored(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    Scored& one = scored[i];
    one.position = question.position;
    one.picture_sizes = question.picture_sizes;
    one.prediction = predict(question, answers[i], result.metrics);
    if (options.blind) one.prediction.blind_answer = blind_answers[i].text;
  }
  return scored;
}

/// Reads, scores and answers a round of all replicas; every rank learns of all predictions.
void score_round(const Session& session, const ValidationOptions& options, int source,
                 const HeldOutRound& round, PictureBudget& budget, ValidationResult& result) {
  RoundPart part = read_round(session, source, round);
  std::vector<Scored> scored =
      gather_scored(*session.mesh, source, score_pack(session, options, part, result));
  std::vector<KeptQuestion> kept;
  for (const Scored& one : scored)
    if (budget.keeps(one)) kept.push_back({.position = one.position, .sizes = one.picture_sizes});
  std::vector<std::vector<data::Picture>> pictures;
  if (!kept.empty()) pictures = collect_pictures(session.mesh->world(), kept, part);
  std::size_t next = 0;
  for (Scored& one : scored) {
    one.prediction.picture_count = std::ssize(one.picture_sizes);
    if (next < pictures.size() && kept[next].position == one.position)
      one.prediction.pictures = std::move(pictures[next++]);
    result.predictions.push_back(std::move(one.prediction));
  }
}

}  // namespace

ValidationResult validate(const Session& session, const ValidationOptions& options) {
  const at::NoGradGuard no_grad;
  const parallel::Layout& layout = session.model->layout();
  const bool compares_pairs = session.config.objective.compares_pairs();
  ValidationResult result;
  result.loss.resize(session.sources.size());
  result.metrics = session.config.validation.metrics;
  if (compares_pairs)
    result.pairs.resize(session.sources.size());
  else
    result.max_new_tokens = find_max_new_tokens(session, options);
  PictureBudget budget(options, session.sources.size());
  const int sources = static_cast<int>(session.sources.size());
  for (int source = 0; source < sources && !result.stopped; ++source) {
    const std::int64_t samples = samples_asked(session, options, source);
    const std::vector<std::int64_t> tokens = measure_held_out(session, source, samples);
    for (const HeldOutRound& round : deal_rounds(tokens, session.mesh->data_ranks(),
                                                 session.config.batch.capacity_tokens.count)) {
      result.stopped = options.should_stop && options.should_stop();
      if (result.stopped) break;
      if (compares_pairs)
        score_pairs(session, read_round(session, source, round), result.loss, result.pairs);
      else
        score_round(session, options, source, round, budget, result);
    }
    result.refused += samples;
  }
  add_over_ranks(session.mesh->world(), session.mesh->leads_stage() && layout.holds_head(),
                 result.loss, result.pairs);
  result.refused -= result.count();
  return result;
}

}  // namespace tributary::train
