#include <algorithm>

#include <nlohmann/json.hpp>

#include "event_feed.h"
#include "event_input.h"
#include "named_files.h"
#include "routes.h"
#include "thread_id.h"
#include "threads.h"

namespace pons::managed {

namespace {

struct Context {
  Objects& objects;
  session::Sessions& sessions;
};

Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  co_return co_await list_events(context.sessions, call, {.session = order.session});
}

// What one log is sent, and where in the request it stands.
struct Delivery {
  std::string session;
  std::vector<session::Event> events;
  std::vector<std::size_t> places;
};

std::vector<Delivery> sort_by_log(std::vector<Input> inputs) {
  std::vector<Delivery> deliveries;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto found = std::ranges::find(deliveries, inputs[i].session, &Delivery::session);
    if (found == deliveries.end()) {
      deliveries.push_back({.session = inputs[i].session, .events = {}, .places = {}});
      found = std::prev(deliveries.end());
    }
    found->events.push_back(std::move(inputs[i].event));
    found->places.push_back(i);
  }
  return deliveries;
}

std::optional<session::Seq> find_said(const std::vector<session::StoredEvent>& log,
                                      const session::Event& input) {
  const bool is_answer = std::holds_alternative<session::UserDecision>(input) ||
                         std::holds_alternative<session::UserToolResult>(input);
  if (!is_answer) return std::nullopt;
  const auto found = std::ranges::find(log, input, &session::StoredEvent::event);
  return found == log.end() ? std::nullopt : std::optional(found->seq);
}

// A client that did not hear our answer says it again: what is in the log already is the answer,
// and the rest is what it has to say.
struct Said {
  std::vector<std::optional<session::Seq>> numbers;
  std::vector<session::Event> unsaid;
};
Task<Reply<Said>> sort_out(Context& context, const Delivery& delivery) {
  CO_TRY(const auto log, co_await context.sessions.read_all(delivery.session));
  Said said;
  for (const session::Event& event : delivery.events) {
    said.numbers.push_back(find_said(log, event));
    if (!said.numbers.back()) said.unsaid.push_back(event);
  }
  co_return said;
}

Task<Reply<std::vector<session::Seq>>> deliver(Context& context, const Delivery& delivery) {
  const auto added = co_await context.sessions.add_all(delivery.session, delivery.events);
  if (added) co_return *added;
  if (added.error().code != ErrorCode::kInvalid) co_return added.error();
  CO_TRY(const auto said, co_await sort_out(context, delivery));
  if (said.unsaid.size() == delivery.events.size()) co_return added.error();
  CO_TRY(const auto numbers, co_await context.sessions.add_all(delivery.session, said.unsaid));
  std::vector<session::Seq> all;
  auto next = numbers.begin();
  for (const auto& number : said.numbers) all.push_back(number ? *number : *next++);
  co_return all;
}

// Logs of several threads cannot take something in one commit: none is sent anything before each of
// them would take its part.
Task<Reply<void>> check(Context& context, const std::vector<Delivery>& deliveries) {
  if (deliveries.size() < 2) co_return {};
  for (const Delivery& delivery : deliveries) {
    const auto checked = co_await context.sessions.check_all(delivery.session, delivery.events);
    if (checked) continue;
    if (checked.error().code != ErrorCode::kInvalid) co_return checked.error();
    CO_TRY(const auto said, co_await sort_out(context, delivery));
    CO_TRY_VOID(co_await context.sessions.check_all(delivery.session, said.unsaid));
  }
  co_return {};
}

// What a session without money takes: answers to what it began, and an end.
bool costs_nothing(const session::Event& event) {
  return std::holds_alternative<session::UserDecision>(event) ||
         std::holds_alternative<session::UserToolResult>(event) ||
         std::holds_alternative<session::Interrupted>(event);
}

// Where it is somebody else's money that was spent, there may be some again.
Reply<void> check_budget(const SessionOrder& order, const session::Summary& summary,
                         const std::vector<Input>& inputs) {
  if (summary.ended != session::name_of(session::EndReason::kBudgetReached)) return {};
  const Json said = TRY(parse_json(order.text));
  if (said.at("budget_nano") == 0) return {};
  if (std::ranges::all_of(inputs, costs_nothing, &Input::event)) return {};
  Refusal refusal = bad_request("the session has reached its budget: raise it or remove it");
  refusal.code = "budget_reached";
  return refusal;
}

// The client's own words, with what they are called from now on. The agent reads messages when it
// has come to an end of what it does.
Json echo_of(Json event, const Input& input, const session::Summary& primary, session::Seq seq,
             const std::string& now) {
  const bool is_queued = std::holds_alternative<session::UserMessage>(input.event) &&
                         primary.status != session::Status::kIdle;
  event["id"] = write_event_id(input.session, {.seq = seq});
  event["processed_at"] = is_queued ? Json(nullptr) : Json(now);
  if (input.session != primary.id) event["session_thread_id"] = write_thread_id(input.session);
  if (const auto* outcome = std::get_if<session::OutcomeDefined>(&input.event)) {
    event["outcome_id"] = outcome->id;
    event["max_iterations"] = outcome->iterations_max;
  }
  return event;
}

Task<Reply<Json>> send(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"events"}));
  CO_TRY(const auto recipients, co_await recipients_of(context.sessions, order));
  Json settled = body;
  CO_TRY(settled["events"],
         co_await bring_files(context.objects, call.caller.project, body.value("events", Json())));
  CO_TRY(const auto inputs,
         read_inputs({.value = settled, .pointer = {}}, "events", recipients, Inputs::kAny));
  if (inputs.empty()) co_return bad_request("\"events\" is missing or empty");
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  if (summary.archived_ms) co_return conflict("the session is archived");
  CO_TRY_VOID(check_budget(order, summary, inputs));
  const std::vector<Delivery> deliveries = sort_by_log(inputs);
  CO_TRY_VOID(co_await check(context, deliveries));
  const std::string now = write_time(std::chrono::duration_cast<std::chrono::milliseconds>(
                                         context.objects.clock.wall().time_since_epoch())
                                         .count());
  Json echoed = body["events"];
  for (const Delivery& delivery : deliveries) {
    CO_TRY(const auto numbers, co_await deliver(context, delivery));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t at = delivery.places[i];
      echoed[at] = echo_of(std::move(echoed[at]), inputs[at], summary, numbers[i], now);
    }
  }
  co_return Json{{"data", std::move(echoed)}};
}

Task<> stream(Context context, http::Exchange& exchange, std::string id) {
  auto caller = caller_of(exchange);
  if (!caller) {
    exchange.respond(answer_of(caller.error(), ""));
    co_return;
  }
  Call call{.exchange = exchange, .caller = std::move(*caller), .ids = {std::move(id)}};
  const auto order = co_await context.objects.orders.find(call.caller.project, call.ids[0]);
  if (!order) {
    exchange.respond(answer_of(order.error(), call.caller.request_id));
    co_return;
  }
  co_await stream_events(context.sessions, call, {.session = order->session});
}

}  // namespace

std::vector<http::Route> event_routes(Objects& objects, session::Sessions& sessions) {
  const auto with = [&](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{objects, sessions}, work](Call& call) mutable {
      return work(context, call);
    });
  };
  return {{"GET", "/v1/sessions/{id}/events", with(list)},
          {"POST", "/v1/sessions/{id}/events", with(send)},
          {"GET", "/v1/sessions/{id}/events/stream",
           [context = Context{objects, sessions}](http::Exchange& exchange,
                                                  const http::PathValues& values) {
             return stream(context, exchange, read_ids(values).front());
           }}};
}

}  // namespace pons::managed
