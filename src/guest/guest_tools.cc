// Tools of a guest: those of its session that it uses by MCP, and its own.

#include <algorithm>

#include <fmt/format.h>

#include "guest.h"
#include "pons/base/id.h"
#include "pons/guest/guests.h"

namespace pons::guest {

namespace {

// Between the end of a tool and the line that tells of it.
constexpr Duration kOwnEndTime = std::chrono::seconds(1);

}  // namespace

// ---- tools, by MCP

std::string Guests::list(const std::string& sandbox) const {
  const auto found = by_sandbox_.find(sandbox);
  return found == by_sandbox_.end() ? "[]" : found->second->tools;
}

Guest* Guests::find_user(const mcp::ToolCall& call) const {
  const auto found = by_sandbox_.find(call.project);
  if (found == by_sandbox_.end() || !found->second->process || !found->second->offers(call.name))
    return nullptr;
  return found->second;
}

Task<Result<mcp::ToolResult>> Guests::call(mcp::ToolCall call) {
  constexpr std::size_t kWantedMax = 64;
  const auto refusal = [](const char* why) {
    return mcp::ToolResult{.text = why, .is_error = true};
  };
  Guest* guest = find_user(call);
  // It would wait for the session, which waits for that one. What has just ended may be told later
  // than it calls this.
  const TimePoint patience = loop_.now() + kOwnEndTime;
  while (guest != nullptr && guest->is_doing_own()) {
    const std::shared_ptr<Process> process = guest->process;
    process->news().reset();
    if (co_await process->news().wait(patience) == linux::Wait::kTimeout)
      co_return refusal("Another tool of yours is at work; call this by itself.");
    guest = find_user(call);
  }
  if (guest == nullptr)
    co_return make_error(ErrorCode::kNotFound, "call tool", "there is no such tool");
  if (!guest->process->is_in_turn()) co_return refusal("Nobody waits for this any more.");
  if (guest->wanted.size() + guest->being_done.size() >= kWantedMax)
    co_return refusal("Too many tools are at work; wait for them.");
  const auto wanted = std::make_shared<WantedCall>(loop_);
  wanted->id = "call_" + random_text(20);
  wanted->name = std::move(call.name);
  wanted->input = std::move(call.arguments);
  wanted->mcp = std::move(call.id);
  guest->wanted.push_back(wanted);
  guest->process->wake();
  co_await wanted->answered.wait(kNever);
  co_return wanted->result.value_or(refusal("interrupted"));
}

// What the session has begun goes on; nobody hears of it.
void Guests::cancel(const std::string&, const std::string& call) {
  for (auto& [name, guest] : guests_)
    std::erase_if(guest->wanted, [&](const auto& wanted) {
      if (wanted->mcp != call) return false;
      wanted->answered.set();
      return true;
    });
}

// ---- tools of its own

Task<Result<session::OwnReport>> Guests::own_result(std::string session, std::string call) {
  const auto unknown = make_error(ErrorCode::kNotFound, "find call", "nobody does it any more");
  const auto guest = guests_.find(session);
  if (guest == guests_.end() || !guest->second->process) co_return unknown;
  const auto found = guest->second->being_done.find(call);
  if (found == guest->second->being_done.end()) co_return unknown;
  const std::shared_ptr<WantedCall> wanted = found->second;
  const std::shared_ptr<Process> process = guest->second->process;
  while (!wanted->result) {
    process->news().reset();
    if (auto result = process->take_result(wanted->own))
      wanted->result =
          mcp::ToolResult{.text = std::move(result->text), .is_error = result->is_error};
    else if (!process->is_usable())
      co_return unknown;
    else if (co_await process->news().wait(loop_.now() + limits_.own_call_time) ==
             linux::Wait::kTimeout)
      co_return unknown;
  }
  co_return session::OwnReport{.text = wanted->result->text, .is_error = wanted->result->is_error};
}

}  // namespace pons::guest
