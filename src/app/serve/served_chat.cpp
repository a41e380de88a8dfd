#include "app/serve/served_chat.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "app/chat/read_media.h"
#include "core/error.h"
#include "core/nearest_name.h"
#include "data/decode/data_url.h"
#include "data/decode/decode_picture.h"

namespace tributary::app {
namespace {

constexpr std::size_t kMaxPictures = 16;
constexpr std::size_t kMaxStopWords = 4;
constexpr std::size_t kMaxShown = 60;  // letters of a value in a message

[[noreturn]] void refuse_parameter(const std::string& where, const std::string& found,
                                   const std::string& expected) {
  TRIB_RAISE(Fault::kInput, .what = "invalid parameter", .where = where, .found = found,
             .expected = expected);
}

/// A value for a message, cut to a few letters: pictures are long.
std::string shown(const Json& value) {
  const std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

/// The value of a key; null when it is missing or null.
const Json* value_of(const Json& object, const char* key) {
  const auto entry = object.find(key);
  return entry == object.end() || entry->is_null() ? nullptr : &*entry;
}

double number_of(const Json& body, const char* key, double otherwise, double min, double max) {
  const Json* value = value_of(body, key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max))
    refuse_parameter(key, shown(*value), str("a number from ", min, " to ", max));
  return value->get<double>();
}

bool flag_of(const Json& object, const char* key, const std::string& where) {
  const Json* value = value_of(object, key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse_parameter(where, shown(*value), "true or false");
  return value->get<bool>();
}

const std::string& text_at(const Json& object, const char* key, const std::string& where) {
  const Json* value = value_of(object, key);
  if (value == nullptr || !value->is_string())
    refuse_parameter(where, value == nullptr ? "nothing" : shown(*value), "a text");
  return value->get_ref<const std::string&>();
}

// -- Messages --

ChatPicture picture_of(const Json& part, const std::string& where) {
  const Json* image = value_of(part, "image_url");
  if (image == nullptr || !image->is_object())
    refuse_parameter(where, image == nullptr ? "nothing" : shown(*image), "an object with `url`");
  const std::string& url = text_at(*image, "url", where + ".url");
  if (!data::is_data_url(url))
    refuse_parameter(where + ".url", shown(url),
                     "data:image/...;base64,...: this server opens no addresses");
  const auto bytes = data::decode_data_url(url);
  if (!bytes) refuse_parameter(where + ".url", bytes.refusal().reason, "a picture as a data URL");
  Result<data::Picture> picture = data::decode_picture(bytes.value());
  if (!picture)
    refuse_parameter(where + ".url", str(picture.refusal().code, ": ", picture.refusal().reason),
                     "a JPEG, PNG, WebP, GIF or BMP picture");
  return {.name = where, .picture = std::move(picture).value()};
}

void add_part(const Json& part, const std::string& where, data::Turn& turn, ChatRequest& chat) {
  if (!part.is_object()) refuse_parameter(where, shown(part), "an object with `type`");
  const std::string& type = text_at(part, "type", where + ".type");
  if (type == "text") {
    turn.parts.emplace_back(text_at(part, "text", where + ".text"));
  } else if (type == "image_url" && turn.role == data::Role::kUser) {
    if (chat.pictures.size() == kMaxPictures)
      refuse_parameter(where, "one more picture", str("at most ", kMaxPictures, " in a request"));
    add_picture(picture_of(part, where + ".image_url"), turn, chat);
  } else {
    refuse_parameter(where + ".type", shown(part.at("type")),
                     turn.role == data::Role::kUser ? "text or image_url" : "text");
  }
}

data::Role role_of(const Json& message, const std::string& where) {
  const std::string& role = text_at(message, "role", where);
  if (role == "user") return data::Role::kUser;
  if (role == "assistant") return data::Role::kAssistant;
  if (role == "system" || role == "developer") return data::Role::kSystem;
  refuse_parameter(where, escaped(role), "system, developer, user or assistant");
}

void add_message(const Json& message, const std::string& where, ChatRequest& chat) {
  if (!message.is_object()) refuse_parameter(where, shown(message), "an object");
  data::Turn turn;
  turn.role = role_of(message, where + ".role");
  for (const char* key : {"tool_calls", "function_call", "audio"})
    if (const Json* value = value_of(message, key); value != nullptr && !value->empty())
      refuse_parameter(str(where, ".", key), shown(*value), "nothing: it is not supported");
  if (turn.role == data::Role::kSystem && !chat.turns.empty())
    refuse_parameter(where + ".role", "a system turn behind others", "at most one, as the first");
  const Json* content = value_of(message, "content");
  if (content != nullptr && content->is_string()) {
    turn.parts.emplace_back(content->get<std::string>());
  } else if (content != nullptr && content->is_array() && !content->empty()) {
    for (std::size_t i = 0; i < content->size(); ++i)
      add_part((*content)[i], str(where, ".content[", i, "]"), turn, chat);
  } else {
    refuse_parameter(where + ".content", content == nullptr ? "nothing" : shown(*content),
                     "a text, or a list of parts");
  }
  chat.turns.push_back(std::move(turn));
}

void read_messages(const Json& body, ServedChat& served) {
  const Json* messages = value_of(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    refuse_parameter("messages", messages == nullptr ? "nothing" : shown(*messages),
                     "a list of at least one message");
  for (std::size_t i = 0; i < messages->size(); ++i)
    add_message((*messages)[i], str("messages[", i, "]"), served.chat);
  if (served.chat.turns.back().role != data::Role::kUser)
    refuse_parameter(str("messages[", messages->size() - 1, "].role"),
                     shown(messages->back().at("role")),
                     "user: the model answers what a user says");
}

// -- Other parameters --

void read_max_tokens(const Json& body, ServedChat& served) {
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    const Json* value = value_of(body, key);
    if (value == nullptr) continue;
    if (!value->is_number_integer() || *value < 1)
      refuse_parameter(key, shown(*value), "a whole number of at least 1");
    if (served.chat.max_new_tokens && *value != *served.chat.max_new_tokens)
      refuse_parameter(key, shown(*value), "the same as max_tokens, or one of them alone");
    served.chat.max_new_tokens = value->get<std::int64_t>();
    served.chat.limit_name = key;
  }
}

void read_seed(const Json& body, ServedChat& served) {
  const Json* value = value_of(body, "seed");
  if (value == nullptr) {
    served.chat.seed = std::random_device()();
    return;
  }
  if (!value->is_number_integer()) refuse_parameter("seed", shown(*value), "a whole number");
  served.chat.seed = static_cast<std::uint64_t>(value->get<std::int64_t>());
}

void read_stop(const Json& body, ServedChat& served) {
  const Json* value = value_of(body, "stop");
  if (value == nullptr) return;
  const Json words = value->is_array() ? *value : Json::array({*value});
  const bool are_texts = std::ranges::all_of(words, [](const Json& word) {
    return word.is_string() && !word.get_ref<const std::string&>().empty();
  });
  if (!are_texts || words.size() > kMaxStopWords)
    refuse_parameter("stop", shown(*value), str("a text, or up to ", kMaxStopWords, " of them"));
  served.stop = words.get<std::vector<std::string>>();
}

void read_streaming(const Json& body, ServedChat& served) {
  served.streams = flag_of(body, "stream", "stream");
  const Json* options = value_of(body, "stream_options");
  if (options == nullptr) return;
  if (!options->is_object() || !served.streams)
    refuse_parameter("stream_options", shown(*options), "an object, beside stream: true");
  served.counts_usage = flag_of(*options, "include_usage", "stream_options.include_usage");
}

constexpr std::array kRead{"model",       "messages",      "max_tokens", "max_completion_tokens",
                           "temperature", "top_p",         "seed",       "stop",
                           "stream",      "stream_options"};
/// Parameters that say nothing about the answer.
constexpr std::array kIgnored{"user",
                              "metadata",
                              "store",
                              "service_tier",
                              "safety_identifier",
                              "prompt_cache_key",
                              "parallel_tool_calls"};
/// A parameter that is taken only with the value that changes nothing.
struct Fixed {
  const char* name;
  const char* only;  // JSON
};
constexpr std::array kFixed{Fixed{"n", "1"},
                            Fixed{"presence_penalty", "0"},
                            Fixed{"frequency_penalty", "0"},
                            Fixed{"logprobs", "false"},
                            Fixed{"top_logprobs", "0"},
                            Fixed{"logit_bias", "{}"},
                            Fixed{"tools", "[]"},
                            Fixed{"functions", "[]"},
                            Fixed{"tool_choice", "\"none\""},
                            Fixed{"response_format", "{\"type\":\"text\"}"},
                            Fixed{"modalities", "[\"text\"]"}};

void check_keys(const Json& body) {
  const std::vector<std::string> known(kRead.begin(), kRead.end());
  for (const auto& [name, value] : body.items()) {
    if (std::ranges::find(known, name) != known.end() || value.is_null()) continue;
    if (std::ranges::find(kIgnored, std::string_view(name)) != kIgnored.end()) continue;
    const auto* fixed = std::ranges::find(kFixed, std::string_view(name), &Fixed::name);
    if (fixed == kFixed.end()) {
      const std::string nearest = nearest_name(name, known);
      refuse_parameter(name.substr(0, kMaxShown), "an unknown parameter",
                       nearest.empty() ? "one that this server knows" : str("`", nearest, "`?"));
    }
    if (value != Json::parse(fixed->only))
      refuse_parameter(name, shown(value), str(fixed->only, ": no other value is supported"));
  }
}

}  // namespace

ServedChat read_served_chat(const Json& body, bool sees_pictures) {
  if (!body.is_object()) refuse_parameter("body", body.type_name(), "a JSON object");
  check_keys(body);
  ServedChat served;
  read_messages(body, served);
  if (!served.chat.pictures.empty() && !sees_pictures)
    refuse_parameter("messages", "a picture", "text alone: the model has no vision tower");
  constexpr double kMaxTemperature = 2;
  constexpr double kMinTopP = 1e-6;  // above 0: some token has to be left
  served.chat.temperature = number_of(body, "temperature", 1, 0, kMaxTemperature);
  served.chat.top_p = number_of(body, "top_p", 1, kMinTopP, 1);
  read_max_tokens(body, served);
  read_seed(body, served);
  read_stop(body, served);
  read_streaming(body, served);
  return served;
}

}  // namespace tributary::app
