#include "conversation.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/event_stream.h"
#include "pons/http/query.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;
constexpr std::size_t kEventBytesMax = 64 << 20;

Task<Result<void>> expect_success(http::ClientResponse& response) {
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() == 200) co_return {};
  const auto json = parse_json(body);
  std::string message = fmt::format("Pons answered {}", response.status());
  if (json && json->contains("error") && json->at("error").contains("message"))
    message = json->at("error").at("message").get<std::string>();
  co_return make_error(response.status() == 404 ? ErrorCode::kNotFound : ErrorCode::kInvalid,
                       "ask Pons", std::move(message));
}

}  // namespace

std::string session_target(const std::string& project, const std::string& rest) {
  const char separator = rest.find('?') == rest.npos ? '?' : '&';
  return fmt::format("/sessions{}{}project={}", rest, separator, http::percent_encode(project));
}

Conversation::Conversation(linux::Loop& loop, const std::string& state_dir, std::string project,
                           std::string session)
    : loop_(loop),
      client_(loop, http::unix_connector(loop, supervisor::control_socket_path(state_dir, "brain")),
              "pons", {.first_byte_time = std::chrono::seconds(15)}),
      project_(std::move(project)),
      session_(std::move(session)) {}

Task<Result<void>> Conversation::send(Json event) {
  CO_TRY(auto response,
         co_await client_.send(
             {.method = "POST",
              .target = session_target(project_, fmt::format("/{}/events", session_)),
              .body = dump_json({{"events", Json::array({std::move(event)})}})}));
  co_return co_await expect_success(response);
}

Task<Result<void>> Conversation::follow(std::int64_t after, OnEvent on_event) {
  // A brain that is started again is back within moments.
  constexpr int kTries = 100;
  constexpr Duration kPause = std::chrono::milliseconds(200);
  Result<bool> over = false;
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t before = after;
    over = co_await follow_once(after, on_event);
    if (over && *over) co_return {};
    if (!over && over.error().code != ErrorCode::kUnavailable && over.error().os_error == 0) break;
    if (after != before) i = 0;
    co_await loop_.sleep_for(kPause);
  }
  if (!over) co_return over.error();
  co_return make_error(ErrorCode::kUnavailable, "follow session", "the brain does not answer");
}

Task<Result<bool>> Conversation::follow_once(std::int64_t& after, const OnEvent& on_event) {
  CO_TRY(auto response, co_await client_.send(
                            {.target = session_target(
                                 project_, fmt::format("/{}/stream?after={}", session_, after))}));
  if (response.status() != 200) {
    CO_TRY_VOID(co_await expect_success(response));
    co_return false;
  }
  http::EventStreamParser parser(kEventBytesMax);
  bool is_over = false;
  for (;;) {
    auto piece = co_await response.read_body();
    if (!piece) co_return make_error(ErrorCode::kUnavailable, "follow session", "it broke off");
    if (piece->empty()) co_return false;
    CO_TRY_VOID(parser.feed(*piece, [&](const http::ServerEvent& event) {
      const auto json = parse_json(event.data, {.depth = 128, .bytes = kEventBytesMax});
      if (is_over || !json || !json->is_object()) return;
      if (const auto seq = json->find("seq"); seq != json->end() && seq->is_number_integer())
        after = seq->get<std::int64_t>();
      is_over = on_event(event.event, *json);
    }));
    if (is_over) co_return true;
  }
}

}  // namespace pons::cli
