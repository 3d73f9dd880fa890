#include "callers.h"

#include "pons/http/query.h"
#include "sandbox_bound_key.h"

namespace pons::gateway {

namespace {

// Roles that have checked a client's key, or have none to check.
bool is_believed(std::string_view role) {
  return role == "front" || role == "brain" || role == "operator";
}

std::string_view shown_key(const http::RequestHead& head) {
  constexpr std::string_view kScheme = "Bearer ";
  if (const auto key = head.find("x-api-key")) return *key;
  const auto field = head.find("authorization").value_or("");
  return field.starts_with(kScheme) ? field.substr(kScheme.size()) : std::string_view();
}

// `sandbox`: the one that it comes from, as egress says.
Result<Caller> caller_of(Result<const budget::Key*> key, std::string_view sandbox = {}) {
  if (!key || !may_call_from(**key, sandbox))
    return make_error(ErrorCode::kDenied, "identify", "this key is not valid");
  return Caller{
      .key = (*key)->id, .project = (*key)->project_id, .is_harness = is_bound_key(**key)};
}

}  // namespace

Task<Result<Caller>> identify_caller(Models& models, const http::Exchange& exchange) {
  const http::RequestHead& head = exchange.request();
  budget::Keys& keys = models.book.keys();
  if (is_believed(exchange.peer().role)) {
    if (const auto id = head.find("x-pons-key")) co_return caller_of(keys.find(*id));
    if (const auto hash = head.find("x-pons-key-hash"))
      co_return caller_of(keys.find_by_hash(*hash));
    const std::string project(head.find("x-pons-project").value_or("default"));
    // Only the brain knows which of its agents it asks for.
    const auto agent = exchange.peer().role == "brain" ? head.find("x-pons-agent") : std::nullopt;
    if (auto name = agent ? http::percent_decode(*agent) : std::nullopt; name && !name->empty()) {
      CO_TRY(const budget::Key key, co_await keys.ensure_agent(project, std::move(*name)));
      co_return Caller{.key = key.id, .project = key.project_id};
    }
    CO_TRY(const budget::Key root, co_await keys.ensure_root(project));
    co_return Caller{.key = root.id, .project = root.project_id};
  }
  const std::string_view key = shown_key(head);
  if (key.empty())
    co_return make_error(ErrorCode::kDenied, "identify",
                         "send a key: Authorization: Bearer KEY; `pons keys create` makes one");
  const auto sandbox =
      exchange.peer().role == "egress" ? head.find("x-pons-sandbox") : std::nullopt;
  co_return caller_of(keys.find_by_secret(key), sandbox.value_or(""));
}

}  // namespace pons::gateway
