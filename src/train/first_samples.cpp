#include "train/first_samples.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file/file_system.h"
#include "core/text.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kOfSource = 2;
constexpr std::size_t kMax = 12;
constexpr std::size_t kMaxRepeats = 4;                           // that are not folded
constexpr std::size_t kMaxPictureBytes = std::size_t{32} << 20;  // of all, decoded

/// The first samples of each source.
std::vector<const data::EncodedSample*> choose_samples(std::span<const data::EncodedSample> samples,
                                                       std::size_t sources) {
  std::vector<std::int64_t> taken(sources);
  std::vector<const data::EncodedSample*> chosen;
  for (const data::EncodedSample& sample : samples)
    if (chosen.size() < kMax && taken[static_cast<std::size_t>(sample.source)]++ < kOfSource)
      chosen.push_back(&sample);
  return chosen;
}

/// Writes the pictures of a sample as far as there are bytes left. Returns their names.
Json write_pictures(const RunDirectory& run, const std::vector<data::Picture>& pictures,
                    std::size_t number, std::size_t& bytes_left) {
  Json names = Json::array();
  for (std::size_t i = 0; i < pictures.size() && pictures[i].rgb.size() <= bytes_left; ++i) {
    bytes_left -= pictures[i].rgb.size();
    names.push_back(str("samples/", number, "-", i, ".png"));
    write_run_picture(run, names.back().get<std::string>(), pictures[i]);
  }
  return names;
}

}  // namespace

Json describe_tokens(const data::Tokenizer& tokenizer, const data::EncodedSample& sample) {
  Json pieces = Json::array();
  data::StreamDecoder decoder(tokenizer, data::SpecialTokens::kKeep);
  const std::vector<std::int32_t>& tokens = sample.tokens;
  for (std::size_t i = 0; i < tokens.size();) {
    // A position's target is the next token, so a token is one if the position before learns it.
    const bool is_target = i > 0 && sample.targets[i - 1] != data::kIgnoredTarget;
    std::size_t end = i + 1;
    while (end < tokens.size() && tokens[end] == tokens[i] &&
           (sample.targets[end - 1] != data::kIgnoredTarget) == is_target)
      ++end;
    const bool is_folded = end - i > kMaxRepeats;
    if (is_folded || pieces.empty() || pieces.back().contains("repeats") ||
        pieces.back()["target"] != is_target)
      pieces.push_back({{"target", is_target}, {"tokens", Json::array()}});
    if (is_folded) {
      pieces.back()["repeats"] = end - i;
      pieces.back()["tokens"].push_back(decoder.push(tokens[i]));
    } else {
      for (std::size_t k = i; k < end; ++k)
        pieces.back()["tokens"].push_back(decoder.push(tokens[k]));
    }
    i = end;
  }
  if (const std::string rest = decoder.finish(); !rest.empty())
    pieces.back()["tokens"].back() = rest;
  return pieces;
}

void write_first_samples(const RunDirectory& run, const Session& session,
                         std::span<const data::EncodedSample> samples) {
  const auto chosen = choose_samples(samples, session.sources.size());
  make_directories(real_file_system(), run.file("samples"));
  std::size_t bytes_left = kMaxPictureBytes;
  std::string lines;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const data::EncodedSample& sample = *chosen[i];
    const SampleShape shape = sample.shape();
    Json line{{"step", 1},
              {"source", session.sources[static_cast<std::size_t>(sample.source)]},
              {"key", sample.key},
              {"tokens", shape.tokens.count},
              {"target_tokens", shape.target_tokens.count},
              {"pieces", describe_tokens(*session.tokenizer, sample)}};
    line["images"] = write_pictures(run, session.loader->pictures(sample.id), i, bytes_left);
    lines += line.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
  }
  write_run_file(run, "samples.jsonl", lines);
}

}  // namespace tributary::train
