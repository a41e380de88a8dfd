#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/requests/given_options.h"
#include "app/requests/read_table.h"
#include "core/json.h"
#include "schedule/packed_bins.h"

namespace tributary::app {

struct PackRequest {
  std::int64_t capacity = 0;  // of a sequence [tokens]
  std::int64_t replicas = 1;
  std::int64_t window = 0;  // number of samples packed together; 0: all
  std::string rule = "best_fit_decreasing";
  std::string meet = "step";
  std::int64_t attention_length = 0;  // 0: a sequence costs its tokens
  Caller caller = Caller::kCommandLine;
};

struct PackAnswer {
  schedule::PackedBins packed;
  std::vector<std::int32_t> bin_of;      // [items]
  std::vector<std::int64_t> loads;       // [bins]: tokens
  std::vector<std::int32_t> replica_of;  // [bins]
  std::vector<std::int64_t> costs;       // [replicas]
  std::int64_t bound = 0;                // no packing has fewer bins, whatever its window
  double milliseconds = 0;

  /// bins / bound - 1
  [[nodiscard]] double gap() const;
};

/// errors: Fault::kInput naming the argument that is out of range
void check_request(const PackRequest& request);

/// Packs samples into sequences and dispatches the sequences to replicas.
///
/// shape:  lengths [samples, 1], each a whole number from 1 to the capacity
/// errors: Fault::kInput as check_request, or naming the sample
[[nodiscard]] PackAnswer answer_pack(const PackRequest& request, const NumberTable& lengths);

/// The object that docs/guides/balance.md explains.
[[nodiscard]] Json to_json(const PackAnswer& answer);

}  // namespace tributary::app
