#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/record/record_fields.h"

namespace tributary::data {

/// Reads the OpenAI form: a list of turns with `role` and `content`. errors: Refused
void read_messages(const Json& root, const RecordOptions& options, Record& record);
/// The columns of the ShareGPT form, of which a record has one.
inline constexpr std::string_view kConversations[] = {"conversations", "conversation"};
/// Reads the ShareGPT form: a list of turns with `from` and `value`, or of questions with their
/// answers (`human`, `assistant`). errors: Refused
void read_conversations(const Json& root, const RecordOptions& options, Record& record);

/// Adds the system turn that stands in a column beside the others.
void add_system(const Json& root, Record& record);
/// Reads a turn with `role` and `content`, or with `from` and `value`.
[[nodiscard]] Turn read_turn(const Json& turn, const std::string& where, ListedMedia& media,
                             Record& record);
/// Adds the turns of a list in the OpenAI form that is the value of column `name`.
void add_messages(const Json& list, const std::string& name, ListedMedia& media, Record& record);
/// Refuses turns from which nothing can be learned. `name` is that of the list, for the message.
void check_turns(const std::vector<Turn>& turns, const std::string& name);

}  // namespace tributary::data
