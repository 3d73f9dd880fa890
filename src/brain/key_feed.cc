#include "key_feed.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"

namespace pons::brain {

namespace {

Task<> pass_on(linux::Event& from, linux::Event& to) {
  co_await from.wait(kNever);
  to.set();
}

Task<> pass_on_hang_up(http::Exchange& exchange, linux::Event& to) {
  if (co_await exchange.wait_for_hang_up(kNever)) to.set();
}

}  // namespace

KeyFeed::KeyFeed(linux::Loop& loop, const std::vector<ApiKey>& active)
    : loop_(loop), process_(random_text(12)), changed_(loop), heard_(loop) {
  for (const ApiKey& key : active) keys_.emplace(key.id, key);
  change();
}

void KeyFeed::change() {
  generation_ = fmt::format("{}-{}", process_, ++changes_);
  changed_.set();
  changed_.reset();
}

void KeyFeed::add(const ApiKey& key) {
  if (keys_.emplace(key.id, key).second) change();
}

void KeyFeed::remove(std::string_view id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  if (found->second.session.empty()) revoked_.emplace(id);
  keys_.erase(found);
  change();
}

void KeyFeed::replace(const std::vector<ApiKey>& active) {
  std::set<std::string, std::less<>> still_there;
  for (const ApiKey& key : active)
    if (revoked_.contains(key.id)) still_there.insert(key.id);
  revoked_ = std::move(still_there);
  replace(active, Of::kAnybody);
}

void KeyFeed::replace_workers(const std::vector<ApiKey>& active) {
  replace(active, Of::kWorkers);
}

void KeyFeed::replace(const std::vector<ApiKey>& active, Of whom) {
  std::map<std::string, ApiKey, std::less<>> keys;
  for (const auto& [id, key] : keys_)
    if (key.session.empty() == (whom == Of::kWorkers)) keys.emplace(id, key);
  for (const ApiKey& key : active)
    if (!revoked_.contains(key.id)) keys.emplace(key.id, key);
  if (keys == keys_) return;
  keys_ = std::move(keys);
  change();
}

bool KeyFeed::has(std::string_view id, std::string_view project) const {
  const auto found = keys_.find(id);
  return found != keys_.end() && found->second.project_id == project;
}

void KeyFeed::limit(const std::string& project, std::optional<std::int64_t> requests_per_second) {
  const auto known = requests_per_second_.find(project);
  const bool is_known = known == requests_per_second_.end() ? !requests_per_second
                                                            : known->second == requests_per_second;
  if (is_known) return;
  if (requests_per_second)
    requests_per_second_[project] = *requests_per_second;
  else
    requests_per_second_.erase(project);
  change();
}

std::string KeyFeed::body() const {
  Json keys = Json::array();
  for (const auto& [id, key] : keys_) {
    keys.push_back(
        {{"id", id}, {"project", key.project_id}, {"hash", key.hash}, {"scopes", key.scopes}});
    if (!key.session.empty()) keys.back()["session"] = key.session;
  }
  return dump_json({{"generation", generation_},
                    {"keys", std::move(keys)},
                    {"requests_per_second", requests_per_second_}}) +
         "\n";
}

Task<> KeyFeed::wait_for_news(std::string seen, http::Exchange& exchange, TimePoint deadline) {
  if (seen.starts_with(process_)) {
    heard_generation_ = seen;
    heard_.set();
  }
  if (seen != generation_) co_return;
  linux::Event woken(loop_);
  linux::TaskGroup watching(loop_);
  watching.spawn(pass_on(changed_, woken));
  watching.spawn(pass_on_hang_up(exchange, woken));
  co_await woken.wait(deadline);
}

Task<> KeyFeed::wait_until_heard(TimePoint deadline) {
  while (!heard_generation_.empty() && heard_generation_ != generation_) {
    heard_.reset();
    if (co_await heard_.wait(deadline) == linux::Wait::kTimeout) co_return;
  }
}

}  // namespace pons::brain
