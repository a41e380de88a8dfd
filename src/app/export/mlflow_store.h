#pragma once

#include <string>

#include "app/export/run_history.h"

namespace tributary::app {

/// Writes a run into a file store of MLflow: a directory that holds an experiment, which holds
/// runs. Another export of the same run replaces it; other runs stay.
///
/// errors: Fault::kResource where the disk refuses
/// source: MLflow 3.17, store/tracking/file_store.py; docs/formats/trackers.md
/// Returns the directory of the run.
std::string write_mlflow_run(const RunHistory& history, const std::string& store,
                             const std::string& experiment);

}  // namespace tributary::app
