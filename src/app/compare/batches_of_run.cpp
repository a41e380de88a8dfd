#include "app/compare/batches_of_run.h"

#include <map>
#include <span>
#include <utility>

#include "config/family/model_config.h"
#include "core/error.h"
#include "data/loader/encode_sample.h"
#include "data/loader/loader.h"

namespace tributary::app {

std::vector<std::vector<SampleShape>> batches_of_run(const config::RunConfig& run,
                                                     std::int64_t steps) {
  const config::ModelConfig model = config::read_model_config(run.model.path);
  const auto tokenizer = data::Tokenizer::load(run.model.path);
  const auto encoder = data::make_encoder(
      run, model, tokenizer, [](const data::Picture&, int, int) -> data::Picture {
        TRIB_RAISE(Fault::kBug, .what = "app: sizing a batch resized a picture");
      });
  std::map<std::int64_t, std::vector<SampleShape>> dealt;  // written by the loader's thread alone
  {
    data::Loader loader(
        {.data = run.data,
         .seed = static_cast<std::uint64_t>(run.run.seed),
         .batch_samples = run.batch.global_samples,
         .quarantine_path = {},
         .deal =
             [&](std::int64_t first_index, std::span<const SampleShape> shapes) {
               dealt[first_index].assign(shapes.begin(), shapes.end());
               return std::vector<data::SampleDuty>(shapes.size());  // nobody reads them
             }},
        *encoder);
    for (std::int64_t step = 0; step < steps; ++step) (void)loader.next_batch();
  }
  std::vector<std::vector<SampleShape>> batches;
  for (auto& [first_index, shapes] : dealt)
    if (std::ssize(batches) < steps) batches.push_back(std::move(shapes));
  return batches;
}

}  // namespace tributary::app
