#include "run_starter.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "deployment_shape.h"
#include "session_maker.h"

namespace pons::managed {

schedule::RunError run_error_of(const Refusal& refusal) {
  const auto named = [&](std::string type) {
    return schedule::RunError{.type = std::move(type), .message = refusal.message};
  };
  for (const char* code : {"environment_archived", "environment_not_found", "file_not_found",
                           "memory_store_archived", "self_hosted_resources_unsupported",
                           "session_resource_not_found", "vault_archived", "vault_not_found"})
    if (refusal.code == code) return named(fmt::format("{}_error", code));
  if (refusal.status == 429) return named("session_rate_limited_error");
  return named("session_creation_rejected_error");
}

Task<Result<std::variant<schedule::SessionId, schedule::RunError>>> SessionStarter::start_run(
    schedule::RunOrder order) {
  CO_TRY(const auto wish, write_session_wish(order.spec));
  const std::string agent_id = wish.at("agent").at("id");
  const auto agent = co_await objects_.agents.find(order.run.project, agent_id);
  const auto there = co_await objects_.orders.find(order.run.project, order.session.text());
  if (!there && agent && agent->archived_ms)
    co_return schedule::RunError{.type = "agent_archived_error",
                                 .message = "the agent is archived"};
  const auto made = co_await make_session(objects_, sessions_,
                                          {.id = order.session.text(),
                                           .project = order.run.project,
                                           .deployment = order.run.deployment},
                                          wish);
  if (made) co_return order.session;
  constexpr int kFirstThatMayPass = 500;
  if (made.error().status >= kFirstThatMayPass)
    co_return make_error(ErrorCode::kUnavailable, "make session", made.error().message);
  co_return run_error_of(made.error());
}

}  // namespace pons::managed
