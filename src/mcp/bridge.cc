#include "pons/mcp/bridge.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/event_stream.h"
#include "pons/mcp/protocol.h"

namespace pons::mcp {

namespace {

constexpr std::size_t kUnderWayMax = 64;
constexpr std::size_t kAnswerBytesMax = 16 << 20;
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(30);

bool is_events(const http::ClientResponse& response) {
  return response.find("content-type").value_or("").starts_with("text/event-stream");
}

// The same message on one line; nothing when it is none.
std::optional<std::string> one_line(std::string_view text) {
  const auto json = parse_json(text, {.bytes = kAnswerBytesMax});
  if (!json || !json->is_object() || !json->contains("jsonrpc")) return std::nullopt;
  return dump_json(*json);
}

// What a server says of its refusal, in our form or in JSON-RPC's.
std::string words_of(int status, std::string_view body) {
  const auto json = parse_json(body);
  if (json && json->is_object() && json->contains("error") && json->at("error").is_object() &&
      json->at("error").contains("message") && json->at("error").at("message").is_string())
    return json->at("error").at("message").get<std::string>();
  return fmt::format("the server answered {}", status);
}

}  // namespace

struct Bridge::Outcome {
  enum class What : std::uint8_t { kDone, kForgotten, kFailed } what = What::kDone;
  std::string words = {};
};

Bridge::Bridge(linux::Loop& loop, http::Client& client, std::string target,
               http::OwnedFields fields, Say say)
    : loop_(loop),
      client_(client),
      target_(std::move(target)),
      fields_(std::move(fields)),
      say_(std::move(say)),
      greeted_(loop),
      room_(loop),
      carried_(loop) {
  room_.set();
}

Task<> Bridge::take(std::string line) {
  if (trim(line).empty()) co_return;
  auto message = read_message(line);
  if (!message) {
    const Unreadable& why = message.error();
    co_return say_(write_error(why.id, why.error.code, why.error.message));
  }
  const auto* request = std::get_if<Request>(&*message);
  if (request != nullptr && request->method == "initialize") {
    greeting_ = *request;  // all that follows needs the session
    co_return co_await carry(std::move(*message));
  }
  if (request != nullptr) co_await room_.wait(kNever);  // a cancellation makes room: it never waits
  carried_.spawn(carry(std::move(*message)));
  if (carried_.size() >= kUnderWayMax) room_.reset();
}

http::ClientRequest Bridge::request_of(std::string method, std::string body) const {
  http::ClientRequest request{.method = std::move(method), .target = target_, .fields = fields_};
  request.fields.emplace_back("accept", request.method == "GET"
                                            ? "text/event-stream"
                                            : "application/json, text/event-stream");
  if (!session_.empty()) request.fields.emplace_back(kSessionField, session_);
  if (!version_.empty()) request.fields.emplace_back(kVersionField, version_);
  if (!body.empty()) request.fields.emplace_back("content-type", "application/json");
  request.body = std::move(body);
  return request;
}

Task<> Bridge::carry(Message message) {
  struct Room {
    linux::Event& event;
    ~Room() { event.set(); }
  } const at_end{room_};
  const std::string session = session_;
  Outcome outcome = co_await try_to_carry(message);
  if (outcome.what == Outcome::What::kForgotten && co_await greet_again(session))
    outcome = co_await try_to_carry(message);
  if (outcome.what != Outcome::What::kDone) fail(message, std::move(outcome.words));
}

Task<Bridge::Outcome> Bridge::try_to_carry(const Message& message) {
  const auto* request = std::get_if<Request>(&message);
  const bool is_greeting = request != nullptr && request->method == "initialize";
  if (is_greeting) {
    session_.clear();
    version_.clear();
  }
  const bool has_session = !session_.empty();
  auto response = co_await client_.send(request_of("POST", write_message(message)));
  if (!response) co_return Outcome{Outcome::What::kFailed, response.error().describe()};
  if (response->status() == 202 || response->status() == 204) co_return Outcome{};
  if (response->status() != 200) {
    const auto body = co_await response->read_whole_body(kAnswerBytesMax);
    const bool is_forgotten = response->status() == 404 && has_session;
    co_return Outcome{is_forgotten ? Outcome::What::kForgotten : Outcome::What::kFailed,
                      words_of(response->status(), body.value_or(""))};
  }
  if (is_events(*response)) {
    const auto passed = co_await pass_events(*response);
    if (!passed) co_return Outcome{Outcome::What::kFailed, passed.error().describe()};
    co_return Outcome{};
  }
  const auto body = co_await response->read_whole_body(kAnswerBytesMax);
  if (!body) co_return Outcome{Outcome::What::kFailed, body.error().describe()};
  auto line = one_line(*body);
  if (!line) co_return Outcome{Outcome::What::kFailed, "the server's answer is no message"};
  if (is_greeting) learn(*response, *body);
  say_(std::move(*line));
  co_return Outcome{};
}

// Under which name the server knows us from now on, and what it speaks.
void Bridge::learn(const http::ClientResponse& response, std::string_view body) {
  const auto message = read_message(body, kAnswerBytesMax);
  const auto* reply = message ? std::get_if<Reply>(&*message) : nullptr;
  const auto* result = reply != nullptr ? std::get_if<std::string>(&reply->outcome) : nullptr;
  if (result == nullptr) return;
  const auto json = parse_json(*result);
  if (json && json->is_object() && json->contains("protocolVersion") &&
      json->at("protocolVersion").is_string() &&
      is_known_version(json->at("protocolVersion").get_ref<const std::string&>()))
    version_ = json->at("protocolVersion").get<std::string>();
  session_ = std::string(response.find(kSessionField).value_or(""));
  listener_ = std::make_unique<linux::TaskGroup>(loop_);
  if (!session_.empty()) listener_->spawn(listen(session_));
}

Task<Result<void>> Bridge::pass_events(http::ClientResponse& response) {
  http::EventStreamParser parser(kAnswerBytesMax);
  for (;;) {
    CO_TRY(const auto piece, co_await response.read_body());
    if (piece.empty()) co_return {};
    CO_TRY_VOID(parser.feed(piece, [this](const http::ServerEvent& event) {
      if (auto line = one_line(event.data)) say_(std::move(*line));
    }));
  }
}

// True when there is a session again. Of many who find out, one greets and the others wait.
Task<bool> Bridge::greet_again(std::string forgotten) {
  if (!greeting_) co_return false;
  if (is_greeting_) co_await greeted_.wait(kNever);
  if (session_ != forgotten) co_return !session_.empty();
  is_greeting_ = true;
  greeted_.reset();
  struct Greeted {
    Bridge& bridge;
    ~Greeted() {
      bridge.is_greeting_ = false;
      bridge.greeted_.set();
    }
  } const at_end{*this};
  session_.clear();
  version_.clear();
  Request again = *greeting_;
  again.id = "\"pons-mcp-again\"";
  auto response = co_await client_.send(request_of("POST", write_message(again)));
  if (!response || response->status() != 200 || is_events(*response)) co_return false;
  const auto body = co_await response->read_whole_body(kAnswerBytesMax);
  if (!body) co_return false;
  learn(*response, *body);
  if (session_.empty()) co_return false;
  const Notification ready{.method = "notifications/initialized"};
  auto told = co_await client_.send(request_of("POST", write_message(ready)));
  co_return told.has_value();
}

// What the server says unasked; and while somebody listens, the session is in use.
Task<> Bridge::listen(std::string session) {
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (session != session_) co_return;
    auto response = co_await client_.send(request_of("GET", {}));
    if (response && response->status() == 200 && is_events(*response)) {
      (void)co_await pass_events(*response);
      pause = kFirstPause;
    } else if (response && response->status() < 500) {
      co_return;  // it has no such stream, or no such session
    }
    co_await loop_.sleep_for(pause);
  }
}

void Bridge::fail(const Message& message, std::string why) {
  if (const auto* request = std::get_if<Request>(&message))
    say_(write_error(request->id, kInternalError, std::move(why)));
}

Task<> Bridge::finish(TimePoint deadline) {
  co_await carried_.wait_until_empty(deadline);
  carried_.cancel_all();
  listener_.reset();
  if (session_.empty()) co_return;
  (void)co_await linux::within(loop_, deadline, client_.send(request_of("DELETE", {})));
}

}  // namespace pons::mcp
