#include "yaml_tree.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <spanstream>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "pons/base/text.h"
#include "quote.h"

namespace pons::config {

namespace {

Mark mark_of(const YAML::Mark& mark) {
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

// yaml-cpp asks its handler nothing: an exception is the only way to stop it. Caught in parse_yaml.
struct Refusal : YAML::ParserException {
  using YAML::ParserException::ParserException;
};

[[noreturn]] void refuse(const YAML::Mark& mark, const std::string& message) {
  throw Refusal(mark, message);
}

// Builds the tree from the parser's events, outermost first. Depth lives in a vector, not on the
// stack.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  YamlDocument take() { return {std::move(root_), std::move(duplicates_)}; }

  // Where the innermost list or mapping begins that is not closed yet.
  Mark innermost_open() const { return open_.empty() ? Mark{} : open_.back().node.mark; }
  // Where the last thing stands that was understood.
  Mark last() const { return last_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(begun_, true))
      refuse(mark, "a second YAML document begins here; keep one document in the file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, "?", anchor, {.kind = NodeKind::kNull, .mark = mark_of(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not allowed; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool is_text = tag == "!" || tag == kCoreTag + "str";
    add(mark, tag, anchor,
        {.kind = NodeKind::kScalar,
         .style = is_text ? ScalarStyle::kQuoted : ScalarStyle::kPlain,
         .text = value,
         .mark = mark_of(mark)});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, {.kind = NodeKind::kSequence, .mark = mark_of(mark)});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, {.kind = NodeKind::kMapping, .mark = mark_of(mark)});
  }
  void OnMapEnd() override { close(); }

 private:
  enum class Expects : std::uint8_t { kKey, kValue, kDroppedValue };

  struct Open {
    Node node;
    Expects expects = Expects::kKey;  // of a mapping
    std::string key;
    Mark key_mark;
    std::map<std::string, Mark> seen;
  };

  static inline const std::string kCoreTag = "tag:yaml.org,2002:";

  bool at_key() const {
    return !open_.empty() && open_.back().node.kind == NodeKind::kMapping &&
           open_.back().expects == Expects::kKey;
  }

  // What every node has to pass, whatever its kind.
  void admit(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    if (anchor != YAML::NullAnchor)
      refuse(mark, "anchors (&name) are not allowed; remove it and write each value out");
    last_ = mark_of(mark);
    if (++nodes_ > kYamlNodesMax)
      refuse(mark, fmt::format("more than {} values; split or shorten the file", kYamlNodesMax));
    if (at_key() && kind != NodeKind::kScalar)
      refuse(mark, "a key must be a word; write it as name: value");
    static const std::map<std::string, NodeKind> kTags = {
        {kCoreTag + "str", NodeKind::kScalar},   {kCoreTag + "int", NodeKind::kScalar},
        {kCoreTag + "bool", NodeKind::kScalar},  {kCoreTag + "float", NodeKind::kScalar},
        {kCoreTag + "seq", NodeKind::kSequence}, {kCoreTag + "map", NodeKind::kMapping}};
    if (tag.empty() || tag == "?" || tag == "!") return;
    if (const auto known = kTags.find(tag); known == kTags.end() || known->second != kind)
      refuse(mark, fmt::format("the tag {} is not allowed here; remove it", quote(tag)));
  }

  void add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node node) {
    admit(mark, tag, anchor, node.kind);
    if (at_key())
      begin_member(std::move(node));
    else
      attach(std::move(node));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node node) {
    admit(mark, tag, anchor, node.kind);
    if (open_.size() >= kYamlDepthMax)
      refuse(mark, fmt::format("nested deeper than {} levels; flatten it", kYamlDepthMax));
    open_.push_back({.node = std::move(node)});
  }

  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    attach(std::move(node));
  }

  void begin_member(Node key) {
    Open& mapping = open_.back();
    const auto [first, is_new] = mapping.seen.try_emplace(key.text, key.mark);
    if (!is_new)
      duplicates_.push_back(
          {file_, key.mark.line, key.mark.column,
           fmt::format("key {} stands here and at {}:{}; remove one of the two", quote(key.text),
                       first->second.line, first->second.column)});
    mapping.expects = is_new ? Expects::kValue : Expects::kDroppedValue;
    mapping.key = std::move(key.text);
    mapping.key_mark = key.mark;
  }

  void attach(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == NodeKind::kMapping) {
      node.key = std::move(parent.key);
      node.key_mark = parent.key_mark;
      // yaml-cpp places a missing value wherever the next token happens to be.
      if (node.kind == NodeKind::kNull) node.mark = node.key_mark;
      if (std::exchange(parent.expects, Expects::kKey) == Expects::kDroppedValue) return;
    }
    parent.node.children.push_back(std::move(node));
  }

  const std::string& file_;
  bool begun_ = false;
  std::size_t nodes_ = 0;
  Mark last_;
  std::vector<Open> open_;
  Node root_;
  ConfigErrors duplicates_;
};

