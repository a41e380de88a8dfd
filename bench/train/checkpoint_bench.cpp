// Checkpoints against their bounds: a copy in memory, a plain write with fsync, a plain read.
// Each pair runs in turn in one process, so a busy machine slows both and the ratio holds.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstring>
#include <filesystem>
#include <vector>

#include <ATen/ATen.h>

#include "core/file/crc32c.h"
#include "core/stopwatch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_reader.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kTensors = 16;
constexpr std::int64_t kElements = 4 << 20;  // of each tensor, 16 MiB

std::string scratch() {
  const std::string path = std::filesystem::temp_directory_path() / "tributary_checkpoint_bench";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

CheckpointContent make_content(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.state = "{}";
  for (std::int64_t i = 0; i < kTensors; ++i)
    content.model.push_back({"tensor." + std::to_string(i), at::rand({kElements})});
  return content;
}

constexpr double bytes_of_all() { return static_cast<double>(kTensors * kElements * 4); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Reports the candidate's rate, and its time / the time of the bound.
void report(benchmark::State& state, const std::vector<double>& bound,
            const std::vector<double>& candidate) {
  state.counters["GB_per_s"] = bytes_of_all() * 1e-9 / median(candidate);
  state.counters["bound_GB_per_s"] = bytes_of_all() * 1e-9 / median(bound);
  state.counters["time_over_bound"] = median(candidate) / median(bound);
}

void stall_of_async_save(benchmark::State& state) {
  const std::string root = scratch();
  CheckpointWriter writer({.root = root, .keep_best = false});
  CheckpointContent content = make_content(0);
  std::vector<std::byte> copy(static_cast<std::size_t>(bytes_of_all()));
  std::vector<double> bound;
  std::vector<double> candidate;
  for (auto _ : state) {
    writer.finish();
    Stopwatch watch;
    for (std::size_t i = 0; i < content.model.size(); ++i)
      std::memcpy(copy.data() + i * static_cast<std::size_t>(kElements) * 4,
                  content.model[i].value.data_ptr(), static_cast<std::size_t>(kElements) * 4);
    bound.push_back(watch.seconds());
    ++content.step;
    writer.save(content);
    candidate.push_back(static_cast<double>(writer.last_stall().count) * 1e-9);
    state.SetIterationTime(candidate.back());
  }
  report(state, bound, candidate);
}
BENCHMARK(stall_of_async_save)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);

void save(benchmark::State& state) {
  const std::string root = scratch();
  CheckpointWriter writer({.root = root, .keep_best = false, .async = false});
  CheckpointContent content = make_content(0);
  std::vector<double> bound;
  std::vector<double> candidate;
  for (auto _ : state) {
    Stopwatch watch;
    {
      OutputFile file(real_file_system(), root + "/plain");
      for (const NamedTensor& tensor : content.model)
        file.append(std::span(static_cast<const std::byte*>(tensor.value.data_ptr()),
                              tensor.value.nbytes()));
      file.sync();
    }
    bound.push_back(watch.lap());
    std::filesystem::remove(root + "/plain");
    ++content.step;
    watch.lap();
    writer.save(content);
    candidate.push_back(watch.seconds());
    state.SetIterationTime(candidate.back());
  }
  report(state, bound, candidate);
}
BENCHMARK(save)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);

void load_and_verify(benchmark::State& state) {
  const std::string root = scratch();
  const CheckpointContent content = make_content(1);
  CheckpointWriter({.root = root, .async = false}).save(content);
  const std::string shard = root + "/step-1/model/shard-00001-model-00001-of-00001.safetensors";
  std::vector<double> bound;
  std::vector<double> candidate;
  for (auto _ : state) {
    const InputFile file(real_file_system(), shard);
    Stopwatch watch;
    std::uint64_t at = 4096;
    for (const NamedTensor& tensor : content.model) {
      file.read_at(at, {static_cast<std::byte*>(tensor.value.data_ptr()), tensor.value.nbytes()});
      at += tensor.value.nbytes();
    }
    bound.push_back(watch.lap());
    (void)load_model(root + "/step-1", content.model);
    candidate.push_back(watch.seconds());
    state.SetIterationTime(candidate.back());
  }
  report(state, bound, candidate);
}
BENCHMARK(load_and_verify)->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);

void checksum(benchmark::State& state) {
  const std::vector<std::byte> bytes(std::size_t{64} << 20, std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(bytes));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(checksum)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::train
