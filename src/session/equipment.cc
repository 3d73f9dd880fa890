#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "call_end.h"
#include "driver.h"
#include "pons/base/log.h"
#include "pons/memory/tools.h"

// What a session knows and borrows: its memory, and tools of servers of others.

namespace pons::session {

namespace {

// Of notes that a session begins with, and as a part of what the model can read at all.
constexpr std::size_t kNotesBytesMax = 32 << 10;
constexpr std::int64_t kWindowShare = 2;  // one byte for so many tokens: about an eighth of it
constexpr int kTriesMax = 5;
constexpr Duration kFirstPause = std::chrono::milliseconds(100);

Error none_here(std::string_view what) {
  return make_error(ErrorCode::kUnsupported, "use tool", fmt::format("There is no {} here.", what));
}

Error keeps_none(const std::vector<std::string>& credentials) {
  return make_error(
      ErrorCode::kDenied, "write memory",
      fmt::format("This holds the credential {}, or what stands for it; memory keeps none: write "
                  "its name instead.",
                  fmt::join(credentials, ", ")));
}

}  // namespace

ServerWay Driver::server_way() const {
  return {.session = lease_.session,
          .project = lease_.project,
          .environment = state_.agent.environment,
          .network = state_.agent.network};
}

// Notes that cannot be read now are waited for: without them the session would not know what it
// knows. Servers are not: their tools are missing in this turn, and people are told.
Task<> Driver::equip(Seq asked) {
  Equipped equipped{.asked = asked};
  Item item{.events = {}, .effect = asked};
  if (!state_.agent.memory.empty() && state_.notes.empty() && world_.extras.notes != nullptr) {
    const auto window = static_cast<std::size_t>(
        std::max<std::int64_t>(state_.agent.context_tokens / kWindowShare, 0));
    for (Duration pause = kFirstPause;; pause = std::min(2 * pause, 50 * kFirstPause)) {
      auto notes =
          co_await world_.extras.notes->recall({.session = lease_.session,
                                                .project = lease_.project,
                                                .stores = state_.agent.memory,
                                                .bytes_max = std::min(kNotesBytesMax, window)});
      if (notes) {
        equipped.notes = std::move(*notes);
        break;
      }
      LOG_WARN("cannot read what a session knows; trying again", {"session", lease_.session},
               {"error", notes.error()});
      co_await world_.loop.sleep_for(pause);
    }
  }
  if (!state_.agent.servers.empty() && world_.extras.servers != nullptr) {
    ServerOffer offer = co_await world_.extras.servers->list(server_way(), state_.agent.servers);
    // Nobody follows an agent of an agent that is no thread: nobody would allow anything.
    if (state_.agent.depth > 0 && state_.agent.machine_of.empty())
      std::erase_if(offer.tools, &ServerTool::asks);
    for (ServerTrouble& trouble : offer.troubles) {
      Redaction clean = co_await redact(reason_of(std::move(trouble.message)));
      trouble.message = std::move(clean.text);
      trouble.redacted = std::move(clean.redacted);
      item.events.emplace_back(std::move(trouble));
    }
    equipped.same_tools = offer.tools == state_.server_tools;
    if (!equipped.same_tools) equipped.tools = std::move(offer.tools);
  }
  item.events.emplace_back(std::move(equipped));
  deliver(std::move(item));
}

Task<Driver::Item> Driver::use_memory(const Call& call) {
  Item item;
  if (world_.extras.notes == nullptr) {
    item.events.push_back(refused(call.seq, none_here("memory")));
    co_return item;
  }
  // Notes outlive the session, and only the session knows whose stand-ins may be in them.
  if (call.name == memory::kWriteTool) {
    const Redaction clean = co_await redact(call.input);
    if (!clean.redacted.empty()) {
      item.events.push_back(refused(call.seq, keeps_none(clean.redacted)));
      co_return item;
    }
  }
  const TimePoint begun = world_.loop.now();
  Duration pause = kFirstPause;
  for (int tries = 1;; ++tries, pause *= 2) {
    auto report =
        co_await world_.extras.notes->use({.session = lease_.session,
                                           .project = lease_.project,
                                           .call = call_id(call.seq),
                                           .stores = state_.agent.memory,
                                           .tool = call.name,
                                           .input = call.input,
                                           .has_read_untrusted = state_.has_read_untrusted});
    if (report) {
      item.events.push_back(ToolEnded{.call = call.seq,
                                      .is_error = report->is_error,
                                      .text = printable(std::move(report->text)),
                                      .untrusted = report->is_untrusted,
                                      .took_ms = milliseconds_since(world_.loop, begun)});
      co_return item;
    }
    // Asked for again under the same id, it changes nothing twice.
    if (tries == kTriesMax) {
      item.events.push_back(failed(call.seq, report.error()));
      co_return item;
    }
    co_await world_.loop.sleep_for(pause);
  }
}

// Nobody but the server knows whether it has done something: what was asked of it by a process that
// died before the answer came is never asked again.
Task<Driver::Item> Driver::call_server(const Call& call) {
  Item item;
  const auto server = std::ranges::find(state_.agent.servers, call.server, &ServerGrant::name);
  if (world_.extras.servers == nullptr || server == state_.agent.servers.end()) {
    item.events.push_back(refused(call.seq, none_here("server of this name")));
    co_return item;
  }
  if (asked_before_.contains(call.seq)) {
    item.events.push_back(failed(call.seq, make_error(ErrorCode::kUnavailable, "ask server",
                                                      "the answer of the server was lost")));
    co_return item;
  }
  const TimePoint begun = world_.loop.now();
  auto report = co_await world_.extras.servers->call(server_way(), {.call = call_id(call.seq),
                                                                    .server = *server,
                                                                    .tool = call.server_name,
                                                                    .input = call.input});
  if (!report) {
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  put_text(describe(printable(std::move(report->text)), report->is_error),
           {.call = call.seq, .untrusted = true, .took_ms = milliseconds_since(world_.loop, begun)},
           item);
  co_return item;
}

}  // namespace pons::session
