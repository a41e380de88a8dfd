#include "data/record/column_forms.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "data/record/turn_forms.h"

namespace tributary::data {

bool has_one_of(const Json& root, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (find(root, name) != nullptr) return true;
  return false;
}

std::string only_column(const Json& root, std::span<const std::string_view> names) {
  std::string found;
  for (const std::string_view name : names) {
    if (find(root, name) == nullptr) continue;
    if (!found.empty())
      refuse("bad_form", str("both ", found, " and ", name, "; leave out one of them"));
    found = name;
  }
  if (found.empty()) refuse("bad_form", str("none of the keys ", names[0], " and the like"));
  return found;
}

namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kQuestions[] = {"query", "prompt", "question"};
constexpr std::string_view kAnswers[] = {"response", "completion", "answer"};
constexpr std::string_view kPictures[] = {"image", "images", "file_name"};
constexpr std::string_view kCaptions[] = {"caption", "text", "label"};
constexpr std::string_view kReferences = "answers";
constexpr std::string_view kFileName = "file_name";

/// Puts media that no text has named before the first question, and checks the whole.
void finish(ListedMedia& media, Record& record) {
  put_rest_first(media, record.turns);
  media.check_counts();
  check_turns(record.turns, "turns");
}

/// The text of a column that is a text, or its turns when it is a list of messages.
void add_column(const Json& root, const std::string& name, Role role, ListedMedia& media,
                Record& record) {
  const Json& value = *find(root, name);
  if (value.is_array()) return add_messages(value, name, media, record);
  record.turns.push_back({role, split_text(text_of(value, name), media)});
}

/// The reference that most annotators gave, the first among equals: what a record without an answer
/// of its own teaches.
std::string most_frequent(const Json& root) {
  const std::vector<std::string> references = references_of(root);
  if (references.empty()) refuse("no_answer", "answers is empty: nothing to learn");
  return *std::ranges::max_element(references, {}, [&](const std::string& reference) {
    return std::ranges::count(references, reference);
  });
}

}  // namespace

void add_history(const Json& root, ListedMedia& media, Record& record) {
  const Json* history = find(root, "history");
  if (history == nullptr) return;
  if (!history->is_array())
    refuse("bad_field", str("history is of type ", history->type_name(), ", expected list"));
  for (std::size_t i = 0; i < history->size(); ++i) {
    const Json& pair = (*history)[i];
    const std::string where = str("history[", i, "]");
    if (!pair.is_array() || pair.size() != 2)
      refuse("bad_field", where + " is no pair of a question and its answer");
    record.turns.push_back({Role::kUser, split_text(text_of(pair[0], where + "[0]"), media)});
    record.turns.push_back({Role::kAssistant, split_text(text_of(pair[1], where + "[1]"), media)});
  }
}

std::string alpaca_question(const Json& root) {
  std::string question = text_of(member(root, "instruction", "record"), "instruction");
  const Json* input = find(root, "input");
  if (input == nullptr) return question;
  const std::string text = text_of(*input, "input");
  return question + (question.empty() || text.empty() ? text : "\n" + text);
}

void put_rest_first(ListedMedia& media, std::vector<Turn>& turns) {
  std::vector<Part> rest = media.take_rest();
  for (Turn& turn : turns) {
    if (turn.role != Role::kUser) continue;
    turn.parts.insert(turn.parts.begin(), std::make_move_iterator(rest.begin()),
                      std::make_move_iterator(rest.end()));
    break;
  }
}

void read_alpaca(const Json& root, const RecordOptions&, Record& record) {
  refuse_unread(root, RecordObject::kAlpaca, "record", record);
  const std::string question = alpaca_question(root);
  ListedMedia media(root, record);
  add_system(root, record);
  add_history(root, media, record);
  record.turns.push_back({Role::kUser, split_text(question, media)});
  add_column(root, "output", Role::kAssistant, media, record);
  finish(media, record);
}

bool has_query(const Json& root) {
  return has_one_of(root, kQuestions) &&
         (has_one_of(root, kAnswers) || find(root, kReferences) != nullptr);
}

void read_query(const Json& root, const RecordOptions&, Record& record) {
  refuse_unread(root, RecordObject::kQuery, "record", record);
  const std::string question = only_column(root, kQuestions);
  const bool has_answer = has_one_of(root, kAnswers);
  const std::string answer = has_answer ? only_column(root, kAnswers) : most_frequent(root);
  ListedMedia media(root, record);
  add_system(root, record);
  add_history(root, media, record);
  add_column(root, question, Role::kUser, media, record);
  if (has_answer)
    add_column(root, answer, Role::kAssistant, media, record);
  else
    record.turns.push_back({Role::kAssistant, {answer}});
  finish(media, record);
}

bool has_caption(const Json& root) {
  return has_one_of(root, kPictures) && has_one_of(root, kCaptions);
}

void read_caption(const Json& root, const RecordOptions& options, Record& record) {
  refuse_unread(root, RecordObject::kCaption, "record", record);
  if (options.question.empty())
    refuse("no_question",
           "a picture with a text and no question; set `question` of the source to one");
  const std::string name = only_column(root, kCaptions);
  ListedMedia media(root, record, kFileName);
  add_system(root, record);
  record.turns.push_back({Role::kUser, {options.question}});
  record.turns.push_back({Role::kAssistant, split_text(text_of(*find(root, name), name), media)});
  finish(media, record);
}

}  // namespace tributary::data
