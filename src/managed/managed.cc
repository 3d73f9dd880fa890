#include "pons/managed/managed.h"

#include <algorithm>
#include <iterator>

#include "pons/base/log.h"
#include "routes.h"

namespace pons::managed {

ManagedApi::ManagedApi(linux::Loop& loop, store::Store& store, const Clock& clock,
                       session::Sessions& sessions, TokenDoor& door)
    : loop_(loop),
      objects_(std::make_unique<Objects>(store, clock)),
      sessions_(sessions),
      tokens_(store, clock, door) {}

ManagedApi::~ManagedApi() = default;

std::vector<http::Route> ManagedApi::routes() {
  std::vector<http::Route> all;
  const auto add = [&all](std::vector<http::Route> routes) {
    std::ranges::move(routes, std::back_inserter(all));
  };
  add(agent_routes(*objects_));
  add(environment_routes(*objects_));
  add(session_routes(*objects_, sessions_));
  add(event_routes(*objects_, sessions_));
  add(thread_routes(*objects_, sessions_));
  add(work_routes(*objects_, tokens_));
  return all;
}

Task<> ManagedApi::keep_going() {
  constexpr Duration kBetweenLooks = std::chrono::seconds(15);
  for (;;) {
    if (const auto kept = co_await tokens_.keep_up(); !kept)
      LOG_WARN("tokens of workers are not looked after", {"error", kept.error()});
    co_await loop_.sleep_for(kBetweenLooks);
  }
}

}  // namespace pons::managed
