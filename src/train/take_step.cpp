#include "train/take_step.h"

#include <map>
#include <tuple>

#include "core/error.h"
#include "data/loader/sample_bytes.h"
#include "schedule/pack.h"
#include "train/balance/rank_load.h"

namespace tributary::train {
namespace {

/// Draws the samples. Data beyond a limit are a refusal, which ends the step on all ranks
/// (BatchResult::refused).
///
/// errors: as Loader::next_batch, but for ExitCode::kDataLimit
void draw_samples(data::Loader& loader, TakenStep& taken) {
  taken.first_index = loader.next_index();
  taken.before = loader.state();
  const std::int64_t left_out = loader.left_out();
  try {
    taken.samples = loader.next_batch();
    taken.left_out = loader.left_out() - left_out;
    taken.media_decoded = loader.media_decoded();
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kDataLimit) throw;
    taken.refusal = error.what();
  }
}

/// The samples of a batch whose shapes are not those that were planned, in place of bad ones. The
/// first rank of each replica tells of its own, unless its data refuse the step.
/// collective: over all ranks
std::map<std::int32_t, SampleShape> gather_changes(const Session& session, const TakenStep& taken,
                                                   const DealtMedia& planned) {
  std::string own;
  const bool tells = session.mesh->leads_replica() && taken.refusal.empty();
  for (std::size_t i = 0; tells && i < taken.samples.size(); ++i) {
    const auto place = static_cast<std::size_t>(taken.samples[i].id - taken.first_index);
    if (planned.shapes[place] != taken.shapes[i])
      data::append_sample(own, taken.samples[i], /*with_rows=*/{});
  }
  std::map<std::int32_t, SampleShape> changes;
  for (const std::string& message : session.mesh->world().gather_text(own)) {
    std::string_view left = message;
    while (!left.empty()) {
      const data::EncodedSample sample = data::take_sample(left);
      changes.emplace(static_cast<std::int32_t>(sample.id - taken.first_index), sample.shape());
    }
  }
  return changes;
}

void list_shapes(TakenStep& taken) {
  for (const data::EncodedSample& sample : taken.samples) taken.shapes.push_back(sample.shape());
}

/// Sets apart what this rank encodes from the samples of its replica.
void take_media(const Session& session, const DealtMedia& planned, TakenStep& taken) {
  TakenSamples parts = part_samples(std::move(taken.samples), taken.first_index, planned.replica_of,
                                    session.mesh->data_index(), session.lanes.taken_apart());
  taken.samples = std::move(parts.own);
  taken.media.encoded = std::move(parts.encoded);
}

/// Deals the media of a step by what its samples turned out to be.
/// collective: over all ranks
void deal_media(const Session& session, DealtMedia planned, TakenStep& taken) {
  const std::map<std::int32_t, SampleShape> changes = gather_changes(session, taken, planned);
  if (!changes.empty()) taken.planned_items = planned.items;
  session.planner->change(changes, planned);
  taken.media.items = std::move(planned.items);
  taken.media.first_id = taken.first_index;
}

/// Cuts the samples into microbatches by the plan made ahead, where samples are balanced. A sample
/// in place of a bad one may have another shape than the plan knew: then the replica packs what it
/// has got.
void cut_microbatches(const Session& session, TakenStep& taken) {
  taken.balance.parts = parts_of_load(session.model_config, session.lanes, *session.mesh).time;
  if (session.planner) {
    PlannedStep planned = session.planner->take(taken.first_index);
    if (planned.media) take_media(session, *planned.media, taken);
    list_shapes(taken);
    const data::DealSeconds seconds = session.loader->deal_seconds();
    taken.plan = planned.fingerprint;
    taken.microbatches = std::move(planned.microbatches);
    taken.balance.gap = planned.gap;
    taken.predicted = std::move(planned.predicted);
    taken.balance.planning = seconds.describing + seconds.dealing;
    taken.balance.exposed = seconds.waited;
    if (planned.media) deal_media(session, std::move(*planned.media), taken);
    const bool is_here = session.mesh->is_here();
    if (!is_here || planned.shapes == taken.shapes) return;
    taken.balance.repacked = 1;
  }
  if (!session.planner) list_shapes(taken);
  const config::BatchSection& batch = session.config.batch;
  std::vector<Tokens> lengths;
  for (const SampleShape& shape : taken.shapes) lengths.push_back(shape.tokens);
  taken.microbatches = schedule::pack(batch.packing, lengths, batch.capacity_tokens);
}

}  // namespace

TakenStep take_step(const Session& session) {
  TakenStep taken;
  Stopwatch watch;
  draw_samples(*session.loader, taken);
  taken.traffic = session.mesh->all_ranks().traffic();
  taken.feature_bytes = session.lanes.sent_bytes();
  taken.waiting.samples = watch.lap();
  if (taken.refusal.empty())
    cut_microbatches(session, taken);
  else if (session.lanes.has_encoders_apart())
    std::ignore = gather_changes(session, taken, {});  // as the ranks that were not refused
  taken.waiting.packing = watch.lap();
  return taken;
}

void begin_step(const Session& session, TakenStep& taken) {
  taken.watch = {};
  taken.traffic = session.mesh->all_ranks().traffic();
  taken.feature_bytes = session.lanes.sent_bytes();
}

bool is_refused(const Session& session, const TakenStep& taken) {
  return session.mesh->world().largest({taken.refusal.empty() ? 0 : 1}).front() != 0;
}

std::string give_back(const Session& session, const TakenStep& taken) {
  session.loader->restore(taken.before);
  for (std::string& text : session.mesh->world().gather_text(taken.refusal))
    if (!text.empty()) return std::move(text);
  return {};
}

}  // namespace tributary::train
