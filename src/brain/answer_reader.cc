#include "answer_reader.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::brain {

namespace {

constexpr std::size_t kBlocksMax = 1'000;
// Of what is kept of it; as it comes, each piece has a frame around it.
constexpr std::size_t kAnswerBytesMax = 4 << 20;
constexpr std::size_t kStreamBytesMax = 64 << 20;
// So that the whole answer is no deeper than anyone reads.
constexpr JsonLimits kLimits{.depth = 32};

const Json* find(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

std::string text_at(const Json& json, const char* key) {
  const Json* value = find(json, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// Numbers only grow within an answer; what is not said again stays.
void take_number(const Json& usage, const char* key, std::int64_t& number) {
  const Json* value = find(usage, key);
  constexpr std::int64_t kMost = 1'000'000'000'000'000;
  if (value != nullptr && value->is_number_integer())
    number = std::clamp<std::int64_t>(value->get<std::int64_t>(), 0, kMost);
}

void take_usage(const Json* usage, session::Usage& into) {
  if (usage == nullptr) return;
  take_number(*usage, "input_tokens", into.input);
  take_number(*usage, "cache_read_input_tokens", into.cache_read);
  take_number(*usage, "cache_creation_input_tokens", into.cache_write);
  take_number(*usage, "output_tokens", into.output);
}

session::ModelFault fault_named(std::string_view type) {
  if (type == "rate_limit_error") return session::ModelFault::kRateLimited;
  if (type == "overloaded_error") return session::ModelFault::kOverloaded;
  return session::ModelFault::kOther;
}

// Arguments that are no object: what the model wrote, in one. The tool refuses it, and the protocol
// takes it back.
Json unreadable(std::string_view text) {
  return {{"unreadable", text}};
}

Json whole_block(std::string_view start, std::string_view text, std::string_view partial,
                 std::string_view signature, const std::vector<std::string>& citations) {
  Json block = *parse_json(start);
  const std::string type = text_at(block, "type");
  const char* const place = type == "thinking" ? "thinking" : "text";
  if (!text.empty()) block[place] = text_at(block, place) + std::string(text);
  if (!signature.empty()) block["signature"] = signature;
  for (const std::string& citation : citations) block["citations"].push_back(*parse_json(citation));
  if (!partial.empty()) {
    auto input = parse_json(partial, kLimits);
    block["input"] = input && input->is_object() ? std::move(*input) : unreadable(partial);
  }
  if (type == "tool_use" && (!block.contains("input") || !block["input"].is_object()))
    block["input"] =
        block.contains("input") ? unreadable(dump_json(block["input"])) : Json::object();
  return block;
}

}  // namespace

void AnswerReader::refuse(const char* why) {
  if (refusal_.empty()) refusal_ = why;
}

Result<void> AnswerReader::feed(std::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > kStreamBytesMax) refuse("the answer is too long");
  if (refusal_.empty()) {
    const auto parsed = parser_.feed(bytes, [this](const http::ServerEvent& event) {
      if (refusal_.empty()) take_event(event);
    });
    if (!parsed) return parsed.error();
  }
  if (!refusal_.empty()) return make_error(ErrorCode::kUnavailable, "read answer", refusal_);
  return {};
}

void AnswerReader::take_event(const http::ServerEvent& event) {
  if (event.event == "ping") return;
  const auto parsed = parse_json(event.data, kLimits);
  if (!parsed) return refuse("an event of the answer is no JSON");
  const Json& json = *parsed;
  const std::string type = text_at(json, "type");
  // The gateway's is the last word: a provider that says it, too, is not believed.
  if (type == "pons.cost") return take_number(json, "cost_nano_usd", answer_.usage.cost_nano);
  if (stopped_ || failed_) return;
  if (type == "error") {
    failed_ = true;
    if (const Json* error = find(json, "error")) {
      error_message_ = text_at(*error, "message");
      fault_ = fault_named(text_at(*error, "type"));
    }
    return;
  }
  if (type == "message_start") {
    if (std::exchange(begun_, true)) return refuse("the answer begins twice");
    if (const Json* message = find(json, "message")) {
      answer_.model = text_at(*message, "model");
      take_usage(find(*message, "usage"), answer_.usage);
    }
    return;
  }
  if (!begun_) return type == "ping" ? void() : refuse("the answer has no beginning");
  if (type == "message_delta") {
    if (const Json* delta = find(json, "delta"))
      answer_.stop_reason = text_at(*delta, "stop_reason");
    take_usage(find(json, "usage"), answer_.usage);
    return;
  }
  if (type == "message_stop") {
    stopped_ = true;
    return;
  }
  if (type == "content_block_start") {
    const Json* block = find(json, "content_block");
    const Json* index = find(json, "index");
    if (block == nullptr || !block->is_object() || index == nullptr || *index != blocks_.size() ||
        blocks_.size() >= kBlocksMax)
      return refuse("a part of the answer begins where none can");
    if (!blocks_.empty() && is_kept(blocks_.back())) ++kept_blocks_;
    if (text_at(*block, "type") == "tool_use") {
      const std::string id = text_at(*block, "id");
      if (id.empty() || text_at(*block, "name").empty() || !call_ids_.insert(id).second)
        return refuse("a call of the answer has no name or no id of its own");
      // Where it will stand in the answer: the parts before it are all there.
      listener_.on_tool(kept_blocks_, text_at(*block, "name"));
    }
    const std::string kind = text_at(*block, "type");
    if (listener_.on_thinking && (kind == "thinking" || kind == "redacted_thinking"))
      listener_.on_thinking();
    blocks_.push_back({.start = dump_json(*block)});
    keep(blocks_.back().start);
    return;
  }
  if (type != "content_block_delta") return;  // ends of blocks, and what may be new
  const Json* delta = find(json, "delta");
  const Json* index = find(json, "index");
  if (delta == nullptr || index == nullptr || blocks_.empty() || *index != blocks_.size() - 1)
    return refuse("a piece of the answer belongs to no part of it");
  Block& block = blocks_.back();
  const std::string kind = text_at(*delta, "type");
  if (kind == "text_delta") {
    const std::string text = text_at(*delta, "text");
    block.text += keep(text);
    listener_.on_text(text);
  } else if (kind == "thinking_delta") {
    block.text += keep(text_at(*delta, "thinking"));
  } else if (kind == "signature_delta") {
    block.signature += keep(text_at(*delta, "signature"));
  } else if (kind == "input_json_delta") {
    block.partial += keep(text_at(*delta, "partial_json"));
  } else if (kind == "citations_delta") {
    if (const Json* citation = find(*delta, "citation"))
      block.citations.push_back(keep(dump_json(*citation)));
  }
}

std::string AnswerReader::keep(std::string text) {
  kept_ += text.size();
  if (kept_ > kAnswerBytesMax) refuse("the answer is too long");
  return text;
}

// A text of nothing is one that no provider takes back.
bool AnswerReader::is_kept(const Block& block) {
  const Json start = *parse_json(block.start);
  return text_at(start, "type") != "text" || !trim(text_at(start, "text")).empty() ||
         !trim(block.text).empty();
}

session::Answer AnswerReader::take() {
  Json content = Json::array();
  for (const Block& block : blocks_)
    if (is_kept(block))
      content.push_back(
          whole_block(block.start, block.text, block.partial, block.signature, block.citations));
  answer_.content = dump_json(content);
  return std::move(answer_);
}

}  // namespace pons::brain
