#include "transcript.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/tool_text.h"

namespace pons::session {

namespace {

constexpr JsonLimits kLimits{.depth = 128, .bytes = std::size_t{64} << 20};

std::string type_of(const Json& block) {
  const auto found = block.find("type");
  return found != block.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Of what a tool has answered: its texts, and a word for all else.
std::string words_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return dump_json(content);
  std::string words;
  for (const Json& block : content) {
    if (!block.is_object()) continue;
    if (!words.empty()) words += '\n';
    const auto text = block.find("text");
    words += text != block.end() && text->is_string() ? text->get<std::string>()
                                                      : fmt::format("[{}]", type_of(block));
  }
  return words;
}

std::string words_at(const Json& block, const char* key) {
  const auto found = block.find(key);
  return found == block.end() ? std::string() : words_of(*found);
}

// Empty: it is nobody else's to read.
std::string part_of(const Json& block, std::string_view who, const TranscriptOrder& order) {
  if (!block.is_object()) return {};
  const std::string type = type_of(block);
  if (type == "thinking" || type == "redacted_thinking") return {};
  if (type == "text")
    return fmt::format("{}: {}\n", who, shorten(words_at(block, "text"), order.text_bytes));
  if (type == "tool_use")
    return fmt::format("{} calls {}: {}\n", who, words_at(block, "name"),
                       shorten(words_at(block, "input"), order.result_bytes));
  if (type == "tool_result")
    return fmt::format("result: {}\n", shorten(words_at(block, "content"), order.result_bytes));
  return fmt::format("{}: [{}]\n", who, type);
}

std::vector<std::string> parts_of(const Message& message, const TranscriptOrder& order) {
  std::vector<std::string> parts;
  const auto blocks = parse_json(*message.content, kLimits);
  if (!blocks || !blocks->is_array()) return parts;
  const std::string_view who = message.role == Message::Role::kAssistant ? order.agent : "user";
  for (const Json& block : *blocks)
    if (std::string part = part_of(block, who, order); !part.empty())
      parts.push_back(std::move(part));
  return parts;
}

}  // namespace

// The first message says what all of it is about, or what was said before it in short; of the rest,
// what is newest counts most.
std::string write_transcript(const State& state, const TranscriptOrder& order) {
  std::string beginning;
  std::vector<std::string> parts;
  for (const Message& message : state.messages) {
    auto more = parts_of(message, order);
    if (&message == &state.messages.front())
      for (const std::string& part : more) beginning += part;
    else
      std::ranges::move(more, std::back_inserter(parts));
  }
  beginning = shorten(beginning, order.bytes_max / 2);
  std::size_t first = parts.size();
  for (std::size_t bytes = beginning.size(); first > 0; --first) {
    bytes += parts[first - 1].size();
    if (bytes > order.bytes_max) break;
  }
  std::string all = std::move(beginning);
  if (first > 0) all += fmt::format("[… {} parts are left out here …]\n", first);
  for (std::size_t i = first; i < parts.size(); ++i) all += parts[i];
  return all;
}

}  // namespace pons::session
