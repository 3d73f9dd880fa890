#include "pons/managed/reference.h"

#include <array>

#include <fmt/format.h>

namespace pons::managed {

namespace {

constexpr auto kRoutes = std::to_array<RouteText>({
    {"POST", "/v1/agents", "makes an agent: `name`, `model`, `system`, `tools` …"},
    {"GET", "/v1/agents", "lists agents; `include_archived`, `created_at[gte]`, `created_at[lte]`"},
    {"GET", "/v1/agents/{id}", "an agent; `?version=N` as it was"},
    {"POST", "/v1/agents/{id}",
     "changes it: a new version; 409 when `version` is not the last one"},
    {"GET", "/v1/agents/{id}/versions", "its versions, newest first"},
    {"POST", "/v1/agents/{id}/archive", "no new sessions with it, for ever"},
    {"POST", "/v1/environments", "makes an environment: `name`, `config`"},
    {"GET", "/v1/environments", "lists environments"},
    {"GET", "/v1/environments/{id}", "an environment"},
    {"POST", "/v1/environments/{id}", "changes it"},
    {"DELETE", "/v1/environments/{id}", "deletes it"},
    {"POST", "/v1/environments/{id}/archive", "no new sessions in it, for ever"},
    {"GET", "/v1/environments/{id}/work/poll",
     "work of a `self_hosted` environment, with a token for its session, or null; `block_ms`, "
     "`reclaim_older_than_ms`"},
    {"GET", "/v1/environments/{id}/work/stats", "how much waits, and how many workers ask"},
    {"GET", "/v1/environments/{id}/work", "lists work, newest first"},
    {"GET", "/v1/environments/{id}/work/{work}", "a piece of work"},
    {"POST", "/v1/environments/{id}/work/{work}", "changes its metadata"},
    {"POST", "/v1/environments/{id}/work/{work}/ack", "a worker takes it on"},
    {"POST", "/v1/environments/{id}/work/{work}/heartbeat",
     "and is still there; `desired_ttl_seconds`, `expected_last_heartbeat`"},
    {"POST", "/v1/environments/{id}/work/{work}/stop", "asks for its end; `force`: it is over"},
    {"POST", "/v1/sessions",
     "makes a session: `agent`, `environment_id`, `initial_events`, `resources`, `vault_ids`, "
     "`budget`"},
    {"GET", "/v1/sessions",
     "lists sessions; `agent_id`, `agent_version`, `deployment_id`, `statuses[]`, `order`, "
     "`created_at[…]`, `include_archived`"},
    {"GET", "/v1/sessions/{id}", "a session"},
    {"POST", "/v1/sessions/{id}", "changes title, metadata, tools, budget"},
    {"DELETE", "/v1/sessions/{id}", "deletes it and its log"},
    {"POST", "/v1/sessions/{id}/archive", "ends it; its log stays"},
    {"GET", "/v1/sessions/{id}/resources",
     "files and repositories of its machine, and its memory stores"},
    {"POST", "/v1/sessions/{id}/resources", "puts one more file into its machine"},
    {"GET", "/v1/sessions/{id}/resources/{resource}", "one of them"},
    {"POST", "/v1/sessions/{id}/resources/{resource}",
     "refused: tokens of repositories are kept in vaults"},
    {"DELETE", "/v1/sessions/{id}/resources/{resource}", "takes it out of its machine"},
    {"GET", "/v1/sessions/{id}/events", "its events; `types[]`, `order`, `created_at[…]`"},
    {"POST", "/v1/sessions/{id}/events",
     "says something: messages, interrupts, decisions, results of tools"},
    {"GET", "/v1/sessions/{id}/events/stream",
     "events as they happen (server-sent events); `event_deltas[]`, `Last-Event-ID`"},
    {"GET", "/v1/sessions/{id}/threads", "its agents, itself first; `statuses[]`"},
    {"GET", "/v1/sessions/{id}/threads/{thread}", "a thread: its agent, status and usage"},
    {"POST", "/v1/sessions/{id}/threads/{thread}/archive", "puts away one that rests"},
    {"GET", "/v1/sessions/{id}/threads/{thread}/events", "its events, as those of the session"},
    {"GET", "/v1/sessions/{id}/threads/{thread}/stream",
     "its events as they happen; `event_deltas[]`, `Last-Event-ID`"},
    {"POST", "/v1/deployments",
     "makes a deployment: `agent`, `environment_id`, `initial_events`, `schedule` (cron and zone)"},
    {"GET", "/v1/deployments", "lists deployments; `agent_id`, `status`, `include_archived`"},
    {"GET", "/v1/deployments/{id}", "a deployment"},
    {"POST", "/v1/deployments/{id}", "changes it"},
    {"POST", "/v1/deployments/{id}/archive", "no run any more, for ever"},
    {"POST", "/v1/deployments/{id}/pause", "no run by schedule until it is unpaused"},
    {"POST", "/v1/deployments/{id}/unpause", "from now on; what was missed is not made up for"},
    {"POST", "/v1/deployments/{id}/run", "a run now"},
    {"GET", "/v1/deployment_runs",
     "lists runs; `deployment_id`, `has_error`, `trigger_type`, `created_at[…]`"},
    {"GET", "/v1/deployment_runs/{id}", "a run: its session, or why there is none"},
    {"POST", "/v1/files", "uploads a file: a form with `file`, and maybe `expires_in_seconds`"},
    {"GET", "/v1/files",
     "lists files, newest first; `ids[]`, or `scope_id`: those that a session left"},
    {"GET", "/v1/files/{id}", "a file: name, type, size"},
    {"GET", "/v1/files/{id}/content", "its bytes"},
    {"DELETE", "/v1/files/{id}", "deletes it"},
    {"POST", "/v1/memory_stores", "makes a store of notes: `name`, `description`"},
    {"GET", "/v1/memory_stores", "lists stores"},
    {"GET", "/v1/memory_stores/{id}", "a store"},
    {"POST", "/v1/memory_stores/{id}", "changes it"},
    {"DELETE", "/v1/memory_stores/{id}", "deletes it, its notes and their versions"},
    {"POST", "/v1/memory_stores/{id}/archive", "no new notes in it, for ever"},
    {"POST", "/v1/memory_stores/{id}/memories", "writes a new note: `path`, `content`"},
    {"GET", "/v1/memory_stores/{id}/memories", "lists notes; `path_prefix`, `depth`, `view`"},
    {"GET", "/v1/memory_stores/{id}/memories/{memory}", "a note"},
    {"POST", "/v1/memory_stores/{id}/memories/{memory}",
     "changes its text or its path; `precondition` by the SHA-256 of the text"},
    {"DELETE", "/v1/memory_stores/{id}/memories/{memory}", "deletes it; `expected_content_sha256`"},
    {"GET", "/v1/memory_stores/{id}/memory_versions",
     "every change, newest first; `memory_id`, `operation`, `session_id`, `api_key_id` …"},
    {"GET", "/v1/memory_stores/{id}/memory_versions/{version}", "a note as it was"},
    {"POST", "/v1/memory_stores/{id}/memory_versions/{version}/redact",
     "takes text and path out of a version that is no longer the note's"},
    {"POST", "/v1/vaults", "makes a vault: `display_name`"},
    {"GET", "/v1/vaults", "lists vaults; `include_archived`"},
    {"GET", "/v1/vaults/{id}", "a vault"},
    {"POST", "/v1/vaults/{id}", "changes it"},
    {"DELETE", "/v1/vaults/{id}", "deletes it, and all in it"},
    {"POST", "/v1/vaults/{id}/archive", "its secrets are gone, its record stays"},
    {"POST", "/v1/vaults/{id}/credentials",
     "keeps a credential: `auth` of the type `environment_variable`, `static_bearer` or "
     "`mcp_oauth`"},
    {"GET", "/v1/vaults/{id}/credentials", "lists credentials, without their secrets"},
    {"GET", "/v1/vaults/{id}/credentials/{credential}", "a credential, without its secrets"},
    {"POST", "/v1/vaults/{id}/credentials/{credential}", "changes it: another value, other hosts"},
    {"DELETE", "/v1/vaults/{id}/credentials/{credential}", "deletes it"},
    {"POST", "/v1/vaults/{id}/credentials/{credential}/archive",
     "its secret is gone, its record stays"},
    {"POST", "/v1/vaults/{id}/credentials/{credential}/mcp_oauth_validate",
     "asks its server whether it takes the token"},
});

}  // namespace

std::span<const RouteText> route_texts() {
  return kRoutes;
}

std::string write_reference() {
  std::string table = "| Method | Path | |\n|---|---|---|\n";
  for (const RouteText& route : kRoutes)
    table += fmt::format("| {} | `{}` | {} |\n", route.method, route.pattern, route.what);
  return table;
}

}  // namespace pons::managed
