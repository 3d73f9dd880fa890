#include "trace_sender.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"

namespace pons::brain {

namespace {

using session::StoredEvent;

constexpr std::size_t kEndedMax = 256;   // turns that wait for the gateway
constexpr std::size_t kOpenMax = 4'096;  // turns that are followed
constexpr int kTriesMax = 5;
constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr std::size_t kAnswerBytesMax = 64 * 1024;

}  // namespace

TraceSender::TraceSender(linux::Loop& loop, session::Sessions& sessions, http::Client& gateway)
    : loop_(loop), sessions_(sessions), gateway_(gateway), more_(loop) {}

void TraceSender::observe(const std::string& session, const std::vector<StoredEvent>& events) {
  for (const StoredEvent& stored : events) {
    auto found = turns_.find(session);
    if (found == turns_.end()) {
      // What is left of a turn that has ended is not the beginning of one.
      const bool is_of_turn = std::holds_alternative<session::Created>(stored.event) ||
                              std::holds_alternative<session::UserMessage>(stored.event) ||
                              std::holds_alternative<session::Resumed>(stored.event);
      if (!is_of_turn) continue;
      if (turns_.size() >= kOpenMax) {
        dropped_.add();
        continue;
      }
      found = turns_.emplace(session, TurnTrace(session)).first;
    }
    found->second.add(stored);
    if (!found->second.is_over()) continue;
    if (ended_.size() < kEndedMax)
      ended_.push_back({.session = session, .turn = std::move(found->second)});
    else
      dropped_.add();
    turns_.erase(found);
    more_.set();
  }
  // A session that was made and not yet told anything is remembered by its log.
  if (const auto found = turns_.find(session); found != turns_.end() && found->second.is_idle())
    turns_.erase(found);
}

Task<> TraceSender::run() {
  for (;;) {
    co_await more_.wait(kNever);
    more_.reset();
    while (!ended_.empty()) {
      Ended ended = std::move(ended_.front());
      ended_.pop_front();
      co_await send(std::move(ended));
    }
  }
}

Task<> TraceSender::send(Ended ended) {
  if (const auto completed = co_await complete(ended); !completed) {
    LOG_WARN("a turn is not traced", {"session", ended.session}, {"error", completed.error()});
    dropped_.add();
    co_return;
  }
  const std::string body = dump_json(telemetry::to_json(ended.turn.spans()));
  Duration pause = kFirstPause;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (co_await post(body)) {
      handed_over_.add();
      co_return;
    }
    co_await loop_.sleep_for(pause);
    pause *= 2;
  }
  dropped_.add();
}

Task<Result<void>> TraceSender::complete(Ended& ended) {
  if (ended.turn.is_missing_events()) {
    CO_TRY(const auto events, co_await sessions_.read_all(ended.session));
    const session::Seq last = ended.turn.last();
    TurnTrace whole(ended.session);
    for (const StoredEvent& stored : events)
      if (stored.seq <= last) whole.add(stored);
    ended.turn = std::move(whole);
  }
  if (!ended.turn.created()) {
    CO_TRY(const auto events, co_await sessions_.log().read(ended.session, 0, 1));
    const auto* created =
        events.empty() ? nullptr : std::get_if<session::Created>(&events.front().event);
    if (created == nullptr)
      co_return make_error(ErrorCode::kIo, "trace turn", "its session has no beginning");
    ended.turn.set_created(*created);
  }
  co_return {};
}

Task<bool> TraceSender::post(const std::string& body) {
  auto answer = co_await gateway_.send({.method = "POST", .target = "/spans", .body = body});
  if (!answer) co_return false;
  const bool is_taken = answer->status() == 202;
  (void)co_await answer->read_whole_body(kAnswerBytesMax);
  co_return is_taken;
}

void TraceSender::write_metrics(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  page.begin("pons_trace_turns_total", kCounter, "Turns whose trace was made, or could not be.");
  page.add({{"outcome", "handed_over"}}, handed_over_.value());
  page.add({{"outcome", "dropped"}}, dropped_.value());
}

}  // namespace pons::brain
