#include "config/run/run_field.h"
#include "config/run/run_keys.h"

namespace tributary::config {
namespace {

constexpr double kManyPixels = 64 << 20;

}  // namespace

std::vector<Key> data_keys() {
  using R = RunConfig;
  using S = SourceSection;
  return {
      key<&R::data, &DataSection::sources, &S::name>(
          {.path = "data.sources[].name",
           .meaning = "Names the source in metrics and the report: letters, digits, `_`, `-`, `.`.",
           .required = true}),
      key<&R::data, &DataSection::sources, &S::path>(
          {.path = "data.sources[].path",
           .meaning = "File or directory of the training samples (docs/formats/data.md).",
           .required = true}),
      key<&R::data, &DataSection::sources, &S::held_out>(
          {.path = "data.sources[].held_out",
           .meaning = "Held-out samples, likewise; empty: `data.held_out_fraction` of `path`."}),
      key<&R::data, &DataSection::sources, &S::images>(
          {.path = "data.sources[].images",
           .meaning = "Folder that image paths start from; empty: the folder of `path`."}),
      key<&R::data, &DataSection::sources, &S::roots>(
          {.path = "data.sources[].roots",
           .meaning = "Further folders that absolute image paths may lie in."}),
      key<&R::data, &DataSection::sources, &S::format>(
          {.path = "data.sources[].format",
           .meaning = "Form of the records; `auto`: by their keys.",
           .choices = {"auto", "messages", "conversations", "alpaca", "query", "interleaved",
                       "caption", "text", "preference"}}),
      key<&R::data, &DataSection::sources, &S::question>(
          {.path = "data.sources[].question",
           .meaning = "Question before the text of each picture, in the form `caption`."}),
      key<&R::data, &DataSection::sources, &S::weight>(
          {.path = "data.sources[].weight",
           .meaning = "Share of what is drawn from this source, relative to the other weights.",
           .range = {0, 1e9, true}}),
      key<&R::data, &DataSection::sources, &S::start_step>(
          {.path = "data.sources[].start_step",
           .meaning = "The source joins the mixture at this step: a curriculum.",
           .unit = "steps",
           .range = {0, kManySteps}}),
      key<&R::data, &DataSection::weigh_by>(
          {.path = "data.weigh_by",
           .meaning = "What weights share out: samples, or tokens by the mean of 64 records."}),
      key<&R::data, &DataSection::held_out_fraction>(
          {.path = "data.held_out_fraction",
           .meaning = "Part of each source without a `held_out` file that is kept for validation: "
                      "above 0 at least one record of two or more.",
           .unit = "fraction",
           .range = {0, 1, false, true}}),
      key<&R::data, &DataSection::min_pixels>(
          {.path = "data.min_pixels",
           .meaning = "Smaller images are enlarged to this area.",
           .unit = "pixels",
           .range = {1, kManyPixels}}),
      key<&R::data, &DataSection::max_pixels>({.path = "data.max_pixels",
                                               .meaning = "Larger images are reduced to this area.",
                                               .unit = "pixels",
                                               .range = {1, kManyPixels}}),
      key<&R::data, &DataSection::max_tokens>(
          {.path = "data.max_tokens",
           .meaning = "Longest sample; 0: `batch.capacity_tokens`.",
           .unit = "tokens",
           .range = {0, kManyTokens}}),
      key<&R::data, &DataSection::too_long>(
          {.path = "data.too_long",
           .meaning = "What becomes of longer samples: `drop` leaves them out, counts them and "
                      "draws others; `truncate` cuts them, before a picture that does not fit; "
                      "`refuse` ends the run before its first step if there is one."}),
      key<&R::data, &DataSection::system_prompt>(
          {.path = "data.system_prompt",
           .meaning = "System turn of conversations that have none; `auto`: that of the family's "
                      "own chat template, `\"\"`: none."}),
      key<&R::data, &DataSection::train_on_newline>(
          {.path = "data.train_on_newline",
           .meaning = "Count the newline after `<|im_end|>` of an assistant turn in the loss."}),
      key<&R::data, &DataSection::workers>(
          {.path = "data.workers",
           .meaning = "Threads that read and decode; they change neither content nor order.",
           .unit = "threads",
           .range = {1, 1024}}),
      key<&R::data, &DataSection::prefetch_batches>(
          {.path = "data.prefetch_batches",
           .meaning = "Global batches prepared ahead of the step.",
           .unit = "batches",
           .range = {1, 1024}}),
      key<&R::data, &DataSection::bad_fraction>(
          {.path = "data.bad_fraction",
           .meaning = "Part of the samples read that may be bad; above it (and above "
                      "`data.bad_at_least`) the run stops.",
           .unit = "fraction",
           .range = {0, 1}}),
      key<&R::data, &DataSection::bad_at_least>(
          {.path = "data.bad_at_least",
           .meaning = "Bad samples that are tolerated before `data.bad_fraction` counts; but at "
                      "most half of a source, or `data.bad_fraction` of it where that is more.",
           .unit = "samples",
           .range = {0, kManySteps}}),
  };
}

}  // namespace tributary::config
