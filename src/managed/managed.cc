#include "pons/managed/managed.h"

#include <algorithm>
#include <iterator>

#include "routes.h"

namespace pons::managed {

ManagedApi::ManagedApi(store::Store& store, const Clock& clock, session::Sessions& sessions)
    : objects_(std::make_unique<Objects>(store, clock)), sessions_(sessions) {}

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
  return all;
}

}  // namespace pons::managed
