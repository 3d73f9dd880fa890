#include "pons/managed/managed.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "routes.h"

namespace pons::managed {

ManagedApi::ManagedApi(store::Store& store, const Clock& clock, session::Sessions& sessions)
    : objects_(std::make_unique<Objects>(store, clock)), sessions_(sessions) {}

ManagedApi::~ManagedApi() = default;

void ManagedApi::use_vaults(VaultFinder finder) {
  objects_->find_vault = std::move(finder);
}

bool ManagedApi::is_session(std::string_view id) {
  return id.starts_with("sesn_");
}

Task<Result<std::vector<SessionFile>>> ManagedApi::files_of(std::string project,
                                                            std::string session) {
  std::vector<SessionFile> all;
  const auto order = co_await objects_->orders.find(std::move(project), std::move(session));
  if (!order && order.error().status == 404) co_return all;
  if (!order) co_return make_error(ErrorCode::kUnavailable, "find session", order.error().message);
  CO_TRY(const auto said, parse_json(order->text));
  for (const Json& resource : said.at("resources"))
    if (resource.at("type") == "file")
      all.push_back({.resource = resource.at("id"),
                     .file = resource.at("file_id"),
                     .path = resource.at("mount_path")});
  co_return all;
}

std::vector<http::Route> ManagedApi::routes() {
  std::vector<http::Route> all;
  const auto add = [&all](std::vector<http::Route> routes) {
    std::ranges::move(routes, std::back_inserter(all));
  };
  add(agent_routes(*objects_));
  add(environment_routes(*objects_));
  add(session_routes(*objects_, sessions_));
  add(resource_routes(*objects_, sessions_));
  add(event_routes(*objects_, sessions_));
  add(thread_routes(*objects_, sessions_));
  return all;
}

}  // namespace pons::managed
