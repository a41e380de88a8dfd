#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "train/flow/flow.h"

// A rank that does not read the pixels which encoders read: it takes a sample as its headers say,
// and learns from the features whether the pixels were good.
namespace tributary::train {

bool Flow::trains() const { return std::ranges::any_of(modules_, &FlowModule::trains); }

ModalitySet Flow::made_elsewhere(std::int64_t sample) {
  ModalitySet modalities;
  if (!reader_ || sample < whole_until_ || !reader_->has_producers()) return modalities;
  for (const FlowModule& module : modules_)
    if (is_planned(key_of(module, sample))) modalities |= ModalitySet(module.takes);
  return modalities;
}

bool Flow::must_read(const data::EncodedSample& sample) {
  return reader_ && std::ranges::any_of(modules_, [&](const FlowModule& module) {
           if (!lacks_rows(module, sample)) return false;
           const memory::ObjectOutlook outlook = reader_->outlook(key_of(module, sample.id));
           return !outlook.may_come ||
                  outlook.tokens.value_or(record_mark(sample)) != record_mark(sample);
         });
}

at::Tensor Flow::encode_here(const FlowModule& module, const data::EncodedSample& sample,
                             bool might_come) {
  const Stopwatch watch;
  data::EncodedSample read;
  const bool lacks = lacks_rows(module, sample);
  if (lacks) {
    try {
      read = loader_->load(sample.id);
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::kDataLimit)
        throw;  // that is told when the step begins again
    }
    is_in_vain_ = read.key != sample.key;
    if (is_in_vain_) return {};
  }
  at::Tensor features = encode_features(*model_, module, lacks ? read : sample, model_->device());
  use_.encoded_here += 1;
  use_.encoding += watch.seconds();
  if (!might_come) {
    use_.too_large += 1;
    use_.encoding_too_large += watch.seconds();
  }
  return features;
}

at::Tensor Flow::no_features(const FlowModule& module, const data::EncodedSample& sample) const {
  const std::vector<std::int64_t> rows = feature_rows(*model_, module, sample.shape());
  return at::zeros({std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                    model_->feature_width(module.name)},
                   model_->units().front()->whole_options().device(model_->device()));
}

void Flow::begin_again(std::int64_t first_index) {
  whole_until_ = first_index + config_.batch.global_samples;
  is_in_vain_ = false;
  waits_ = true;
  kept_.clear();
  use_.repeated = controller_ ? 1 : 0;
}

}  // namespace tributary::train
