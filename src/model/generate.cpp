#include "model/generate.h"

#include <algorithm>
#include <numeric>
#include <span>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/random.h"
#include "model/kv_cache.h"

namespace tributary::model {
namespace {

void require_sound(const Decoding& decoding) {
  TRIB_REQUIRE(decoding.max_new_tokens > 0, .what = "model: answers need room",
               .found = str("max_new_tokens ", decoding.max_new_tokens), .expected = "1 or more");
  TRIB_REQUIRE(decoding.temperature >= 0 && decoding.temperature <= 100,
               .what = "model: temperature out of range",
               .found = str("temperature ", decoding.temperature), .expected = "0 (greedy) to 100");
  TRIB_REQUIRE(decoding.top_p > 0 && decoding.top_p <= 1, .what = "model: top_p out of range",
               .found = str("top_p ", decoding.top_p), .expected = "above 0, at most 1");
}

/// Draws from the smallest set of the most probable tokens that reaches top_p.
/// shape: logits [vocab] f32 on the CPU
std::int64_t draw_token(const at::Tensor& logits, const Decoding& decoding, RandomStream stream) {
  const at::Tensor shares =
      at::softmax(logits.to(at::kDouble) / decoding.temperature, -1).contiguous();
  const double* share = shares.const_data_ptr<double>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(shares.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return share[a] > share[b]; });
  double kept = 0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept < decoding.top_p))
    kept += share[order[count++]];
  double left = stream.uniform() * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= share[order[i]];
    if (left < 0) return order[i];
  }
  return order[count - 1];
}

/// An answer that is still being decoded.
struct OpenAnswer {
  std::int64_t replica = 0;
  std::size_t sample = 0;  // of the replica's prompts
  std::int64_t room = 0;   // tokens at most
};

/// Sets how many tokens each answer may have.
/// collective: over all ranks where a dynamic rope ends
void give_room(std::vector<OpenAnswer>& open, const Model& model,
               std::span<const std::int32_t> cu_seqlens, const Decoding& decoding) {
  const config::BackboneConfig& backbone = model.config().backbone;
  const mesh::Mesh& mesh = *model.layout().mesh;
  std::vector<std::int64_t> prompts(open.size());
  for (std::size_t i = 0; i < open.size(); ++i)
    if (mesh.leads_replica() && open[i].replica == mesh.data_index())
      prompts[i] = cu_seqlens[open[i].sample + 1] - cu_seqlens[open[i].sample];
  if (backbone.max_tokens()) prompts = mesh.world().sum(std::move(prompts));
  for (std::size_t i = 0; i < open.size(); ++i)
    open[i].room = room_behind(prompts[i], backbone, decoding);
}

/// Answers of all replicas, in their order.
/// collective: over all ranks
std::vector<OpenAnswer> open_answers(const mesh::Mesh& mesh, std::size_t prompts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(mesh.data_ranks()));
  if (mesh.leads_replica())
    counts[static_cast<std::size_t>(mesh.data_index())] = static_cast<std::int64_t>(prompts);
  counts = mesh.world().sum(std::move(counts));
  std::vector<OpenAnswer> open;
  for (std::int64_t replica = 0; replica < mesh.data_ranks(); ++replica)
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(replica)]; ++i)
      open.push_back({.replica = replica, .sample = static_cast<std::size_t>(i)});
  return open;
}

std::vector<std::size_t> samples_of(const std::vector<OpenAnswer>& open, std::int64_t replica) {
  std::vector<std::size_t> samples;
  for (const OpenAnswer& answer : open)
    if (answer.replica == replica) samples.push_back(answer.sample);
  return samples;
}

/// A prompt of one token, for a rank that only keeps in step with the others.
PackedBatch idle_prompt(const PackedBatch& none) {
  PackedBatch prompt;
  prompt.encode_apart = none.encode_apart;
  prompt.input_ids = at::zeros({1}, at::kLong);
  prompt.position_ids = at::zeros({3, 1}, at::kLong);
  prompt.cu_seqlens = {0, 1};
  return prompt;
}

