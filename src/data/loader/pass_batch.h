#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "data/loader/data_order.h"
#include "data/loader/loader.h"
#include "data/loader/sample_reader.h"

namespace tributary::data {

/// A place in the queue of a loader. It is drawn, then filled by a worker, then handed out.
struct Slot {
  Draw draw;
  SampleDuty duty = {};
  bool is_filled = false;  // or read by another loader
  ReadSample read;
  std::exception_ptr failure;
  DealSeconds seconds;  // of the batch, in its first slot
};

/// The slots of a global batch.
struct Batch {
  std::vector<std::unique_ptr<Slot>> slots;
  DealSeconds seconds;
};

/// Fills a batch with the samples that the other readers have read, and gives them those that this
/// one has read. A batch in which a sample could not be read is left as it is: handing it out
/// raises the error, which ends the loaders that wait for this one.
void pass_batch(Batch& batch, const Pass& pass);

}  // namespace tributary::data
