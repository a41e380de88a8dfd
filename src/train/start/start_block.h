#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "data/loader/data_size.h"
#include "data/loader/loader.h"
#include "train/start/memory_need.h"
#include "train/start/ranks.h"

namespace tributary::train {

/// Says what a run is before its first step: parameters by module and which of them train, memory
/// beside what there is, device, directory.
void print_start(std::ostream& out, const config::RunConfig& config, const Ranks& ranks,
                 const MemoryNeed& need, const MemoryPlace& place);

/// `config` has the steps of the run, also where they follow from run.epochs.
[[nodiscard]] data::DataSize size_data(const config::RunConfig& config, std::int64_t records,
                                       std::int64_t held_out, const data::DataLook& look);

/// Says how many records are trained on, held out and dropped, and how often the run sees them.
void print_data(std::ostream& out, const config::RunConfig& config, const data::DataSize& size);

/// Lists what in the section `model` does not fit the model, though it can be trained: frozen
/// modules that it does not have, a directory without the settings of a processor.
///
/// errors: as data::describe_missing_processor
[[nodiscard]] std::vector<std::string> list_misfits(const config::ModelSection& section,
                                                    const config::ModelConfig& model);

/// Says that activations of a full microbatch may not fit beside what is kept; empty where they do.
[[nodiscard]] std::string describe_shortage(const MemoryNeed& need, const MemoryPlace& place);

/// A count with its thousands set apart: `1,162,944`.
[[nodiscard]] std::string describe_count(std::int64_t count);

}  // namespace tributary::train
