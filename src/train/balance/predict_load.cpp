#include "train/balance/predict_load.h"

#include <algorithm>
#include <cmath>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "train/balance/flops.h"
#include "train/balance/measured_times.h"

namespace tributary::train {
namespace {

constexpr double kNanosecondsPerFlop = 1e-3;

Nanoseconds time_of(double flops) {
  if (flops <= 0) return {};
  return {std::max<std::int64_t>(1, std::llround(flops * kNanosecondsPerFlop))};
}

/// The own work of adapters, a few per cent, is left out: only the ratio of samples matters.
AdapterWork adapters_of(const config::ModelSection& section) {
  return {.trains_alone = section.has_adapters()};
}

std::int64_t rows_of(const config::ModuleChain& chain, const SampleShape& shape) {
  if (chain.modules.empty()) return shape.tokens.count;
  std::int64_t rows = 0;
  for (const Modality modality : chain.modules.front().takes)
    for (const Grid& grid : shape.grids(modality)) rows += grid.patches();
  return rows;
}

std::size_t index_of(std::span<const config::ModuleChain> chains, const std::string& name) {
  const auto found = std::ranges::find(chains, name, &config::ModuleChain::name);
  TRIB_CHECK(found != chains.end(), .what = "train: model has no encoder of this name",
             .found = name);
  return static_cast<std::size_t>(found - chains.begin());
}

Nanoseconds predict_item(const config::ModelConfig& model, const config::ModelSection& section,
                         const config::ModuleChain& chain, const Grid& item,
                         const MeasuredTimes* times) {
  if (times != nullptr) {
    Nanoseconds time;
    for (const config::FrontModule& module : chain.modules)
      time += times->time_of(module.name, module.item.inside(model, item));
    return time;
  }
  ForwardFlops forward;
  for (const config::FrontModule& module : chain.modules) {
    forward.push_back(module.work(model, item));
    forward.back().module = module.name;
  }
  return time_of(count_training(forward, section.freeze,
                                config::run_again(section.recompute, section.offload),
                                adapters_of(section))
                     .hardware);
}

schedule::SampleLoad measured_load(const config::ModelConfig& model,
                                   const config::ModelSection& section, const SampleShape& shape,
                                   const MeasuredTimes& times) {
  schedule::SampleLoad load{.tokens = shape.tokens};
  for (const config::ModuleChain& chain : config::chains_of(model)) {
    schedule::ChainLoad of{.time = {}, .rows = rows_of(chain, shape)};
    const auto rows = static_cast<double>(of.rows);
    if (chain.modules.empty()) {
      of.time = times.time_of(chain.name, rows, rows * rows);
    } else {
      for (const Modality modality : chain.modules.front().takes)
        for (const Grid& grid : shape.grids(modality))
          of.time += predict_item(model, section, chain, grid, &times);
    }
    load.chains.push_back(of);
  }
  return load;
}

}  // namespace

schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                  const config::ModelSection& section, const SampleShape& shape,
                                  const MeasuredTimes* times) {
  if (times != nullptr) return measured_load(model, section, shape, *times);
  const std::vector<TrainFlops> work = count_training_of_modules(
      count_forward(model, shape), section.freeze,
      config::run_again(section.recompute, section.offload), adapters_of(section));
  schedule::SampleLoad load{.tokens = shape.tokens};
  std::size_t module = 0;
  for (const config::ModuleChain& chain : config::chains_of(model)) {
    double flops = 0;
    const std::size_t count = std::max<std::size_t>(1, chain.modules.size());
    for (std::size_t i = 0; i < count; ++i) flops += work[module++].hardware;
    load.chains.push_back({.time = time_of(flops), .rows = rows_of(chain, shape)});
  }
  return load;
}

Nanoseconds predict_media(const config::ModelConfig& model, const config::ModelSection& section,
                          const std::string& encoder, const Grid& grid,
                          const MeasuredTimes* times) {
  const std::vector<config::ModuleChain> chains = config::chains_of(model);
  return predict_item(model, section, chains[index_of(chains, encoder)], grid, times);
}

schedule::MediaCost media_cost(const config::ModelConfig& model,
                               const config::ModelSection& section, const std::string& encoder,
                               const MeasuredTimes* times) {
  const std::vector<config::ModuleChain> chains = config::chains_of(model);
  return [&model, &section, times, chain = chains[index_of(chains, encoder)]](const Grid& grid) {
    return predict_item(model, section, chain, grid, times).count;
  };
}

WorkLoad& WorkLoad::operator+=(const WorkLoad& other) {
  WorkLoad added = other;
  const std::vector<double*> own = numbers();
  const std::vector<double*> others = added.numbers();
  for (std::size_t i = 0; i < own.size(); ++i) *own[i] += *others[i];
  return *this;
}

std::vector<double*> WorkLoad::numbers() {
  std::vector<double*> all{&time, &attention};
  for (std::vector<double>* each : {&chain_times, &chain_rows})
    for (double& number : *each) all.push_back(&number);
  return all;
}

WorkLoad load_of(const config::ModelConfig& model, const config::ModelSection& section,
                 std::span<const SampleShape> shapes, const MeasuredTimes* times) {
  WorkLoad load(config::chains_of(model).size());
  for (const SampleShape& shape : shapes) {
    const schedule::SampleLoad predicted = predict_load(model, section, shape, times);
    load.time += static_cast<double>(predicted.sum().count);
    for (const config::ModuleWork& work : count_forward(model, shape))
      load.attention += work.real_attention();
    for (std::size_t i = 0; i < predicted.chains.size(); ++i) {
      load.chain_times[i] += static_cast<double>(predicted.chains[i].time.count);
      load.chain_rows[i] += static_cast<double>(predicted.chains[i].rows);
    }
  }
  return load;
}

WorkLoad load_of_media(const config::ModelConfig& model, const config::ModelSection& section,
                       const std::string& encoder, std::span<const Grid> grids,
                       const MeasuredTimes* times) {
  const std::vector<config::ModuleChain> chains = config::chains_of(model);
  const std::size_t chain = index_of(chains, encoder);
  WorkLoad load(chains.size());
  for (const Grid& grid : grids) {
    load.chain_times[chain] +=
        static_cast<double>(predict_item(model, section, chains[chain], grid, times).count);
    load.chain_rows[chain] += static_cast<double>(grid.patches());
  }
  load.time = load.chain_times[chain];
  return load;
}

WorkLoad part_of_load(const WorkLoad& load, double ranks, bool leads) {
  WorkLoad part = leads ? load : WorkLoad(load.chain_times.size());
  part.time = load.time / ranks;
  return part;
}

std::vector<Imbalance> imbalance_of(const config::ModelConfig& model, const WorkLoad& largest,
                                    const WorkLoad& sum, const LoadParts& parts) {
  std::vector<Imbalance> found;
  const auto add = [&](const std::string& name, double max, double all, std::int64_t count) {
    if (all > 0) found.push_back({name, max * static_cast<double>(count) / all});
  };
  add("time", largest.time, sum.time, parts.time);
  const std::vector<config::ModuleChain> chains = config::chains_of(model);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    add(chains[i].name, largest.chain_times[i], sum.chain_times[i], parts.chains[i]);
    add(chains[i].rows, largest.chain_rows[i], sum.chain_rows[i], parts.chains[i]);
  }
  add("attention", largest.attention, sum.attention, parts.chains.back());
  return found;
}

}  // namespace tributary::train