Mark mark_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto newline = before.rfind('\n');
  const auto line_start = newline == std::string_view::npos ? 0 : newline + 1;
  return {static_cast<int>(std::ranges::count(before, '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

// yaml-cpp guesses UTF-16 and UTF-32 from NUL bytes and takes the byte 0x04 for the end of the
// file, so that whatever follows it would be ignored: neither may reach it.
std::optional<std::pair<Mark, std::string>> find_bad_byte(std::string_view text) {
  const auto control = std::ranges::find_if(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F;
  });
  if (control != text.end())
    return std::pair(mark_at(text, static_cast<std::size_t>(control - text.begin())),
                     fmt::format("the control character 0x{:02x} is not allowed; remove it",
                                 static_cast<unsigned char>(*control)));
  if (is_valid_utf8(text)) return std::nullopt;
  // A line break never stands inside a character, so a line can be judged alone.
  std::size_t offset = 0;
  for (const std::string_view line : split(text, '\n')) {
    if (!is_valid_utf8(line)) break;
    offset += line.size() + 1;
  }
  return std::pair(mark_at(text, offset),
                   std::string("this line is not UTF-8; save the file as UTF-8"));
}

// The first line that holds something although the document is empty, such as a directive.
std::optional<Mark> find_ignored_line(std::string_view text) {
  int line_number = 1;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view content = trim(line);
    if (!content.empty() && !content.starts_with('#') && content != "---" && content != "...")
      return Mark{line_number, 1};
    ++line_number;
  }
  return std::nullopt;
}

// yaml-cpp names its grammar; people need the next step.
std::string explain(const std::string& message) {
  static const std::map<std::string_view, std::string_view> kAdvice = {
      {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a list opened with [ is not closed; add ]"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW,
       "a mapping opened with { is not closed, or holds text that needs quotes; add } or quote the "
       "text"},
      {YAML::ErrorMsg::EOF_IN_SCALAR, "a quoted text is not closed; add the closing quote"},
      {YAML::ErrorMsg::DOC_IN_SCALAR, "a quoted text is not closed; add the closing quote"},
      {YAML::ErrorMsg::MAP_VALUE,
       "a second \": \" in one line; quote the text, or put the inner key on its own line"},
      {YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab in the indentation; use spaces"},
      {YAML::ErrorMsg::BLOCK_ENTRY,
       "a list item is not allowed here; check the indentation, and use spaces instead of tabs"},
      {YAML::ErrorMsg::MAP_KEY, "a key is not allowed here; check the indentation"},
      {YAML::ErrorMsg::END_OF_MAP,
       "this line does not continue the mapping; check the indentation, and write name: value"},
      {YAML::ErrorMsg::END_OF_SEQ, "this line does not continue the list; check the indentation"},
      {YAML::ErrorMsg::UNKNOWN_ANCHOR, "aliases (*name) are not allowed; write the value out"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN, "a character that cannot begin a value; quote the text"},
  };
  if (const auto advice = kAdvice.find(message); advice != kAdvice.end())
    return std::string(advice->second);
  // What follows a colon repeats raw bytes of the file.
  return fmt::format("not valid YAML ({}); correct or quote the text here",
                     message.substr(0, message.find(':')));
}

// At the end of the text a position helps nobody: better where the open list or mapping begins, or
// the last thing that was understood.
Mark place_of(const YAML::Exception& error, std::string_view text, const TreeBuilder& builder) {
  const Mark place = mark_of(error.mark);
  const auto content_end = text.find_last_not_of(" \t\r\n") + 1;
  const bool at_end = error.mark.pos < 0 || static_cast<std::size_t>(error.mark.pos) >= content_end;
  if (!at_end && place >= builder.innermost_open()) return place;
  const bool is_unclosed =
      error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW || error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
  return is_unclosed ? builder.innermost_open() : builder.last();
}

}  // namespace

std::expected<YamlDocument, ConfigIssue> parse_yaml(std::string_view text,
                                                    const std::string& file) {
  const auto issue = [&](Mark mark, std::string message) {
    mark = std::min(mark, mark_at(text, text.size()));  // never in what is appended below
    return std::unexpected(ConfigIssue{file, mark.line, mark.column, std::move(message)});
  };
  if (text.size() > kYamlBytesMax)
    return issue({}, fmt::format("{} bytes are more than the {} a configuration may have; shorten "
                                 "the file",
                                 text.size(), kYamlBytesMax));
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (auto bad = find_bad_byte(text)) return issue(bad->first, std::move(bad->second));

  // yaml-cpp lets the end of the file close a quoted text, which would swallow every key after a
  // forgotten quote. It does not let an end-of-document marker do so.
  const std::string closed_text = std::string(text) + "\n...\n";
  TreeBuilder builder(file);
  try {
    std::ispanstream stream(closed_text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;  // the builder refuses a second one
  } catch (const Refusal& refusal) {
    return issue(mark_of(refusal.mark), refusal.msg);
  } catch (const YAML::Exception& error) {
    return issue(place_of(error, text, builder), explain(error.msg));
  } catch (const std::exception& error) {
    return issue({}, fmt::format("not readable as YAML ({}); simplify the file", error.what()));
  }
  YamlDocument document = builder.take();
  if (document.root.kind == NodeKind::kNull) {
    if (const auto ignored = find_ignored_line(text))
      return issue(*ignored, "this line sets nothing; write name: value, or remove it");
  }
  return document;
}

}  // namespace pons::config
