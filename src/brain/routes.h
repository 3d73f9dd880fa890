#pragma once

#include <functional>
#include <vector>

#include "api_keys.h"
#include "key_feed.h"
#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/store/bell.h"
#include "pons/store/sqlite_store.h"
#include "projects.h"
#include "sandbox_records.h"
#include "session_requests.h"

namespace pons::mcp {
class Server;
}
namespace pons::memory {
class MemoryStores;
}
namespace pons::managed {
class Documents;
}

namespace pons::brain {

class SandboxBills;

// What the routes work on; outlives them.
struct Memory {
  store::Store& store;
  store::SqliteStore* file;  // the same; null when it is a database elsewhere
  const Clock& clock;
  std::string node = {};        // which of those that share the store this is; empty: the only one
  store::Bell* bell = nullptr;  // to them; null: there are none
  SandboxBills* bills = nullptr;  // whom sandboxes are asked of; null: nobody
  Projects projects{store, clock};
  ApiKeys keys{store, clock};
  SandboxRecords records{store, node};
};

// Others that share the store hear by it that keys were made or revoked.
inline constexpr std::string_view kKeysTopic = "keys";

// To the front:
//   GET  /keys?after=GENERATION   the keys that are good; waits up to 25 s while nothing is new
//   GET  /sandbox-records/open?after=ID  {"open": [{"id", "project"}]}: some that have no end yet
//   POST /sandbox-records         [{"op", "id", "project", …}] -> {"stored": N, "refused": […]}
std::vector<http::Route> front_routes(Memory& memory, KeyFeed& feed);

// To the operator:
//   GET, POST /projects           POST {"name"}
//   POST      /projects/{id}/limits  {"sandboxes", "sessions", "requests_per_second"}
//   GET       /backup             a copy of the store
// To the operator, and for their own project to callers whose key has the scope "admin":
//   GET       /project            with its limits
//   GET, POST /api-keys           POST {"name", "project", "scopes"} -> with "key", this once
//   DELETE    /api-keys/{id}      the key is refused from now on
std::vector<http::Route> operator_routes(Memory& memory, KeyFeed& feed);

// What the routes about sessions work on; outlives them.
struct Minds {
  session::Sessions& sessions;
  session::Boundary& boundary;
  Agents agents;
  memory::MemoryStores* memories = nullptr;  // none: agents have no memory
};

// To callers of the API (through the front, which says whose they are) and to the operator
// (?project=NAME):
//   GET, POST /sessions                  POST {"agent", "message", …}
//   GET       /sessions/{id}             GET /agents
//   GET, POST /sessions/{id}/events      POST {"events": [{"type": "user.message", "text"}, …]}
//   GET       /sessions/{id}/stream      server-sent events; Last-Event-ID or ?after=SEQ
//   POST      /sessions/{id}/fork        {"at": SEQ}
//   POST      /sessions/{id}/archive     POST /sessions/{id}/replay
//   GET       /sessions/{id}/outputs/{digest}
std::vector<http::Route> session_routes(Minds& minds);

// To the same callers, for what is theirs:
//   POST /memory/search                           {"query", "stores", "limit"} -> {"hits"}
//   GET  /memory/stores/{id}/notes/{note}         with provenance, pin and uses
//   POST /memory/stores/{id}/notes/{note}/marks   {"pinned", "provenance"}
std::vector<http::Route> memory_routes(memory::MemoryStores& stores);

// To the same callers: tools of MCP servers of others that wait for a person.
//   GET  /mcp-servers          {"servers": [{"url", "accepted", "pending"}]}
//   POST /mcp-servers/accept   {"url", "tools": [{"name", "digest"}]}
//   POST /mcp-servers/forget   {"url"}
class ServerPins;
class PackageBuilds;
std::vector<http::Route> server_routes(ServerPins& pins);

// To the same callers: how far the packages of an environment are.
//   GET  /environments/{id}/build   {"state": "none" | "waiting" | "building" | "ready" | "failed",
//   …} POST /environments/{id}/build   what failed is tried again now
std::vector<http::Route> package_routes(managed::Documents& environments, PackageBuilds& builds);

// To the same callers:
//   DELETE, GET, POST /mcp               MCP over streamable HTTP (pons/mcp/server.h)
// `inside`: what serves a sandbox of that name.
using ServerInside = std::function<mcp::Server&(const std::string& sandbox)>;
std::vector<http::Route> mcp_routes(mcp::Server& server, ServerInside inside);

}  // namespace pons::brain
