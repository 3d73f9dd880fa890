#include "translator.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "making.h"
#include "pons/session/call_id.h"
#include "pons/session/fold.h"

namespace pons::managed {

namespace {

// Between an answer and the last of its calls there are these, and nothing else.
bool belongs_to_answer(const session::Event& event) {
  const auto* ended = std::get_if<session::ToolEnded>(&event);
  const bool is_refused = ended != nullptr && ended->outcome == session::ToolOutcome::kRefused;
  return is_refused || std::holds_alternative<session::Said>(event) ||
         std::holds_alternative<session::ToolCalled>(event);
}

}  // namespace

std::vector<std::string> Translator::waiting_calls() const {
  std::vector<std::string> ids;
  for (const session::AccessWait& access : state_.access)
    if (!access.decision) ids.push_back(id_of({.seq = access.seq}));
  for (const session::Call& call : state_.calls) {
    if (!call.is_open()) continue;
    if (call.waits_for != session::WaitsFor::kNobody) ids.push_back(id_of({.seq = call.seq}));
    if (call.thread.status == session::ThreadStatus::kWaits)
      std::ranges::move(waits_of(call.thread), std::back_inserter(ids));
  }
  return ids;
}

std::string Translator::child_of(session::Seq call) const {
  return session::child_session_of(session_, call);
}

std::vector<std::string> Translator::waits_of(const session::ThreadChanged& thread) const {
  const std::string child = child_of(thread.call);
  std::vector<std::string> ids;
  for (const session::Seq seq : thread.waits) ids.push_back(write_event_id(child, {.seq = seq}));
  return ids;
}

std::vector<PublicEvent> Translator::take(const session::StoredEvent& stored) {
  const session::State before = state_;
  const std::vector<std::string> waited = waiting_calls();
  session::fold(state_, stored);
  std::vector<PublicEvent> out;
  if (held_end_ && !belongs_to_answer(stored.event)) release_end(out);
  const Making making{*this, stored, before, state_, out};
  std::visit(making, stored.event);
  if (std::ranges::none_of(state_.calls, [](const session::Call& call) { return call.seq == 0; }))
    release_end(out);
  making.add_status(waited);
  forget_what_was_said();
  return out;
}

void Translator::release_end(std::vector<PublicEvent>& out) {
  if (!held_end_) return;
  out.push_back(std::move(*held_end_));
  held_end_.reset();
}

// Nothing of it is needed to go on, and there may be a translator for each of a thousand clients.
void Translator::forget_what_was_said() {
  state_.messages.clear();
  state_.dedupe.clear();
  state_.agent.system.clear();
  for (session::UserMessage& message : state_.unread) message.content.clear();
}

std::vector<PublicEvent> Translator::take_thinking(session::Seq asked) {
  const bool is_open = state_.asked && state_.asked->seq == asked &&
                       state_.asked->purpose == session::Purpose::kReply;
  if (!is_open || thought_ == asked) return {};
  thought_ = asked;
  return {start_of("agent.thinking", {.seq = asked, .part = Part::kThinking})};
}

PublicEvent Translator::start_of(const char* type, EventId id) const {
  return {
      .id = {},
      .type = "event_start",
      .text = dump_json({{"type", "event_start"}, {"event", {{"type", type}, {"id", id_of(id)}}}})};
}

std::vector<PublicEvent> Translator::take_delta(session::Seq asked, std::string_view text) {
  const bool is_open = state_.asked && state_.asked->seq == asked;
  if (!is_open) unshown_ = asked;
  if (unshown_ == asked || state_.asked->purpose != session::Purpose::kReply) return {};
  const EventId id{.seq = state_.asked->seq, .part = Part::kMessage};
  std::vector<PublicEvent> out;
  if (previewed_ != id.seq) out.push_back(start_of("agent.message", id));
  previewed_ = id.seq;
  const Json content = {{"type", "text"}, {"text", text}};
  out.push_back(
      {.id = {},
       .type = "event_delta",
       .text = dump_json(
           {{"type", "event_delta"},
            {"event_id", id_of(id)},
            {"delta", {{"type", "content_delta"}, {"index", 0}, {"content", content}}}})});
  return out;
}

}  // namespace pons::managed
