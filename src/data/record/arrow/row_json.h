#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "data/record/stored_record.h"

namespace tributary::data {

/// The names of classes by the column that numbers them.
using ClassNames = std::map<std::string, std::vector<std::string>>;

/// Reads the class names that `datasets` keeps with a schema; none when it has none.
[[nodiscard]] ClassNames read_classes(const arrow::Schema& schema);

/// Turns a row into a record. Pictures are named by their column, as `image` or `images[1]`.
///
/// errors: Refusal `bad_utf8`; `bad_field` for a column of a type that has no JSON
/// owns:   the record keeps `rows` as long as it needs its pictures
[[nodiscard]] Result<StoredRecord> read_row(const std::shared_ptr<arrow::RecordBatch>& rows,
                                            std::int64_t row, const ClassNames& classes);

}  // namespace tributary::data
