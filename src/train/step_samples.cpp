#include "train/step_samples.h"

#include "core/error.h"

namespace tributary::train {
namespace {

std::vector<Tokens> lengths_of(const std::vector<SampleShape>& shapes) {
  std::vector<Tokens> lengths;
  for (const SampleShape& shape : shapes) lengths.push_back(shape.tokens);
  return lengths;
}

}  // namespace

StepSamples take_samples(const Session& session) {
  data::Loader& loader = *session.loader;
  StepSamples taken{.samples = {}, .left_out = 0, .refusal = {}, .before = loader.state()};
  const std::int64_t left_out = loader.left_out();
  try {
    taken.samples = loader.next_batch();
    taken.left_out = loader.left_out() - left_out;
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kDataLimit) throw;
    taken.refusal = error.what();
  }
  return taken;
}

std::string give_back(const Session& session, const StepSamples& taken) {
  session.loader->restore(taken.before);
  for (std::string& text : session.mesh->world().gather_text(taken.refusal))
    if (!text.empty()) return std::move(text);
  return {};
}

OwnPart take_part(const Session& session, std::int64_t first_index,
                  const std::vector<SampleShape>& shapes) {
  const config::BatchSection& batch = session.config.batch;
  OwnPart own;
  own.balance.replicas = session.mesh->data_ranks();
  if (session.planner) {
    PlannedStep planned = session.planner->take(first_index);
    const data::DealSeconds seconds = session.loader->deal_seconds();
    own.plan = planned.fingerprint;
    own.microbatches = std::move(planned.microbatches);
    own.balance.gap = planned.gap;
    own.predicted = std::move(planned.predicted);
    own.balance.planning = seconds.describing + seconds.dealing;
    own.balance.exposed = seconds.waited;
    if (planned.shapes == shapes) return own;
    own.balance.repacked = 1;
  }
  own.microbatches = schedule::pack(batch.packing, lengths_of(shapes), batch.capacity_tokens);
  return own;
}

}  // namespace tributary::train
