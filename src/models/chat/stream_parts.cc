#include "chat/stream_parts.h"

#include <algorithm>

#include "chat/chat.h"
#include "pons/base/text.h"

namespace pons::models::chat {

namespace {

constexpr std::size_t kPartsMax = 10'000;
constexpr std::size_t kHeldBytesMax = std::size_t{16} << 20;

Error unreadable(const char* why) {
  return make_error(ErrorCode::kInvalid, "read answer", why);
}

Part new_part(StreamParts::Kind kind) {
  switch (kind) {
    case StreamParts::Kind::kText:
      return {.content = TextPart{.text = {}, .cited_in = Protocol::kChat}};
    case StreamParts::Kind::kRefusal:
      return {.content = RefusalPart{}};
    case StreamParts::Kind::kThinking:
      return {.content = ThinkingPart{.author = Protocol::kChat}};
    case StreamParts::Kind::kTool:
      break;
  }
  return {.content = ToolCallPart{}};
}

}  // namespace

void ObjectEnd::feed(std::string_view text) {
  for (const char c : text) {
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      began_ = true;
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }
}

bool StreamParts::has(Kind kind) const {
  return std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.kind == kind; });
}

bool StreamParts::is_over(const Slot& slot) {
  if (slot.kind != Kind::kTool) return true;
  return std::get<ToolCallPart>(slot.part.content).free_form || slot.arguments.is_reached();
}

void StreamParts::close(const Slot& slot, const AnswerSink& sink) {
  if (slot.kind == Kind::kText) {
    for (const std::string& note : slot.notes)
      sink(CitationCame{.json = note, .cited_in = Protocol::kChat});
  } else if (!slot.notes.empty()) {
    std::string proof;
    for (const std::string& note : slot.notes) proof += (proof.empty() ? "[" : ",") + note;
    sink(ProofCame{.proof = proof + "]"});
  }
  sink(PartEnds{});
}

// Lets out what may go.
void StreamParts::pump(const AnswerSink& sink) {
  while (open_ < slots_.size()) {
    Slot& slot = slots_[open_];
    if (!slot.began) {
      if (auto* call = std::get_if<ToolCallPart>(&slot.part.content)) {
        if (call->name.empty()) return;  // it may come yet
        if (call->id.empty()) call->id = made_id("call_");
      }
      slot.began = true;
      sink(PartBegins{.part = slot.part});
    }
    if (!slot.held.empty()) {
      sink(PartGrows{.text = slot.held});
      held_bytes_ -= slot.held.size();
      slot.held = {};
    }
    if (open_ + 1 == slots_.size() || !is_over(slot)) return;
    close(slot, sink);
    ++open_;
  }
}

Result<std::size_t> StreamParts::add(Slot slot) {
  if (slots_.size() >= kPartsMax) return unreadable("the answer has too many parts");
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

Result<std::size_t> StreamParts::last_of(Kind kind) {
  if (!slots_.empty() && slots_.back().kind == kind) return slots_.size() - 1;
  return add({.kind = kind, .part = new_part(kind), .index = {}, .arguments = {}});
}

Result<void> StreamParts::append(std::size_t at, std::string_view text, const AnswerSink& sink) {
  Slot& slot = slots_[at];
  if (at < open_) {
    if (trim(text).empty()) return {};
    return unreadable("arguments came for a tool call that was whole");
  }
  if (slot.kind == Kind::kTool) slot.arguments.feed(text);
  if (at == open_ && slot.began && slot.held.empty()) {
    if (!text.empty()) sink(PartGrows{.text = text});
  } else {
    slot.held += text;
    held_bytes_ += text.size();
    if (held_bytes_ > kHeldBytesMax) return unreadable("the parts of the answer are too mixed");
  }
  pump(sink);
  return {};
}

Result<void> StreamParts::grow(Kind kind, std::string_view text, const AnswerSink& sink) {
  if (text.empty()) return {};
  return append(TRY(last_of(kind)), text, sink);
}

// Servers differ: some leave the index out, some give the same to all calls, some repeat the id.
Result<std::size_t> StreamParts::find_tool(const ToolDelta& delta) {
  for (std::size_t i = slots_.size(); i-- > 0;) {
    const Slot& slot = slots_[i];
    if (slot.kind != Kind::kTool) continue;
    const auto& call = std::get<ToolCallPart>(slot.part.content);
    const bool other_id = !delta.id.empty() && !call.id.empty() && delta.id != call.id;
    const bool begins_another = !delta.name.empty() && !call.name.empty() &&
                                (other_id || (delta.id.empty() && !delta.index));
    if (delta.index) {
      if (slot.index != delta.index) continue;
      if (begins_another) break;
      return i;
    }
    if (begins_another) break;
    if (!other_id) return i;
  }
  Slot slot{
      .kind = Kind::kTool, .part = new_part(Kind::kTool), .index = delta.index, .arguments = {}};
  return add(std::move(slot));
}

Result<void> StreamParts::grow_tool(const ToolDelta& delta, const AnswerSink& sink) {
  const std::size_t at = TRY(find_tool(delta));
  auto& call = std::get<ToolCallPart>(slots_[at].part.content);
  if (!slots_[at].began) {
    if (call.id.empty()) call.id = delta.id;
    if (call.name.empty()) call.name = delta.name;
    call.free_form = call.free_form || delta.free_form;
  }
  return append(at, delta.input, sink);
}

Result<void> StreamParts::note(Kind kind, std::string json, const AnswerSink& sink) {
  held_bytes_ += json.size();
  if (held_bytes_ > kHeldBytesMax) return unreadable("the answer's annotations are too long");
  // A citation may come after the text it is of.
  for (std::size_t i = slots_.size(); i-- > open_;)
    if (slots_[i].kind == kind) {
      slots_[i].notes.push_back(std::move(json));
      return {};
    }
  const std::size_t at = TRY(last_of(kind));
  slots_[at].notes.push_back(std::move(json));
  return append(at, "", sink);
}

Result<void> StreamParts::end(const AnswerSink& sink) {
  for (pump(sink); open_ < slots_.size(); pump(sink)) {
    if (!slots_[open_].began) return unreadable("a tool call has no name");
    close(slots_[open_++], sink);
  }
  return {};
}

}  // namespace pons::models::chat
