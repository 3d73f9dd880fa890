#include "pons/managed/managed.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "repository_shape.h"
#include "routes.h"

namespace pons::managed {

ManagedApi::ManagedApi(linux::Loop& loop, store::Store& store, const Clock& clock,
                       session::Sessions& sessions, TokenDoor& door)
    : loop_(loop),
      objects_(std::make_unique<Objects>(store, clock)),
      sessions_(sessions),
      tokens_(store, clock, door) {}

ManagedApi::~ManagedApi() = default;

void ManagedApi::use_vaults(VaultFinder finder) {
  objects_->find_vault = std::move(finder);
}

void ManagedApi::tell_of_packages(std::function<void()> tell) {
  objects_->on_packages = std::move(tell);
}

void ManagedApi::use_harnesses(HarnessChoice choice) {
  objects_->harnesses = std::move(choice);
}

bool ManagedApi::is_session(std::string_view id) {
  return id.starts_with("sesn_");
}

Task<Result<SessionFiles>> ManagedApi::files_of(std::string project, std::string session) {
  SessionFiles files;
  const auto order = co_await objects_->orders.find(std::move(project), std::move(session));
  if (!order && order.error().status == 404) co_return files;
  if (!order) co_return make_error(ErrorCode::kUnavailable, "find session", order.error().message);
  CO_TRY(const auto said, parse_json(order->text));
  files.had_others = said.value("had_other_files", false);
  for (const Json& resource : said.at("resources")) {
    if (resource.at("type") == "memory_store") continue;
    SessionFile& file = files.wanted.emplace_back();
    file.resource = resource.at("id");
    file.path = resource.at("mount_path");
    if (resource.at("type") == "file")
      file.file = resource.at("file_id");
    else
      file.repository = repository_of(resource);
  }
  co_return files;
}

Task<Reply<StoreGrant>> ManagedApi::grant_of(std::string project, std::string session,
                                             std::string store) {
  CO_TRY(const auto order, co_await objects_->orders.find(std::move(project), std::move(session)));
  CO_TRY(const auto said, parse_json(order.text));
  for (const Json& resource : said.at("resources"))
    if (resource.at("type") == "memory_store" && resource.at("memory_store_id") == store)
      co_return resource.at("access") == "read_only" ? StoreGrant::kRead : StoreGrant::kWrite;
  co_return StoreGrant::kNone;
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
  add(work_routes(*objects_, tokens_));
  return all;
}

std::vector<http::Route> ManagedApi::unknown_routes() {
  return {{"*", "/v1/{...}", answering([](Call&) -> Task<Reply<Json>> {
             co_return Refusal{404, "not_found_error", "there is nothing at this address"};
           })}};
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
