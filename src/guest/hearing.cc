#include "hearing.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/session/tools.h"
#include "tool_name.h"

namespace pons::guest {

namespace {

using session::Answer;
using session::NoAnswer;
using session::Trouble;

// An answer is no longer than a session takes.
constexpr std::size_t kAnswerBytesMax = 4 << 20;

// How a turn came to nothing, for a session.
Trouble trouble_of(harness::Fault fault) {
  switch (fault) {
    case harness::Fault::kBudget:
      return Trouble::kBudget;
    case harness::Fault::kCredential:
    case harness::Fault::kOther:  // it has tried as often as it thought right
      return Trouble::kLasting;
    default:
      return Trouble::kPassing;
  }
}

Json text_block(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

bool is_word(const harness::Event& event) {
  return std::holds_alternative<harness::TextDelta>(event) ||
         std::holds_alternative<harness::Text>(event) ||
         std::holds_alternative<harness::ThinkingDelta>(event) ||
         std::holds_alternative<harness::ToolCall>(event) ||
         std::holds_alternative<harness::ToolRequest>(event);
}

}  // namespace

struct Hearing::Taking {
  Hearing& of;

  void operator()(const harness::TextDelta& event) const {
    if (!of.has_room(event.text)) return;
    of.pieces_ += event.text;
    if (!of.says_again_) of.listener_.on_text(event.text);
  }
  void operator()(const harness::Text& event) const {
    const bool was_heard = !std::exchange(of.pieces_, {}).empty() || of.says_again_;
    of.says_again_ = false;
    if (!of.has_room(event.text)) return;
    std::string_view text = event.text;
    const std::string begun = std::exchange(of.guest_.half_said, {});
    if (!begun.empty() && text.starts_with(begun)) text.remove_prefix(begun.size());
    if (!was_heard && begun.empty()) of.listener_.on_text(text);
    of.close_thoughts();
    if (trim(text).empty()) return;
    of.bytes_ += text.size();
    of.blocks_.push_back(text_block(text));
  }
  void operator()(const harness::ThinkingDelta& event) const {
    if (of.has_room(event.text)) of.thoughts_ += event.text;
  }
  void operator()(const harness::ToolRequest& event) const {
    auto wanted = std::make_shared<WantedCall>(of.loop_);
    wanted->id = "call_" + random_text(20);
    wanted->name = plain_name(event.name);
    wanted->input = event.input;
    wanted->request = event.id;
    of.guest_.wanted.push_back(std::move(wanted));
  }
  // Nobody is there to be asked: what it may use it was told when it began.
  void operator()(const harness::PermissionRequest& event) const {
    of.guest_.process->decide(
        event.id, {.allowed = of.may_use(event.tool), .message = "This tool is not for you."});
  }
  void operator()(const harness::Failure& event) const {
    if (!event.retries) {
      of.failure_ = event;
      return;
    }
    LOG_INFO("a harness tries again", {"session", of.guest_.session}, {"error", event.message});
    // The answer begins anew. What was heard of it is not heard twice.
    of.says_again_ |= !std::exchange(of.pieces_, {}).empty();
    of.thoughts_.clear();
  }
  void operator()(const harness::Idle& event) const { of.ending_ = event.ending; }
  void operator()(const harness::Ready&) const {}
  void operator()(const harness::ToolsOffered&) const {}
  // Of those that we do ourselves we hear otherwise.
  void operator()(const harness::ToolCall& event) const {
    if (of.is_ours(event.name)) return;
    auto wanted = std::make_shared<WantedCall>(of.loop_);
    wanted->id = fmt::format("{}{}", session::kOwnCall, random_text(20));
    wanted->name = own_name(of.guest_.recipe->name, event.name);
    wanted->input = event.input;
    wanted->own = event.id;
    of.guest_.wanted.push_back(std::move(wanted));
  }
  void operator()(const harness::ToolResult& event) const {
    const auto note = [&](WantedCall& wanted) {
      if (wanted.own == event.id)
        wanted.result = mcp::ToolResult{.text = event.text, .is_error = event.is_error};
    };
    for (auto& wanted : of.guest_.wanted) note(*wanted);
    for (auto& [id, wanted] : of.guest_.being_done) note(*wanted);
  }
  void operator()(const harness::Usage&) const {}
};

Hearing::Hearing(linux::Loop& loop, const session::Listener& listener, Guest& guest)
    : loop_(loop), listener_(listener), guest_(guest) {}

void Hearing::listen(Process& process) {
  while (!ending_ && goes_on(process)) {
    auto event = process.take();
    if (!event) return;
    guest_.has_spoken |= is_word(*event);
    std::visit(Taking{*this}, *event);
  }
}

bool Hearing::goes_on(const Process& process) const {
  const auto* call = process.next<harness::ToolCall>();
  if (wants_own()) return call != nullptr;
  return guest_.wanted.empty() || call == nullptr || is_ours(call->name);
}

bool Hearing::wants_own() const {
  return std::ranges::any_of(guest_.wanted, [](const auto& wanted) { return wanted->is_own(); });
}

// Beside the brain it has no others.
bool Hearing::is_ours(const std::string& tool) const {
  return guest_.placement == harness::Placement::kBrain || !tool_on_server(tool).empty() ||
         guest_.offers(tool);
}

bool Hearing::may_use(const std::string& tool) const {
  return guest_.placement == harness::Placement::kSandbox || guest_.offers(tool) ||
         guest_.offers(tool_on_server(tool));
}

// What comes in pieces counts once, whether the whole of it is told later or not.
bool Hearing::has_room(std::string_view text) {
  if (bytes_ + thoughts_.size() + pieces_.size() + text.size() <= kAnswerBytesMax) return true;
  fail("it says more than an answer may hold");
  return false;
}

void Hearing::fail(std::string why) {
  failure_ = {.fault = harness::Fault::kHarness, .message = std::move(why)};
  ending_ = harness::Ending::kFailed;
}

void Hearing::close_thoughts() {
  if (trim(thoughts_).empty()) return;
  bytes_ += thoughts_.size();
  blocks_.push_back({{"type", "thinking"}, {"thinking", std::exchange(thoughts_, {})}});
}

// What was said before a tool that is wanted now; the whole of it may come later.
void Hearing::close_text() {
  close_thoughts();
  if (trim(pieces_).empty()) return;
  bytes_ += pieces_.size();
  blocks_.push_back(text_block(pieces_));
  guest_.half_said += std::exchange(pieces_, {});
}

void Hearing::add_calls() {
  for (auto& wanted : std::exchange(guest_.wanted, {})) {
    auto input = parse_json(wanted->input);
    blocks_.push_back({{"type", "tool_use"},
                       {"id", wanted->id},
                       {"name", wanted->name},
                       {"input", input && input->is_object() ? *input : Json::object()}});
    guest_.being_done.emplace(wanted->id, std::move(wanted));
  }
}

Answer Hearing::answer(const char* stop_reason) {
  return {.content = dump_json(blocks_),
          .stop_reason = stop_reason,
          .model = guest_.recipe->name,
          .usage = {}};
}

Answer Hearing::asking_for_tools() {
  close_text();
  add_calls();
  return answer("tool_use");
}

std::variant<Answer, NoAnswer> Hearing::whole() {
  close_text();
  guest_.half_said.clear();
  guest_.answer_all("The turn is over.");
  if (*ending_ == harness::Ending::kDone) return answer("end_turn");
  const harness::Failure failure = failure_.value_or(harness::Failure{.message = "it broke off"});
  return NoAnswer{
      .trouble = trouble_of(failure.fault),
      .fault = failure.fault == harness::Fault::kRateLimit ? session::ModelFault::kRateLimited
                                                           : session::ModelFault::kOther,
      .message =
          fmt::format("{}: {} ({})", guest_.recipe->name, failure.message, name_of(failure.fault))};
}

}  // namespace pons::guest
