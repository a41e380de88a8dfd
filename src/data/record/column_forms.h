#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/record/record_fields.h"

namespace tributary::data {

/// Adds earlier questions with their answers: `history`, [["q", "a"], ...]. errors: Refused
void add_history(const Json& root, ListedMedia& media, Record& record);
/// The question of the Alpaca form: `instruction` and, on a line of its own, `input`.
[[nodiscard]] std::string alpaca_question(const Json& root);
/// Puts media that no text has named before the first question.
void put_rest_first(ListedMedia& media, std::vector<Turn>& turns);

/// Reads the Alpaca form: `instruction`, `input`, `output`. errors: Refused
void read_alpaca(const Json& root, const RecordOptions& options, Record& record);

/// Whether the record has one of these columns.
[[nodiscard]] bool has_one_of(const Json& root, std::span<const std::string_view> names);
/// The one of these columns that the record has. errors: Refused where it has none, or two
[[nodiscard]] std::string only_column(const Json& root, std::span<const std::string_view> names);

/// Whether the record has a column for a question and one for its answer.
[[nodiscard]] bool has_query(const Json& root);
/// Reads a question and its answer, in columns of several usual names. errors: Refused
void read_query(const Json& root, const RecordOptions& options, Record& record);

/// Whether the record has a picture and a text or class for it.
[[nodiscard]] bool has_caption(const Json& root);
/// Reads a picture with its text or class: the answer to RecordOptions::question. errors: Refused
void read_caption(const Json& root, const RecordOptions& options, Record& record);

}  // namespace tributary::data
