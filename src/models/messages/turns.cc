#include "messages/turns.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "json_node.h"
#include "json_writer.h"
#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::models::messages {

namespace {

constexpr std::string_view kOpening = "Begin.";

struct Call {
  const ToolCallPart* call = nullptr;
  const Part* result = nullptr;
  std::string id = {};  // as it is written
};

bool is_legal_id(std::string_view id) {
  return !id.empty() && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string shown(std::string_view text) {
  constexpr std::size_t kShownMax = 64;
  return std::string(text.substr(0, kShownMax));
}

// Anthropic refuses a text of nothing but white space.
bool says_nothing(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_thinking(const Part* part) {
  return std::holds_alternative<ThinkingPart>(part->content);
}

// Where it leads already, what comes later stays in its place among the rest.
void put_thinking_first(std::vector<const Part*>& parts) {
  if (is_thinking(parts.front()) || std::ranges::none_of(parts, is_thinking)) return;
  std::vector<const Part*> ordered;
  std::ranges::copy_if(parts, std::back_inserter(ordered), is_thinking);
  std::ranges::copy_if(parts, std::back_inserter(ordered), std::not_fn(is_thinking));
  parts = std::move(ordered);
}

// Each tool result goes to the first call of its id that has none yet: some models count their
// calls from zero in every turn.
class Calls {
 public:
  Result<void> pair(const Request& request) {
    for (const Message& message : request.messages)
      for (const Part& part : message.parts) {
        if (const auto* call = std::get_if<ToolCallPart>(&part.content)) add(*call);
        if (const auto* result = std::get_if<ToolResultPart>(&part.content))
          TRY_VOID(give(result->call_id, part));
      }
    for (const Call& call : all_)
      if (call.result == nullptr)
        return unwritable(fmt::format("tool call \"{}\" ({}) has no result: add one after it",
                                      shown(call.call->id), shown(call.call->name)));
    return {};
  }
  const Call& operator[](std::size_t index) const { return all_[index]; }

 private:
  void add(const ToolCallPart& call) {
    open_[call.id].push_back(all_.size());
    std::string id = call.id;
    for (int nth = 0; !is_legal_id(id) || !used_.insert(id).second; ++nth)
      id = "toolu_" + sha256_hex(fmt::format("{}#{}", call.id, nth)).substr(0, 24);
    all_.push_back({.call = &call, .id = std::move(id)});
  }

  Result<void> give(const std::string& id, const Part& result) {
    const auto found = open_.find(id);
    if (found == open_.end() || found->second.empty())
      return unwritable(fmt::format(
          "a tool result for call \"{}\", which no message before it makes", shown(id)));
    all_[found->second.front()].result = &result;
    found->second.erase(found->second.begin());
    return {};
  }

  std::vector<Call> all_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> open_;
  std::unordered_set<std::string> used_;
};

class TurnMaker {
 public:
  TurnMaker(Turns& out, Omitted& omitted) : out_(out), omitted_(omitted) {}

  Result<void> make(const Request& request) {
    TRY_VOID(calls_.pair(request));
    for (const Message& message : request.messages) TRY_VOID(take(message));
    TRY_VOID(place_results());
    join_turns();
    if (out_.turns.empty() || out_.turns.front().role != Role::kUser)
      out_.turns.insert(
          out_.turns.begin(),
          {.role = Role::kUser,
           .parts = {&out_.made.emplace_back(Part{TextPart{std::string(kOpening)}})}});
    for (Turn& turn : out_.turns) put_thinking_first(turn.parts);
    trim_last();
    return {};
  }

 private:
  Result<void> take(const Message& message) {
    if (message.role == Role::kSystem || message.role == Role::kDeveloper)
      return take_system(message);
    for (const Part& part : message.parts) TRY_VOID(take_part(part, message.role));
    return {};
  }

  Result<void> take_system(const Message& message) {
    for (const Part& part : message.parts) {
      const auto* text = std::get_if<TextPart>(&part.content);
      if (text == nullptr)
        return unwritable("a message of the system or developer may hold text only");
      if (says_nothing(text->text)) continue;
      if (out_.turns.empty()) {
        out_.system.push_back(&part);
        continue;
      }
      Part& marked = out_.made.emplace_back(
          Part{TextPart{fmt::format("<system>\n{}\n</system>", text->text)}, part.cache});
      turn_of(Role::kUser).parts.push_back(&marked);
    }
    return {};
  }

  Result<void> take_part(const Part& part, Role role) {
    if (std::holds_alternative<ToolResultPart>(part.content)) {
      turn_of(Role::kUser);  // parts what the assistant said before it from what it says after
      return {};
    }
    if (const auto* call = std::get_if<ToolCallPart>(&part.content)) return take_call(part, *call);
    if (const Part* fitting = TRY(fit(part, role))) turn_of(role).parts.push_back(fitting);
    return {};
  }

  // Null: nothing to say.
  Result<const Part*> fit(const Part& part, Role role) {
    if (const auto* text = std::get_if<TextPart>(&part.content))
      return says_nothing(text->text) ? nullptr : &part;
    if (const auto* refusal = std::get_if<RefusalPart>(&part.content))
      return says_nothing(refusal->text) ? nullptr : &part;
    if (const auto* thinking = std::get_if<ThinkingPart>(&part.content))
      return thinking->author == Protocol::kMessages && !thinking->proof.empty() &&
                     role == Role::kAssistant
                 ? &part
                 : nullptr;
    if (const auto* opaque = std::get_if<OpaquePart>(&part.content)) {
      if (opaque->protocol == Protocol::kMessages) return &part;
      return unwritable(
          fmt::format("\"{}\" is known only to the {} protocol: leave it out, or choose a model "
                      "that is reached "
                      "through it",
                      shown(opaque->type), name_of(opaque->protocol)));
    }
    if (role == Role::kAssistant)
      return unwritable("this model takes images and documents from the user only");
    return fit_media(part, out_.made, omitted_);
  }

  Result<void> take_call(const Part& part, const ToolCallPart& call) {
    Turn& turn = turn_of(Role::kAssistant);
    turn.calls.push_back(next_call_);
    const Call& paired = calls_[next_call_++];
    if (!call.free_form && !call.input.empty()) {
      const auto input = document_.parse(call.input);
      if (!input || !input->is_object())
        return unwritable(fmt::format("the arguments of tool call \"{}\" ({}) are no JSON object",
                                      shown(call.id), shown(call.name)));
      if (paired.id == call.id) {
        turn.parts.push_back(&part);
        return {};
      }
    }
    Part& written = out_.made.emplace_back(part);
    auto& copy = std::get<ToolCallPart>(written.content);
    copy.id = paired.id;
    if (call.free_form) {
      copy.input.clear();
      JsonWriter(copy.input).begin_object().field("input", call.input).end_object();
    }
    turn.parts.push_back(&written);
    return {};
  }

  Result<void> place_results() {
    for (std::size_t i = 0; i < out_.turns.size(); ++i) {
      if (out_.turns[i].calls.empty()) continue;
      CHECK(i + 1 < out_.turns.size());  // each call has a result, which made a turn of the user
      std::vector<const Part*> results;
      for (const std::size_t call : out_.turns[i].calls)
        results.push_back(TRY(fit_result(calls_[call])));
      auto& parts = out_.turns[i + 1].parts;
      parts.insert(parts.begin(), results.begin(), results.end());
    }
    return {};
  }

  Result<const Part*> fit_result(const Call& call) {
    const auto& given = std::get<ToolResultPart>(call.result->content);
    std::vector<const Part*> content;
    bool as_it_is = given.call_id == call.id;
    for (const Part& part : given.content) {
      const Part* fitting = TRY(fit(part, Role::kUser));
      as_it_is = as_it_is && fitting == &part;
      if (fitting != nullptr) content.push_back(fitting);
    }
    if (as_it_is) return call.result;
    ToolResultPart written{.call_id = call.id, .content = {}, .is_error = given.is_error};
    for (const Part* part : content) written.content.push_back(*part);
    return &out_.made.emplace_back(Part{std::move(written), call.result->cache});
  }

  // A turn whose only results went to an earlier one is empty.
  void join_turns() {
    std::vector<Turn> joined;
    for (Turn& turn : out_.turns) {
      if (turn.parts.empty()) continue;
      if (joined.empty() || joined.back().role != turn.role) {
        joined.push_back(std::move(turn));
        continue;
      }
      auto& parts = joined.back().parts;
      parts.insert(parts.end(), turn.parts.begin(), turn.parts.end());
    }
    out_.turns = std::move(joined);
  }

  // Anthropic refuses a beginning of the answer that ends in white space.
  void trim_last() {
    Turn& last = out_.turns.back();
    if (last.role != Role::kAssistant) return;
    const auto* text = std::get_if<TextPart>(&last.parts.back()->content);
    if (text == nullptr) return;
    const std::size_t end = text->text.find_last_not_of(" \t\r\n");
    if (end == std::string::npos || end + 1 == text->text.size()) return;
    Part& trimmed = out_.made.emplace_back(*last.parts.back());
    std::get<TextPart>(trimmed.content).text.resize(end + 1);
    last.parts.back() = &trimmed;
  }

  Turn& turn_of(Role role) {
    if (out_.turns.empty() || out_.turns.back().role != role)
      out_.turns.push_back({.role = role, .parts = {}});
    return out_.turns.back();
  }

  Turns& out_;
  Omitted& omitted_;
  Calls calls_;
  std::size_t next_call_ = 0;
  JsonDocument document_;
};

}  // namespace

Result<Turns> turns_of(const Request& request, Omitted& omitted) {
  Turns turns;
  TRY_VOID(TurnMaker(turns, omitted).make(request));
  return turns;
}

}  // namespace pons::models::messages
