#include "core/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"

namespace tributary {
namespace {

/// Thrown to leave the parser; caught only in try_parse_json.
struct Refused {
  Refusal refusal;
};

/// Refuses what the grammar allows and we do not: deep nesting, and duplicate keys.
class Watcher {
 public:
  explicit Watcher(int max_depth) : max_depth_(max_depth) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > max_depth_)
      throw Refused{{"too_deep", str("nested too deep, expected depth <= ", max_depth_)}};
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        throw Refused{{"duplicate_key", "duplicate key " + escaped(key)}};
    }
    return true;
  }

 private:
  int max_depth_;
  std::vector<std::set<std::string>> keys_;  // of every open object
};

/// The library's message without its error number and position, and with only the end of the text
/// that it read last.
std::string explain(const Json::exception& broken) {
  constexpr std::size_t kMaxRead = 40;
  constexpr std::string_view kRead = "; last read: '";
  std::string text = broken.what();
  const std::size_t syntax = text.find("syntax error while parsing ");
  const std::size_t begin =
      syntax == std::string::npos ? text.find("] ") : text.find(" - ", syntax);
  if (begin != std::string::npos) text.erase(0, text.find(' ', begin + 1) + 1);
  const std::size_t at = text.find(kRead);
  const std::size_t end = text.rfind('\'');
  if (at == std::string::npos || end < at + kRead.size()) return text;
  const std::string read = text.substr(at + kRead.size(), end - at - kRead.size());
  return str(text.substr(0, at), " after ",
             escaped(read.substr(read.size() - std::min(read.size(), kMaxRead))),
             text.substr(end + 1));
}

}  // namespace

Result<Json> try_parse_json(std::string_view text, JsonLimits limits) {
  if (text.size() > limits.max_bytes)
    return Refusal{"too_large", str(text.size(), " bytes, expected at most ", limits.max_bytes)};
  Watcher watcher(limits.max_depth);
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return watcher(depth, event, parsed);
    });
  } catch (const Refused& refused) {
    return refused.refusal;
  } catch (const Json::parse_error& broken) {
    const std::string why = explain(broken);
    return Refusal{why.find("UTF-8") == std::string::npos ? "not_json" : "not_utf8",
                   str("byte ", broken.byte, ": ", why)};
  } catch (const Json::exception& broken) {  // a number out of range
    return Refusal{"not_json", explain(broken)};
  }
}

Json parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  Result<Json> parsed = try_parse_json(text, limits);
  if (parsed) return std::move(parsed).value();
  const Refusal& refusal = parsed.refusal();
  TRIB_RAISE(Fault::kInput,
             .what = refusal.code == "too_large" ? "json: text is larger than the limit"
                                                 : "json: not valid JSON",
             .where = std::string(where), .found = refusal.reason);
}

}  // namespace tributary
