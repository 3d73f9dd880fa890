#include "thread_watch.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"

namespace pons::session {

namespace {

ThreadStatus thread_status_of(const State& agent) {
  switch (shown_status_of(agent)) {
    case Status::kIdle:
      return agent.ended ? ThreadStatus::kEnded : ThreadStatus::kRunning;
    case Status::kWaitsForPerson:
    case Status::kWaitsInThread:
    case Status::kWaitsAtWork:
      return ThreadStatus::kWaits;
    case Status::kRescheduled:
      return ThreadStatus::kRescheduled;
    case Status::kRunning:
      return ThreadStatus::kRunning;
  }
  return ThreadStatus::kRunning;
}

std::vector<Seq> waits_of(const State& agent) {
  std::vector<Seq> waits;
  for (const Call& call : agent.calls)
    if (call.is_open() && call.waits_for != WaitsFor::kNobody) waits.push_back(call.seq);
  return waits;
}

// The call that an event begins, before it has.
const Call* call_begun_by(const State& before, const ToolCalled& called) {
  for (const Call& call : before.calls)
    if (call.seq == 0 && call.block == called.block) return &call;
  return nullptr;
}

}  // namespace

std::optional<ThreadChanged> ThreadWatch::take(const std::vector<StoredEvent>& events) {
  ThreadChanged now{.call = last_.call, .seen = last_.seen};
  Json posts = Json::array();
  for (const StoredEvent& stored : events) {
    const auto* called = std::get_if<ToolCalled>(&stored.event);
    const Call* begun = called == nullptr ? nullptr : call_begun_by(agent_, *called);
    const bool is_refused = begun != nullptr && refusal_of(agent_, *begun);
    fold(agent_, stored);
    if (stored.seq <= last_.seen) continue;
    now.seen = stored.seq;
    if (is_refused) continue;
    if (const std::string post = posted(stored); !post.empty())
      posts.push_back(parse_json(post, {.depth = 128, .bytes = std::size_t{64} << 20})
                          .value_or(Json::object()));
  }
  if (now.seen == last_.seen) return std::nullopt;
  now.status = thread_status_of(agent_);
  now.waits = waits_of(agent_);
  now.ended = agent_.ended.value_or(EndReason::kEndTurn);
  const bool is_new = last_.seen == 0 || now.status != last_.status || now.waits != last_.waits;
  last_ = now;
  if (!is_new && posts.empty()) return std::nullopt;
  if (!posts.empty()) now.posted = dump_json(posts);
  return now;
}

// An event as others may see it, with the name of whom a call waits for; empty: not for them.
std::string ThreadWatch::posted(const StoredEvent& stored) const {
  if (std::holds_alternative<UserDecision>(stored.event) ||
      std::holds_alternative<UserToolResult>(stored.event) ||
      std::holds_alternative<Interrupted>(stored.event))
    return write_public(stored);
  if (!std::holds_alternative<ToolCalled>(stored.event)) return {};
  const Call* call = agent_.find_call(stored.seq);
  if (call == nullptr || call->waits_for == WaitsFor::kNobody) return {};
  auto json = parse_json(write_public(stored));
  if (!json) return {};
  if (!call->server.empty()) {
    (*json)["server"] = call->server;
    (*json)["name"] = call->server_name;
  }
  (*json)["waits_for"] = call->waits_for == WaitsFor::kDecision ? "decision" : "result";
  return dump_json(*json);
}

}  // namespace pons::session
