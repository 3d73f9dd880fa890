#include "access_news.h"

#include <nlohmann/json.hpp>

namespace pons::egress {

namespace {

// Shorter than whoever asks waits for an answer.
constexpr Duration kPatience = std::chrono::seconds(20);
constexpr std::size_t kListedMax = 64;

}  // namespace

AccessNews::AccessNews(Boundary& boundary, Attachments& attachments)
    : boundary_(boundary), attachments_(attachments), changed_(boundary.loop) {
  boundary_.access.on_news([this] { changed_.set(); });
}

// What is over is told to whoever was told that it began.
bool AccessNews::is_for_people(const AccessRequest& request) const {
  if (!request.is_pending()) return request.told && !request.session.empty();
  const auto sandbox = attachments_.all().find(request.sandbox_key);
  return sandbox != attachments_.all().end() &&
         sandbox->second->policy->find_obstacle(request.wish.host).empty();
}

Json AccessNews::list() const {
  Json all = Json::array();
  for (const AccessRequest* request : boundary_.access.untold())
    if (all.size() < kListedMax && is_for_people(*request)) all.push_back(to_json(*request));
  return all;
}

Task<> AccessNews::wait(http::Exchange& exchange) {
  const TimePoint deadline = boundary_.loop.now() + kPatience;
  bool has_left = false;
  linux::TaskGroup watching(boundary_.loop);
  watching.spawn(watch(exchange, deadline, has_left));
  while (list().empty() && !has_left && boundary_.loop.now() < deadline) {
    changed_.reset();
    co_await changed_.wait(deadline);
  }
}

Task<> AccessNews::watch(http::Exchange& exchange, TimePoint deadline, bool& has_left) {
  if (!co_await exchange.wait_for_hang_up(deadline)) co_return;
  has_left = true;
  changed_.set();
}

}  // namespace pons::egress
