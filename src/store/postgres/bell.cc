#include "bell.h"

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::store::postgres {

namespace {

// The server takes less than 8,000 bytes.
constexpr std::size_t kPayloadBytesMax = 7'000;
constexpr std::size_t kTopicsMax = 10'000;
// Others are woken at most so often; the first word leaves at once.
constexpr Duration kBetweenRings = std::chrono::milliseconds(2);
// Later nobody needs it: they look by themselves.
constexpr Duration kRingTime = std::chrono::seconds(2);

}  // namespace

PostgresBell::PostgresBell(linux::Loop& loop, std::string name, Lane& lane)
    : loop_(loop), name_(std::move(name)), lane_(lane), tasks_(loop) {}

void PostgresBell::ring(std::string topic) {
  if (topics_.size() < kTopicsMax) topics_.insert(std::move(topic));
  if (is_ringing_) return;
  is_ringing_ = true;
  tasks_.spawn(ring_all());
}

Task<> PostgresBell::ring_all() {
  while (!topics_.empty()) {
    Transaction one;
    one.push_back({.sql = "SELECT count(*) FROM pg_notify($1, $2)",
                   .values = {std::string(kChannel), take_payload()}});
    if (auto request = lane_.push(std::move(one), 0)) {
      const auto rung = co_await lane_.wait(std::move(*request), loop_.now() + kRingTime);
      if (!rung) LOG_DEBUG("others are not told of news", {"error", rung.error()});
    }
    co_await loop_.sleep_for(kBetweenRings);
  }
  is_ringing_ = false;
}

// Who says it, and what it is about; of too much, that it is anything.
std::string PostgresBell::take_payload() {
  std::string payload = name_;
  for (const std::string& topic : topics_) {
    payload += ' ';
    payload += topic;
    if (payload.size() <= kPayloadBytesMax) continue;
    payload = name_ + " " + std::string(kAnything);
    break;
  }
  topics_.clear();
  return payload;
}

void PostgresBell::hear(const Notification& notification) const {
  if (notification.channel != kChannel || !listener_) return;
  const auto words = split(notification.payload, ' ');
  if (words.empty() || words.front() == name_) return;
  for (std::size_t i = 1; i < words.size(); ++i) listener_(words[i]);
}

void PostgresBell::hear_again() const {
  if (listener_) listener_(kAnything);
}

}  // namespace pons::store::postgres
