#include "feed.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::session {

namespace {

constexpr std::size_t kRecentEvents = 64;
// Of a follower that does not keep up: it gets the whole answer with its event.
constexpr std::size_t kDeltaBytesMax = 256 << 10;
constexpr std::int64_t kReadAtOnce = 200;

}  // namespace

UserMessage message_of(std::string_view text, std::string dedupe) {
  return {.content = dump_json(Json::array({{{"type", "text"}, {"text", text}}})),
          .dedupe = std::move(dedupe)};
}

FeedFollower::FeedFollower(Sessions& sessions, std::string session, Sessions::From from)
    : sessions_(sessions),
      session_(std::move(session)),
      after_(from.after),
      with_deltas_(from.with_deltas),
      news_(sessions.world_.loop) {
  auto& feed = sessions_.feeds_[session_];
  if (!feed) feed = std::make_unique<Sessions::Feed>();
  feed->followers.insert(this);
  news_.set();  // the log may have something already
}

FeedFollower::~FeedFollower() {
  const auto feed = sessions_.feeds_.find(session_);
  feed->second->followers.erase(this);
  if (feed->second->followers.empty()) sessions_.feeds_.erase(feed);
}

void FeedFollower::add_delta(std::string_view text) {
  if (!with_deltas_ || deltas_.size() + text.size() > kDeltaBytesMax) return;
  deltas_ += text;
  news_.set();
}

std::vector<StoredEvent> FeedFollower::take_recent() {
  const auto& recent = sessions_.feeds_.at(session_)->recent;
  std::vector<StoredEvent> events;
  if (recent.empty() || recent.front().seq > after_ + 1) return events;
  for (const StoredEvent& stored : recent)
    if (stored.seq > after_) events.push_back(stored);
  return events;
}

Task<Result<News>> FeedFollower::next(TimePoint deadline) {
  News news;
  if (co_await news_.wait(deadline) == linux::Wait::kTimeout) co_return news;
  news_.reset();
  news.deltas = std::exchange(deltas_, {});
  news.events = take_recent();
  if (news.events.empty() && news.deltas.empty()) {
    CO_TRY(news.events, co_await sessions_.world_.log.read(session_, after_, kReadAtOnce));
    if (!news.events.empty()) news_.set();  // there may be more of them
  }
  if (!news.events.empty()) after_ = news.events.back().seq;
  co_return news;
}

std::unique_ptr<Follower> Sessions::follow(std::string session, From from) {
  return std::make_unique<FeedFollower>(*this, std::move(session), from);
}

void Sessions::on_events(const std::string& session, const std::vector<StoredEvent>& events) {
  if (observer_) observer_(session, events);
  const auto found = feeds_.find(session);
  if (found == feeds_.end()) return;
  Feed& feed = *found->second;
  feed.recent.insert(feed.recent.end(), events.begin(), events.end());
  while (feed.recent.size() > kRecentEvents) feed.recent.pop_front();
  for (FeedFollower* follower : feed.followers) follower->wake();
}

void Sessions::on_delta(const std::string& session, std::string_view text) {
  if (const auto found = feeds_.find(session); found != feeds_.end())
    for (FeedFollower* follower : found->second->followers) follower->add_delta(text);
}

bool Sessions::wants_deltas(const std::string& session) const {
  const auto found = feeds_.find(session);
  return found != feeds_.end() &&
         std::ranges::any_of(found->second->followers, &FeedFollower::wants_deltas);
}

}  // namespace pons::session
