#include "server_pins.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::brain {

namespace {

constexpr std::int64_t kServersMax = 1'000;  // of a project
constexpr std::size_t kSchemaBytesMax = 16 << 10;
constexpr std::size_t kPendingBytesMax = 1 << 20;
constexpr int kAttempts = 8;

std::string write_pending(const std::vector<PendingTool>& tools) {
  Json list = Json::array();
  for (const PendingTool& tool : tools)
    list.push_back({{"name", tool.name},
                    {"digest", tool.digest},
                    {"description", tool.description},
                    {"input_schema", tool.input_schema},
                    {"changed", tool.is_changed}});
  return dump_json(list);
}

Result<std::vector<PendingTool>> read_pending(std::string_view text) {
  const Json list = TRY(parse_json(text, {.bytes = 4 * kPendingBytesMax}));
  std::vector<PendingTool> tools;
  for (const Json& tool : list)
    tools.push_back({.name = tool.at("name"),
                     .digest = tool.at("digest"),
                     .description = tool.at("description"),
                     .input_schema = tool.at("input_schema"),
                     .is_changed = tool.at("changed")});
  return tools;
}

Result<KnownServer> server_of(const store::Row& row) {
  const std::string accepted = TRY(store::text_of(row, 1));
  const std::string offered = TRY(store::text_of(row, 2));
  return KnownServer{.url = TRY(store::text_of(row, 0)),
                     .accepted = TRY(mcp::ToolPins::read(accepted)),
                     .pending = TRY(read_pending(offered)),
                     .revision = TRY(store::integer_of(row, 3)),
                     .updated_ms = TRY(store::integer_of(row, 4))};
}

constexpr const char* kColumns = "url, accepted, offered, revision, updated";

// Long definitions are told of without their schemas.
std::vector<PendingTool> pending_of(const mcp::ToolPins& pins, const mcp::ToolList& offered) {
  using Standing = mcp::ToolPins::Standing;
  std::vector<PendingTool> pending;
  std::size_t bytes = 0;
  for (const mcp::RemoteTool& tool : offered.tools) {
    const Standing standing = pins.standing_of(tool);
    if (standing == Standing::kAccepted) continue;
    PendingTool made{.name = tool.name,
                     .digest = tool.digest,
                     .description = tool.description,
                     .input_schema = {},
                     .is_changed = standing == Standing::kChanged};
    bytes += tool.description.size() + tool.input_schema.size();
    if (tool.input_schema.size() <= kSchemaBytesMax && bytes <= kPendingBytesMax)
      made.input_schema = tool.input_schema;
    if (bytes > kPendingBytesMax) made.description.clear();
    pending.push_back(std::move(made));
  }
  return pending;
}

bool is_same(const std::vector<PendingTool>& one, const std::vector<PendingTool>& other) {
  return std::ranges::equal(one, other, [](const PendingTool& a, const PendingTool& b) {
    return a.name == b.name && a.digest == b.digest;
  });
}

Error not_as_seen(const std::string& name) {
  return make_error(
      ErrorCode::kConflict, "accept tool",
      fmt::format("\"{}\" is not offered as it was when you looked; look again", name));
}

}  // namespace

std::int64_t ServerPins::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Result<KnownServer>> ServerPins::find(std::string project, std::string url) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM mcp_servers WHERE "
                                                  "project_id = $1 AND url = $2",
                                                  kColumns),
                               .values = {std::move(project), std::move(url)}}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find MCP server",
                         "no session of the project has met this server");
  co_return server_of(rows.front());
}

Task<Result<std::vector<KnownServer>>> ServerPins::list(std::string project) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM mcp_servers WHERE "
                                                  "project_id = $1 ORDER BY url LIMIT {}",
                                                  kColumns, kServersMax),
                               .values = {std::move(project)}}));
  std::vector<KnownServer> servers;
  for (const store::Row& row : rows) {
    CO_TRY(auto server, server_of(row));
    servers.push_back(std::move(server));
  }
  co_return servers;
}

// Of two that meet it first, one is first.
Task<Result<mcp::ToolPins>> ServerPins::meet(std::string project, std::string url,
                                             mcp::ToolList offered) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto known = co_await find(project, url);
    if (!known && known.error().code != ErrorCode::kNotFound) co_return known.error();
    if (!known) {
      mcp::ToolPins all;
      for (const mcp::RemoteTool& tool : offered.tools) all.accept(tool);
      const auto made = co_await store_.write(
          {{.sql = fmt::format("INSERT INTO mcp_servers (project_id, url, accepted, offered, "
                               "revision, created, updated) SELECT $1, $2, $3, '[]', 1, "
                               "CAST($4 AS BIGINT), CAST($4 AS BIGINT) WHERE (SELECT COUNT(*) "
                               "FROM mcp_servers WHERE project_id = $1) < {}",
                               kServersMax),
            .values = {project, url, all.write(), now_ms()},
            .must_change = 1}});
      if (made) co_return all;
      if (made.error().code != ErrorCode::kConflict) co_return made.error();
      continue;
    }
    std::vector<PendingTool> pending = pending_of(known->accepted, offered);
    if (is_same(pending, known->pending)) co_return std::move(known->accepted);
    known->pending = std::move(pending);
    const auto replaced = co_await replace(project, *known);
    if (replaced) co_return std::move(known->accepted);
    if (replaced.error().code != ErrorCode::kConflict) co_return replaced.error();
  }
  co_return make_error(ErrorCode::kLimit, "meet MCP server",
                       fmt::format("a project knows at most {} MCP servers; `pons mcp pins forget` "
                                   "forgets one",
                                   kServersMax));
}

Task<Result<KnownServer>> ServerPins::accept(std::string project, std::string url,
                                             std::vector<Choice> choices) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    CO_TRY(auto known, co_await find(project, url));
    for (const Choice& choice : choices) {
      const auto tool = std::ranges::find(known.pending, choice.name, &PendingTool::name);
      if (tool == known.pending.end() || tool->digest != choice.digest)
        co_return not_as_seen(choice.name);
      mcp::RemoteTool accepted;
      accepted.name = tool->name;
      accepted.digest = tool->digest;
      known.accepted.accept(accepted);
      known.pending.erase(tool);
    }
    const auto replaced = co_await replace(project, known);
    if (replaced) co_return known;
    if (replaced.error().code != ErrorCode::kConflict) co_return replaced.error();
  }
  co_return make_error(ErrorCode::kConflict, "accept tool", "the server changes all the time");
}

Task<Result<void>> ServerPins::replace(std::string project, const KnownServer& after) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE mcp_servers SET accepted = $1, offered = $2, revision = revision + 1, "
               "updated = $3 WHERE project_id = $4 AND url = $5 AND revision = $6",
        .values = {after.accepted.write(), write_pending(after.pending), now_ms(),
                   std::move(project), after.url, after.revision},
        .must_change = 1}}));
  co_return {};
}

Task<Result<void>> ServerPins::forget(std::string project, std::string url) {
  const auto gone =
      co_await store_.write({{.sql = "DELETE FROM mcp_servers WHERE project_id = $1 AND url = $2",
                              .values = {std::move(project), std::move(url)},
                              .must_change = 1}});
  if (!gone && gone.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kNotFound, "forget MCP server",
                         "no session of the project has met this server");
  if (!gone) co_return gone.error();
  co_return {};
}

}  // namespace pons::brain
