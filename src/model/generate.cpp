#include "model/generate.h"

#include <algorithm>
#include <numeric>

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

/// Draws from the least set of most probable tokens that reaches top_p.
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

/// shape: hidden [samples, width] -> returns one token a sample
std::vector<std::int64_t> choose_tokens(Model& model, const at::Tensor& hidden,
                                        const std::vector<std::size_t>& samples, std::int64_t step,
                                        const Decoding& decoding) {
  if (!model.layout().holds_head()) return std::vector<std::int64_t>(samples.size());
  const at::Tensor logits = model.head(hidden).to(at::kFloat);
  if (decoding.temperature == 0) {
    const at::Tensor best = at::argmax(logits, -1).to(at::kCPU).contiguous();
    return {best.const_data_ptr<std::int64_t>(),
            best.const_data_ptr<std::int64_t>() + best.numel()};
  }
  const at::Tensor host = logits.to(at::kCPU);
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < samples.size(); ++i)
    tokens.push_back(draw_token(
        host.select(0, static_cast<std::int64_t>(i)), decoding,
        RandomStream(decoding.seed, "generate", samples[i], static_cast<std::uint64_t>(step))));
  return tokens;
}

/// Every rank goes on with the same tokens: how many steps follow depends on them, and two machines
/// may round two equal scores differently.
std::vector<std::int64_t> tokens_of_one_rank(const parallel::Layout& layout,
                                             std::vector<std::int64_t> tokens) {
  const mesh::Mesh& mesh = *layout.mesh;
  if (mesh.world().is_single()) return tokens;
  const bool decides = layout.holds_head() && mesh.data_index() == 0 && mesh.leads_stage();
  if (!decides) std::ranges::fill(tokens, 0);
  return mesh.world().sum(std::move(tokens));
}

}  // namespace

std::vector<std::vector<std::int64_t>> generate(Model& model, const PackedBatch& prompts,
                                                const Decoding& decoding, const OnToken& on_token) {
  require_sound(decoding);
  const at::NoGradGuard no_grad;
  const parallel::TokensWhole tokens_whole(model.layout());
  const std::size_t count = prompts.cu_seqlens.size() - 1;
  std::vector<std::vector<std::int64_t>> answers(count);
  std::vector<std::size_t> samples(count);  // those still being answered, as in the cache
  std::iota(samples.begin(), samples.end(), std::size_t{0});

  KvCache cache(decoding.max_new_tokens);
  at::Tensor hidden = model.prefill(prompts, cache);
  for (std::int64_t step = 0;; ++step) {
    const std::vector<std::int64_t> tokens =
        tokens_of_one_rank(model.layout(), choose_tokens(model, hidden, samples, step, decoding));
    std::vector<std::int64_t> going_on;  // rows of the cache
    std::vector<std::int64_t> new_tokens;
    std::vector<std::size_t> next_samples;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool stops = std::find(decoding.stop_tokens.begin(), decoding.stop_tokens.end(),
                                   tokens[i]) != decoding.stop_tokens.end();
      if (stops) continue;
      answers[samples[i]].push_back(tokens[i]);
      if (on_token) on_token(samples[i], tokens[i]);
      going_on.push_back(static_cast<std::int64_t>(i));
      new_tokens.push_back(tokens[i]);
      next_samples.push_back(samples[i]);
    }
    if (going_on.empty() || step + 1 == decoding.max_new_tokens) return answers;
    if (going_on.size() < samples.size())
      cache.keep(at::tensor(going_on, at::kLong).to(prompts.input_ids.device()));
    samples = std::move(next_samples);
    hidden = model.decode(at::tensor(new_tokens, at::kLong).to(prompts.input_ids.device()), cache);
  }
}

}  // namespace tributary::model
