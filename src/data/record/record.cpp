#include "data/record/record.h"

#include <nlohmann/json.hpp>

#include "data/record/column_forms.h"
#include "data/record/document_forms.h"
#include "data/record/preference_form.h"
#include "data/record/record_fields.h"
#include "data/record/turn_forms.h"
#include "data/record/unread_keys.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxItems = 1024;

/// One form: how it is known by its keys, and who reads it. The first one that fits counts.
struct FormReader {
  RecordForm form;
  bool (*fits)(const Json& root);
  void (*read)(const Json& root, const RecordOptions& options, Record& record);
};
constexpr FormReader kReaders[] = {
    {RecordForm::kPreference, has_preference, read_preference},
    {RecordForm::kMessages, [](const Json& root) { return find(root, "messages") != nullptr; },
     read_messages},
    {RecordForm::kConversations, [](const Json& root) { return has_one_of(root, kConversations); },
     read_conversations},
    {RecordForm::kAlpaca,
     [](const Json& root) {
       return find(root, "instruction") != nullptr && find(root, "output") != nullptr;
     },
     read_alpaca},
    {RecordForm::kQuery, has_query, read_query},
    {RecordForm::kInterleaved, has_interleaved, read_interleaved},
    {RecordForm::kCaption, has_caption, read_caption},
    {RecordForm::kText, has_text, read_text},
};

/// Refuses pairs where answers are learned, and answers where pairs are compared.
void check_answers(const Json& root, RecordForm form, Answers wanted) {
  const bool is_pair = form == RecordForm::kPreference;
  if (is_pair && wanted == Answers::kOne)
    refuse(
        "preferences",
        "a chosen and a rejected answer, which objective.kind: dpo compares; to learn the chosen "
        "one, write it as an answer");
  if (!is_pair && wanted == Answers::kPair)
    refuse("no_pair",
           "one answer alone, and objective.kind: dpo compares two; " + describe_other_form(root));
}

const FormReader& reader_of(const Json& root, const RecordOptions& options) {
  if (!root.is_object())
    refuse("bad_form", str("record is a ", root.type_name(), ", expected an object"));
  for (const FormReader& reader : kReaders) {
    if (options.form ? reader.form != *options.form : !reader.fits(root)) continue;
    if (options.form && !reader.fits(root))
      refuse("bad_form", str("not of the form ", name_of(reader.form), " that `format` names; ",
                             describe_other_form(root)));
    return reader;
  }
  refuse("bad_form", "no known form; " + describe_other_form(root));
}

ParsedRecord read(const Json& root, const std::string& key, const RecordOptions& options) {
  const FormReader& reader = reader_of(root, options);
  check_answers(root, reader.form, options.answers);
  for (const std::string_view other : kConversations)
    if (find(root, "messages") != nullptr && find(root, other) != nullptr)
      refuse("bad_form", str("both messages and ", other));
  ParsedRecord parsed{.form = reader.form, .record = {}};
  Record& record = parsed.record;
  record.key = key;
  reader.read(root, options, record);
  if (!record.is_document) record.references = references_of(root);
  const std::size_t items = record.images.size() + record.clips.size() + record.sounds.size();
  if (items > kMaxItems)
    refuse("bad_field", str(items, " images, clips and sounds, limit ", kMaxItems));
  return parsed;
}

}  // namespace

std::string_view name_of(RecordForm form) {
  for (const RecordFormName& each : kRecordForms)
    if (each.form == form) return each.name;
  return "";
}

std::optional<RecordForm> find_form(std::string_view name) {
  for (const RecordFormName& each : kRecordForms)
    if (each.name == name) return each.form;
  return std::nullopt;
}

Result<Json> parse_line(std::string_view line) {
  if (line.size() > kMaxRecordBytes)
    return Refusal{"line_too_long", str(line.size(), " bytes, limit ", kMaxRecordBytes)};
  Result<Json> root = try_parse_json(line);
  if (root) return root;
  const Refusal& refusal = root.refusal();
  return Refusal{refusal.code == "not_utf8" ? "bad_utf8" : "bad_json",
                 "line is not valid JSON: " + refusal.reason};
}

Result<ParsedRecord> read_record(const Json& json, const std::string& key,
                                 const RecordOptions& options) {
  try {
    return read(json, key, options);
  } catch (const Refused& refused) {
    return refused.refusal;
  }
}

Result<ParsedRecord> parse_record(std::string_view line, const std::string& key,
                                  const RecordOptions& options) {
  const Result<Json> json = parse_line(line);
  if (!json) return json.refusal();
  return read_record(json.value(), key, options);
}

}  // namespace tributary::data
