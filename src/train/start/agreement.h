#pragma once

#include "config/run/run_config.h"
#include "mesh/launch/launch.h"
#include "train/start/session.h"

namespace c10d {
class Store;
}

namespace tributary::train {

/// Compares the resolved configurations of all ranks, before they make a mesh of it. Where files
/// and folders lie and on which device may differ; what is in them is compared later.
///
/// errors: Fault::kInput naming the ranks that differ, and in what; raised on rank 0, for all
/// collective: over all ranks of the job, through the store
void require_one_configuration(const mesh::Launch& launch, c10d::Store& store,
                               const config::RunConfig& config);

/// Compares what the ranks have opened: model, tokenizer, data, compute threads.
///
/// errors: Fault::kInput naming the ranks that differ, and in what
/// collective: over all ranks
void require_agreement(const Session& session);

}  // namespace tributary::train
