#include "data/record/preference_form.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "data/record/column_forms.h"
#include "data/record/turn_forms.h"

namespace tributary::data {
namespace {

constexpr std::array<std::string_view, 4> kPrompts{"prompt", "question", "query", "instruction"};
constexpr std::array<std::string_view, 3> kDialogues{"messages", "conversations", "conversation"};
constexpr std::array<std::string_view, 7> kPromptsAndDialogues{
    "prompt", "question", "query", "instruction", "messages", "conversations", "conversation"};
constexpr std::array<std::string_view, 3> kChosen{"chosen", "chosen_messages", "response"};
constexpr std::array<std::string_view, 3> kRejected{"rejected", "rejected_response",
                                                    "rejected_messages"};

/// A column that is a text, or turns as they stand in the record.
struct Column {
  std::string name;
  const Json* text = nullptr;
  std::vector<const Json*> turns = {};
  std::size_t first = 0;  // of `turns`, in the column

  [[nodiscard]] bool is_empty() const { return text == nullptr && turns.empty(); }
};

bool is_there(const Json& root, std::string_view name) {
  const Json* value = find(root, name);
  return value != nullptr && !says_nothing(*value);
}

std::vector<std::string_view> those_there(const Json& root,
                                          std::span<const std::string_view> names) {
  std::vector<std::string_view> there;
  for (const std::string_view name : names)
    if (is_there(root, name)) there.push_back(name);
  return there;
}

/// Names the only column of these that says something.
std::string only_one(const Json& root, std::span<const std::string_view> names) {
  const auto there = those_there(root, names);
  if (there.size() > 1)
    refuse("bad_form", str("both ", there[0], " and ", there[1], "; leave out one of them"));
  if (there.empty()) refuse("bad_form", str("no text or turns under ", names[0]));
  return std::string(there.front());
}

Column column_of(const Json& root, const std::string& name) {
  const Json& value = member(root, name.c_str(), "record");
  Column column{.name = name};
  if (value.is_string()) {
    column.text = &value;
  } else if (value.is_object()) {
    column.turns = {&value};
  } else if (value.is_array()) {
    for (const Json& turn : value) column.turns.push_back(&turn);
  } else {
    refuse("bad_field", str(name, " is of type ", value.type_name(), ", expected text or list"));
  }
  return column;
}

bool is_answer(const Json& turn) {
  if (!turn.is_object()) return false;
  const Json* role = find(turn, find(turn, "from") != nullptr ? "from" : "role");
  return role != nullptr && (*role == "assistant" || *role == "gpt");
}

/// Whether a column holds a conversation with its prompt, not only an answer.
bool is_whole(const Column& column) {
  return !column.turns.empty() && !is_answer(*column.turns.front());
}

/// Takes the first turns of a column away.
Column take_front(Column& column, std::size_t count) {
  const auto end = column.turns.begin() + static_cast<std::ptrdiff_t>(count);
  Column front{.name = column.name, .turns = {column.turns.begin(), end}};
  column.turns.erase(column.turns.begin(), end);
  column.first += count;
  return front;
}

/// Takes away what two conversations begin with, as long as each keeps an answer.
Column take_common(Column& chosen, Column& rejected) {
  const std::size_t max = std::min(chosen.turns.size(), rejected.turns.size()) - 1;
  std::size_t count = 0;
  while (count < max && *chosen.turns[count] == *rejected.turns[count]) ++count;
  (void)take_front(rejected, count);
  return take_front(chosen, count);
}

/// The three parts of a record. A history and a system turn may stand before them.
struct Pair {
  Column prompt;
  Column chosen;
  Column rejected;
};

/// Refuses columns beside whole conversations that say something else than these.
void check_repeated(const Json& root, const Pair& pair) {
  for (const std::string_view name : those_there(root, kPrompts)) {
    const Json* last = pair.prompt.turns.empty() ? nullptr : pair.prompt.turns.back();
    const Json* content = last == nullptr ? nullptr : find(*last, "content");
    if (content == nullptr || *find(root, name) != *content)
      refuse("bad_form", str(name, " is not the question that chosen and rejected begin with"));
  }
  for (const std::string_view name : those_there(root, kDialogues))
    if (*find(root, name) != *find(root, pair.chosen.name))
      refuse("bad_form", str(name, " is neither a prompt nor the same as ", pair.chosen.name));
}

/// Reads `messages` that end with the chosen answer, beside a rejected one.
Pair part_dialogue(const Json& root, const std::string& name, Column rejected) {
  if (const auto prompts = those_there(root, kPrompts); !prompts.empty())
    refuse("bad_form", str("both ", name, " and ", prompts.front(), "; leave out one of them"));
  Pair pair{.prompt = {}, .chosen = column_of(root, name), .rejected = std::move(rejected)};
  if (pair.chosen.turns.empty() || !is_answer(*pair.chosen.turns.back()))
    refuse("no_answer", name + " has no answer at its end, which would be the chosen one");
  pair.prompt = is_whole(pair.rejected) ? take_common(pair.chosen, pair.rejected)
                                        : take_front(pair.chosen, pair.chosen.turns.size() - 1);
  return pair;
}

Pair part_record(const Json& root) {
  Column rejected = column_of(root, only_one(root, kRejected));
  if (those_there(root, kChosen).empty())
    return part_dialogue(root, only_one(root, kDialogues), std::move(rejected));
  Pair pair{.prompt = {},
            .chosen = column_of(root, only_one(root, kChosen)),
            .rejected = std::move(rejected)};
  if (is_whole(pair.chosen) != is_whole(pair.rejected))
    refuse("bad_form", "one of chosen and rejected is a whole conversation, the other an answer");
  if (is_whole(pair.chosen)) {
    pair.prompt = take_common(pair.chosen, pair.rejected);
    check_repeated(root, pair);
    return pair;
  }
  if (those_there(root, kPrompts).empty() && those_there(root, kDialogues).empty())
    refuse("no_prompt", "chosen and rejected are answers, and there is no prompt beside them");
  pair.prompt = column_of(root, only_one(root, kPromptsAndDialogues));
  return pair;
}

void add_column(const Column& column, Role role, ListedMedia& media, Record& record,
                std::vector<Turn>& turns) {
  if (column.text != nullptr)
    turns.push_back({role, split_text(text_of(*column.text, column.name), media)});
  for (std::size_t i = 0; i < column.turns.size(); ++i)
    turns.push_back(
        read_turn(*column.turns[i], str(column.name, "[", column.first + i, "]"), media, record));
}

void add_prompt(const Json& root, const Column& prompt, ListedMedia& media, Record& record) {
  add_system(root, record);
  add_history(root, media, record);
  if (prompt.name == "instruction")
    record.turns.push_back({Role::kUser, split_text(alpaca_question(root), media)});
  else
    add_column(prompt, Role::kUser, media, record, record.turns);
  put_rest_first(media, record.turns);
  for (Turn& turn : record.turns) turn.is_learned = turn.role != Role::kAssistant;
}

/// Adds an answer behind the prompt.
void add_answer(const Column& answer, ListedMedia& media, Record& record,
                std::vector<Turn>& turns) {
  const bool is_reply = !turns.empty() && turns.back().role == Role::kUser;
  if (!is_reply || answer.is_empty() || (answer.text == nullptr && !is_answer(*answer.turns[0])))
    refuse("no_prompt",
           str(answer.name, " is no answer to a question that it shares with the other one"));
  add_column(answer, Role::kAssistant, media, record, turns);
}

}  // namespace

bool has_preference(const Json& root) {
  return (find(root, "chosen") != nullptr && find(root, "rejected") != nullptr) ||
         is_there(root, "rejected_response") || is_there(root, "rejected_messages");
}

void read_preference(const Json& root, const RecordOptions&, Record& record) {
  refuse_unread(root, RecordObject::kPreference, "record", record);
  const Pair pair = part_record(root);
  if (is_there(root, "input") && pair.prompt.name != "instruction")
    refuse("bad_form", "input without an instruction");
  ListedMedia media(root, record);
  add_prompt(root, pair.prompt, media, record);
  record.rejected = record.turns;
  add_answer(pair.chosen, media, record, record.turns);
  add_answer(pair.rejected, media, record, record.rejected);
  media.check_counts();
  check_turns(record.turns, "chosen");
  check_turns(record.rejected, "rejected");
}

}  // namespace tributary::data