/// shape: hidden [samples, width], one idle row without samples -> returns one token a sample
std::vector<std::int64_t> choose_tokens(Model& model, const at::Tensor& hidden,
                                        const std::vector<std::size_t>& samples, std::int64_t step,
                                        const Decoding& decoding) {
  if (!model.layout().holds_head()) return std::vector<std::int64_t>(samples.size());
  const at::Tensor logits = model.head(hidden).to(at::kFloat);
  if (decoding.temperature == 0) {
    const at::Tensor best = at::argmax(logits, -1).to(at::kCPU).contiguous();
    return {best.const_data_ptr<std::int64_t>(),
            best.const_data_ptr<std::int64_t>() + samples.size()};
  }
  const at::Tensor host = logits.to(at::kCPU);
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::uint64_t stream =
        decoding.streams.empty() ? samples[i] : decoding.streams.at(samples[i]);
    tokens.push_back(draw_token(
        host.select(0, static_cast<std::int64_t>(i)), decoding,
        RandomStream(decoding.seed, "generate", stream, static_cast<std::uint64_t>(step))));
  }
  return tokens;
}

/// Tells every rank the tokens of all replicas: the number of steps depends on them, and two
/// machines may round two equal scores differently.
/// shape: own [open answers of this replica] -> returns [open]
std::vector<std::int64_t> share_tokens(const parallel::Layout& layout,
                                       const std::vector<OpenAnswer>& open,
                                       const std::vector<std::int64_t>& own) {
  const mesh::Mesh& mesh = *layout.mesh;
  if (mesh.world().is_single()) return own;
  std::vector<std::int64_t> tokens(open.size());
  const bool decides = layout.holds_head() && mesh.leads_stage();
  auto next = own.begin();
  for (std::size_t i = 0; decides && i < open.size(); ++i)
    if (open[i].replica == mesh.data_index()) tokens[i] = *next++;
  return mesh.world().sum(std::move(tokens));
}

}  // namespace

std::int64_t room_behind(std::int64_t prompt_tokens, const config::BackboneConfig& backbone,
                         const Decoding& decoding) {
  if (!backbone.max_tokens()) return decoding.max_new_tokens;
  const std::int64_t left = *backbone.max_tokens() - prompt_tokens;
  return std::clamp<std::int64_t>(left, 1, decoding.max_new_tokens);
}

std::vector<std::vector<std::int64_t>> generate(Model& model, const PackedBatch& prompts,
                                                const Decoding& decoding, const OnToken& on_token) {
  require_sound(decoding);
  const at::NoGradGuard no_grad;
  const parallel::Layout& layout = model.layout();
  const parallel::TokensWhole tokens_whole(layout);
  const std::int64_t replica = layout.mesh->data_index();
  std::vector<std::vector<std::int64_t>> answers(prompts.cu_seqlens.size() - 1);
  std::vector<OpenAnswer> open = open_answers(*layout.mesh, answers.size());
  if (open.empty()) return answers;
  give_room(open, model, prompts.cu_seqlens, decoding);

  KvCache cache(decoding.max_new_tokens);
  at::Tensor hidden = model.prefill(answers.empty() ? idle_prompt(prompts) : prompts, cache);
  for (std::int64_t step = 0;; ++step) {
    const std::vector<std::int64_t> tokens = share_tokens(
        layout, open, choose_tokens(model, hidden, samples_of(open, replica), step, decoding));
    std::vector<OpenAnswer> still_open;
    std::vector<std::int64_t> kept_rows;  // of the cache
    std::vector<std::int64_t> new_tokens;
    std::int64_t row = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool is_own = open[i].replica == replica;
      const std::int64_t own_row = is_own ? row++ : -1;
      const bool stops = std::find(decoding.stop_tokens.begin(), decoding.stop_tokens.end(),
                                   tokens[i]) != decoding.stop_tokens.end();
      if (stops) continue;
      if (is_own) answers[open[i].sample].push_back(tokens[i]);
      if (is_own && on_token && !on_token(open[i].sample, tokens[i])) continue;
      if (step + 1 == open[i].room) continue;
      still_open.push_back(open[i]);
      if (!is_own) continue;
      kept_rows.push_back(own_row);
      new_tokens.push_back(tokens[i]);
    }
    if (still_open.empty()) return answers;
    if (kept_rows.empty()) kept_rows = new_tokens = {0};  // goes on idle, in step with the others
    if (std::ssize(kept_rows) < cache.samples()) cache.keep(kept_rows);
    open = std::move(still_open);
    hidden = model.decode(at::tensor(new_tokens, at::kLong), cache);
  }
}

}  // namespace tributary::model
