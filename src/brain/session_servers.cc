#include "session_servers.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::brain {

namespace {

using session::ServerFault;
using session::ServerGrant;
using session::ServerOffer;
using session::ServerWay;

constexpr std::size_t kConversationsMax = 256;
constexpr Duration kIdleTime = std::chrono::minutes(10);

}  // namespace

struct SessionServers::Conversation {
  Conversation(linux::Loop& loop, http::Client& egress, EgressSender::Way way,
               mcp::ClientLimits limits)
      : loop(loop),
        sender(loop, egress, std::move(way)),
        client(loop, sender, limits),
        free(loop),
        used(loop.now()) {}

  linux::Loop& loop;
  EgressSender sender;
  mcp::Client client;
  linux::Event free;
  bool is_busy = false;
  TimePoint used;

  // While it lives, nobody else speaks.
  struct Turn {
    Shared conversation;
    explicit Turn(Shared mine) : conversation(std::move(mine)) { conversation->is_busy = true; }
    ~Turn() {
      conversation->is_busy = false;
      conversation->used = conversation->loop.now();
      conversation->free.set();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
  };
};

struct SessionServers::Listed {
  std::optional<mcp::ToolList> list;
  mcp::ToolPins pins;
  std::optional<session::ServerTrouble> trouble;
};

// Where the rules of the agent's network have changed, or the server's address, it is another one.
Task<Result<SessionServers::Shared>> SessionServers::converse(const ServerWay& way,
                                                              const ServerGrant& server) {
  EgressSender::Way out{.url = server.url,
                        .environment = way.environment,
                        .credential = server.credential,
                        .session = way.session,
                        .project = way.project,
                        .vaults = vaults_in(way.network)};
  if (way.environment.empty()) {
    if (way.network.empty())
      co_return make_error(ErrorCode::kDenied, "ask MCP server",
                           "the agent's environment has no network");
    CO_TRY(out.network, policy_toward(way.network, server.url, server.credential));
  }
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", way.session, server.name,
                                      server.url, server.credential, way.environment, out.network);
  if (const auto found = conversations_.find(key); found != conversations_.end())
    co_return found->second;
  make_room();
  auto made = std::make_shared<Conversation>(loop_, egress_, std::move(out), limits_);
  conversations_[key] = made;
  co_return made;
}

// Whoever was silent longest goes; it begins again when it is asked.
void SessionServers::make_room() {
  if (conversations_.size() < kConversationsMax) return;
  auto oldest = conversations_.end();
  for (auto each = conversations_.begin(); each != conversations_.end(); ++each)
    if (!each->second->is_busy &&
        (oldest == conversations_.end() || each->second->used < oldest->second->used))
      oldest = each;
  if (oldest != conversations_.end()) conversations_.erase(oldest);
}

Task<Result<void>> SessionServers::wait_for_turn(Shared conversation, TimePoint deadline) {
  while (conversation->is_busy) {
    conversation->free.reset();
    if (co_await conversation->free.wait(deadline) == linux::Wait::kTimeout &&
        conversation->is_busy)
      co_return make_error(ErrorCode::kInvalid, "ask MCP server",
                           "another call of this session takes too long there");
  }
  co_return {};
}

Task<> SessionServers::list_one(ServerWay way, ServerGrant server, Listed& into) {
  counts_.lists += 1;
  const auto fail = [&](ServerFault fault, const Error& error) {
    counts_.list_failures += 1;
    into.trouble = {.server = server.name,
                    .fault = fault,
                    .message = error.message.empty() ? error.describe() : error.message};
  };
  const auto conversation = co_await converse(way, server);
  if (!conversation) co_return fail(ServerFault::kConnection, conversation.error());
  if (const auto turn = co_await wait_for_turn(*conversation, loop_.now() + limits_.question_time);
      !turn)
    co_return fail(ServerFault::kConnection, turn.error());
  const Conversation::Turn turn(*conversation);
  auto list = co_await (*conversation)->client.list_tools();
  if (!list) {
    const int status = (*conversation)->client.last_status();
    co_return fail(
        status == 401 || status == 403 ? ServerFault::kAuthentication : ServerFault::kConnection,
        list.error());
  }
  auto pins = co_await pins_.meet(way.project, server.url, *list);
  if (!pins) co_return fail(ServerFault::kConnection, pins.error());
  into.list = std::move(*list);
  into.pins = std::move(*pins);
}

