#include "config/reading/yaml_tree.h"

#include <algorithm>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace tributary::config {
namespace {

/// The first byte that is not well-formed UTF-8 (overlong forms and surrogates are not), or npos.
std::size_t find_bad_utf8(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = at(i);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || lead == 0) return i;
    for (std::size_t k = 1; k < length; ++k)
      if ((at(i + k) & 0xC0u) != 0x80) return i;
    const unsigned second = at(i + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
      return i;
    i += length;
  }
  return std::string_view::npos;
}

void check_bytes(std::string_view text, const std::string& file) {
  TRIB_REQUIRE(text.size() <= kMaxConfigBytes, .what = "config: file is larger than the limit",
               .where = file, .found = str("at least ", text.size(), " bytes"),
               .expected = str("at most ", kMaxConfigBytes, " bytes"));
  TRIB_REQUIRE(!text.starts_with("\xEF\xBB\xBF"), .what = "config: file has a byte order mark",
               .where = str(file, ":1"), .found = "bytes EF BB BF",
               .expected = "UTF-8 without a byte order mark");
  const std::size_t bad = find_bad_utf8(text);
  TRIB_REQUIRE(bad == std::string_view::npos, .what = "config: file is not UTF-8 text",
               .where = str(file, ":", 1 + std::count(text.begin(), text.begin() + bad, '\n')),
               .found = str("byte ", bad, " ", escaped(text.substr(bad, 4))),
               .expected = "UTF-8 without zero bytes");
}

/// Builds the tree from the events of the parser. The library's own tree would drop duplicate keys
/// and hide anchors.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, Problems& problems) : file_(file), problems_(problems) {}

  [[nodiscard]] YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add({.kind = YamlNode::Kind::kNothing, .where = place(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "config: aliases are not allowed", "*alias");
    add({.kind = YamlNode::Kind::kNothing, .where = place(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    add({.kind = YamlNode::Kind::kScalar,
         .text = value,
         .quoted = tag != "?",
         .where = place(mark)});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or map that is not closed yet; a map waits for a key or for its value.
  struct Open {
    YamlNode node;
    bool has_key = false;
    std::string key = {};
    std::string key_where = {};  // messages name the line of the key
  };

  std::string place(const YAML::Mark& mark) const { return str(file_, ":", mark.line + 1); }

  void refuse(const YAML::Mark& mark, const std::string& what, const std::string& found) {
    problems_.add({.what = what,
                   .where = place(mark),
                   .found = found,
                   .expected = "every value written out"});
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse(mark, "config: anchors are not allowed", "&anchor");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, "config: tags are not allowed", escaped(tag));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open_.push_back({.node = {.kind = kind, .where = place(mark)}});
  }
  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (open_.back().node.kind == YamlNode::Kind::kList) {
      open_.back().node.items.push_back(std::move(node));
    } else if (open_.back().has_key) {
      open_.back().has_key = false;
      add_entry(open_.back(), std::move(node));
    } else {
      take_key(open_.back(), node);
    }
  }

  void take_key(Open& map, const YamlNode& key) {
    map.has_key = true;
    map.key = key.text;
    map.key_where = key.where;
    if (key.kind != YamlNode::Kind::kScalar) {
      problems_.add({.what = "config: key is not a text",
                     .where = key.where,
                     .found = describe_found(key),
                     .expected = "key: value"});
    } else if (key.text == "<<" && !key.quoted) {
      problems_.add({.what = "config: merge keys are not allowed",
                     .where = key.where,
                     .found = "<<",
                     .expected = "every value written out"});
    }
  }

  void add_entry(Open& map, YamlNode node) {
    node.where = map.key_where;
    const auto same = std::find_if(map.node.entries.begin(), map.node.entries.end(),
                                   [&](const auto& entry) { return entry.first == map.key; });
    if (same != map.node.entries.end()) {
      problems_.add({.what = "config: duplicate key",
                     .where = node.where,
                     .found = map.key,
                     .expected = str("each key once; the first is at ", same->second.where)});
      return;
    }
    map.node.entries.emplace_back(map.key, std::move(node));
  }

  const std::string& file_;
  Problems& problems_;
  std::vector<Open> open_;
  YamlNode root_;
};

}  // namespace

std::string describe_found(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNothing:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return node.quoted || node.text.empty() ? escaped(node.text) : node.text.substr(0, 200);
    case YamlNode::Kind::kList:
      return str("a list of ", node.items.size());
    case YamlNode::Kind::kMap:
      return node.entries.empty() ? "a map" : str("a map with ", node.entries.front().first);
  }
  return "nothing";
}

YamlNode parse_yaml(std::string_view text, const std::string& file, Problems& problems) {
  check_bytes(text, file);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(file, problems);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    TreeBuilder rest(file, problems);
    TRIB_REQUIRE(!parser.HandleNextDocument(rest), .what = "config: more than one YAML document",
                 .where = file, .expected = "one document, without `---` between",
                 .fix = text.starts_with('{') ? "JSON lines are data: name them in data.sources of "
                                                "a YAML file"
                                              : "");
  } catch (const YAML::Exception& broken) {
    TRIB_RAISE(
        Fault::kInput, .what = "config: not valid YAML",
        .where = str(file, ":", broken.mark.line + 1, ":", broken.mark.column + 1),
        .found = broken.msg, .expected = "key: value, indented by spaces",
        .fix = text.find('\t') == std::string_view::npos ? "" : "write spaces in place of tabs");
  }
  return builder.take();
}

}  // namespace tributary::config
