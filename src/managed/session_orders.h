#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/managed/query.h"
#include "pons/managed/reply.h"
#include "pons/session/log.h"
#include "pons/store/store.h"

namespace pons::managed {

// What a client ordered when it made a session; the session itself is its log.
struct SessionOrder {
  std::string session;
  std::string project;
  std::string agent;
  std::int64_t agent_version = 0;
  std::string environment;
  std::string deployment;  // empty: none
  std::int64_t version = 1;
  std::string text;  // JSON: agent, metadata, resources, vault_ids
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
};

struct OrderFilter {
  bool with_archived = false;
  bool oldest_first = false;
  std::string agent;  // empty: any
  std::optional<std::int64_t> agent_version = std::nullopt;
  std::string deployment;
  std::string memory_store;                              // among its resources
  std::vector<std::string> statuses;                     // of the log: "idle", "running" …
  bool terminated = false;                               // archived ones are wanted by name
  std::optional<std::int64_t> after_ms = std::nullopt;   // made then or later
  std::optional<std::int64_t> before_ms = std::nullopt;  // made before
};

struct OrderPage {
  std::vector<SessionOrder> orders;
  std::optional<std::string> next_page;
};

class SessionOrders {
 public:
  SessionOrders(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // Before the session itself; times are filled in.
  Task<Reply<SessionOrder>> create(SessionOrder order);
  Task<Reply<SessionOrder>> find(std::string project, std::string session);
  Task<Reply<SessionOrder>> replace(const SessionOrder& before, std::string text);
  // One for which no session was made after all.
  Task<Reply<void>> take_back(std::string project, std::string session);
  // The session, its log and the order. Only of one that is archived.
  Task<Reply<void>> remove(std::string project, std::string session);
  Task<Reply<OrderPage>> list(std::string project, const OrderFilter& filter, const PageWish& wish);

  static const char* list_name(const OrderFilter& filter) {
    return filter.oldest_first ? "sessions asc" : "sessions desc";
  }

 private:
  std::int64_t now_ms() const;

  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::managed