// All at the same time: a server that hangs costs no more than its own patience.
Task<ServerOffer> SessionServers::list(ServerWay way, std::vector<ServerGrant> servers) {
  std::vector<Listed> listed(servers.size());
  linux::TaskGroup group(loop_);
  for (std::size_t i = 0; i < servers.size(); ++i)
    group.spawn(list_one(way, servers[i], listed[i]));
  const bool is_late = co_await group.wait_until_empty(loop_.now() + 3 * limits_.question_time) ==
                       linux::Wait::kTimeout;
  group.cancel_all();
  ServerOffer offer;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (listed[i].list)
      add_server_tools(servers[i], *listed[i].list, listed[i].pins, offer.tools, offer.troubles);
    else if (listed[i].trouble)
      offer.troubles.push_back(std::move(*listed[i].trouble));
    else if (is_late)
      offer.troubles.push_back(
          {.server = servers[i].name, .message = "the server did not answer in time"});
  }
  co_return offer;
}

Task<Result<session::ServerReport>> SessionServers::call(ServerWay way,
                                                         session::ServerOrder order) {
  const auto refuse = [this](Error error) {
    counts_.refused_calls += 1;
    error.code = ErrorCode::kInvalid;  // nothing was asked of it
    return error;
  };
  const auto conversation = co_await converse(way, order.server);
  if (!conversation) co_return refuse(conversation.error());
  if (const auto turn = co_await wait_for_turn(*conversation, loop_.now() + limits_.call_time);
      !turn)
    co_return refuse(turn.error());
  const Conversation::Turn turn(*conversation);
  const auto known = co_await pins_.find(way.project, order.server.url);
  if (!known) co_return refuse(known.error());
  auto result = co_await (*conversation)->client.call(order.tool, order.input, known->accepted);
  if (result) {
    counts_.done_calls += 1;
    co_return session::ServerReport{.text = std::move(result->text), .is_error = result->is_error};
  }
  const ErrorCode code = result.error().code;
  if (code == ErrorCode::kDenied || code == ErrorCode::kInvalid) co_return refuse(result.error());
  counts_.lost_calls += 1;
  co_return result.error();
}

void SessionServers::write_metrics(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  page.begin("pons_mcp_conversations", kGauge,
             "Sessions' conversations with MCP servers of others.");
  page.add({}, conversations_.size());
  page.begin("pons_mcp_lists_total", kCounter, "Times a server was asked what it offers, by how.");
  page.add({{"outcome", "done"}}, counts_.lists - counts_.list_failures);
  page.add({{"outcome", "failed"}}, counts_.list_failures);
  page.begin("pons_mcp_calls_total", kCounter,
             "Calls of tools of servers, by what is known of them.");
  page.add({{"outcome", "done"}}, counts_.done_calls);
  page.add({{"outcome", "refused"}}, counts_.refused_calls);
  page.add({{"outcome", "lost"}}, counts_.lost_calls);
}

Task<> SessionServers::keep_tidy() {
  for (;;) {
    co_await loop_.sleep_for(kIdleTime / 10);
    std::vector<Shared> over;
    std::erase_if(conversations_, [&](const auto& each) {
      const bool is_over = !each.second->is_busy && each.second->used + kIdleTime < loop_.now();
      if (is_over) over.push_back(each.second);
      return is_over;
    });
    for (const Shared& each : over) co_await each->client.close();
  }
}

}  // namespace pons::brain
