#pragma once

#include <span>
#include <string>
#include <vector>

namespace tributary::train {

// How good an answer is, from 0 to 1, beside the references of its question: any of them is a good
// answer. Each equals the published program that its comment names, to the last bit but rounding.

/// Overlap of words, as the harmonic mean of precision and recall, with the best reference. Case,
/// punctuation and English articles do not count.
/// source: Rajpurkar 2016 (SQuAD), its evaluation script; `compute_f1` of transformers
[[nodiscard]] double token_f1(const std::string& answer, std::span<const std::string> references);

/// 1 - edits / length of the longer text, with the best reference; 0 below a half. Case and white
/// space do not count.
/// source: Mathew 2021 (DocVQA), its evaluation script; `anls` of lmms-eval
[[nodiscard]] double anls(const std::string& answer, std::span<const std::string> references);

/// Longest common subsequence of words as the harmonic mean of precision and recall, with the best
/// reference. Words are runs of a-z and 0-9 in lower case, without stemming.
/// source: Lin 2004 (ROUGE), "ROUGE-L"; rouge_score
[[nodiscard]] double rouge_l(const std::string& answer, std::span<const std::string> references);

/// min(equal references / 3, 1), as the mean over leaving out one reference at a time. Punctuation,
/// articles, numbers as words and contractions are brought to one form. VQAv2 has ten references; a
/// single one stands for ten that agree.
/// source: Goyal 2017 (VQAv2), its evaluation script; `EvalAIAnswerProcessor` of lmms-eval
[[nodiscard]] double vqa_accuracy(const std::string& answer,
                                  std::span<const std::string> references);

/// The score of that name in config::kAnswerScores.
/// shape: references [>= 1]
[[nodiscard]] double score_answer(const std::string& score, const std::string& answer,
                                  std::span<const std::string> references);

}  // namespace tributary::train
