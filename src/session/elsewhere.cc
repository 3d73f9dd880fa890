#include <algorithm>
#include <vector>

#include "driver.h"
#include "feed.h"
#include "pons/base/log.h"
#include "pons/session/sessions.h"

// Sessions that other processes have. What is said about one of them here is stored for whoever has
// it, who adds it and replies; what happens there is read in the log when they say so, and now and
// then in case that was not heard.

namespace pons::session {

namespace {

// While others are not heard.
constexpr Duration kBetweenManyLooks = std::chrono::milliseconds(500);
// Whoever says something hears so soon whether it is stored.
constexpr Duration kReplyTime = std::chrono::seconds(60);
constexpr Duration kBetweenReplies = std::chrono::seconds(1);
constexpr Duration kBetweenTidying = std::chrono::minutes(1);
constexpr std::int64_t kInputsAtOnce = 200;

// The one who has the session may take it later; or somebody else has it by now, who will.
bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kIo;
}

}  // namespace

Duration Sessions::look_time() const {
  const bool is_deaf = sharing_.bell != nullptr && !sharing_.bell->is_open();
  return is_deaf ? std::min(kBetweenManyLooks, sharing_.between_looks) : sharing_.between_looks;
}

void Sessions::hear(std::string_view topic) {
  const bool is_anything = topic == store::Bell::kAnything;
  if (is_anything || topic.starts_with(kInputTopic)) has_inputs_.set();
  if (is_anything || topic == kChoreTopic) chores_->look();
  if (topic.starts_with(kGoneTopic)) end_followers(topic.substr(kGoneTopic.size()));
  if (topic.starts_with(kSessionTopic)) look_again(topic.substr(kSessionTopic.size()));
  if (is_anything) {
    for (const auto& [session, feed] : feeds_) look_again(session);
    for (const auto& [session, waiting] : waiting_) waiting->set();
  }
}

// Its followers read the log; whoever waits for a reply asks for it.
void Sessions::look_again(std::string_view session) {
  if (const auto feed = feeds_.find(std::string(session)); feed != feeds_.end())
    for (FeedFollower* follower : feed->second->followers) follower->look_again();
  const auto [begin, end] = waiting_.equal_range(session);
  std::for_each(begin, end, [](const auto& waiting) { waiting.second->set(); });
}

Task<> Sessions::keep_looking() {
  TimePoint tidied = world_.loop.now();
  for (;;) {
    has_inputs_.reset();
    co_await accept_inputs();
    if (co_await has_inputs_.wait(world_.loop.now() + look_time()) == linux::Wait::kReady) continue;
    co_await compare_heads();
    if (world_.loop.now() - tidied < kBetweenTidying) continue;
    tidied = world_.loop.now();
    (void)co_await world_.log.forget_replies();
  }
}

// ---- said here, for others

Task<Result<std::vector<Seq>>> Sessions::hand_over(std::string session, std::vector<Event> inputs) {
  linux::Event heard(world_.loop);
  struct Waiting {
    Sessions& all;
    std::multimap<std::string, linux::Event*, std::less<>>::iterator place;
    ~Waiting() { all.waiting_.erase(place); }
  } const waiting{*this, waiting_.emplace(session, &heard)};
  CO_TRY(const auto id, co_await world_.log.hand_over(session, std::move(inputs)));
  const TimePoint deadline = world_.loop.now() + kReplyTime;
  while (world_.loop.now() < deadline) {
    heard.reset();
    const auto found = co_await world_.log.find_reply(id);
    if (found && *found) co_return **found;
    if (!found && !may_pass(found.error())) co_return found.error();
    co_await heard.wait(std::min(deadline, world_.loop.now() + kBetweenReplies));
  }
  co_return make_error(
      ErrorCode::kTimeout, "add to session",
      "the machine that has the session has not taken it yet, and may still do so");
}

// By what is stored of it. The one who has it judges again.
Task<Result<void>> Sessions::check_elsewhere(std::string session, std::vector<Event> inputs) {
  CO_TRY(const auto events, co_await read_all(session));
  Driver reader(world_, *chores_, {.session = session}, session::fold(State{}, events), {});
  co_return reader.check(std::move(inputs));
}

// ---- said to others, for sessions that are here

Task<> Sessions::accept_inputs() {
  auto waiting = co_await world_.log.list_inputs(kInputsAtOnce);
  if (!waiting) {
    if (!may_pass(waiting.error()))
      LOG_ERROR("cannot read what was handed over", {"error", waiting.error()});
    co_return;
  }
  std::map<std::string, std::vector<HandedOver>> by_session;
  for (HandedOver& input : *waiting) by_session[input.session].push_back(std::move(input));
  for (auto& [session, inputs] : by_session)
    if (accepting_.insert(session).second) tasks_.spawn(accept(session, std::move(inputs)));
}

// One after the other, as they were said. Where it breaks off, the next look goes on.
Task<> Sessions::accept(std::string session, std::vector<HandedOver> inputs) {
  bool is_done = true;
  for (HandedOver& input : inputs) {
    const auto added = co_await add_here(session, std::move(input.events), input.id);
    const bool is_elsewhere =
        !added && added.error().code == ErrorCode::kConflict && !is_here(session);
    is_done = !is_elsewhere && (added || !may_pass(added.error()));
    // What is among the events has its reply; this is for the rest.
    if (is_done) is_done = (co_await world_.log.reply(input.id, session, added)).has_value();
    if (!is_done) break;
  }
  accepting_.erase(session);
  if (is_done) has_inputs_.set();  // more may have come meanwhile
}

// ---- followed here

Task<> Sessions::compare_heads() {
  std::vector<std::string> followed;
  for (const auto& [session, feed] : feeds_) followed.push_back(session);
  if (followed.empty()) co_return;
  const auto heads = co_await world_.log.read_heads(followed);
  if (!heads) co_return;
  for (const std::string& session : followed)
    if (!heads->contains(session)) end_followers(session);
  for (const auto& [session, head] : *heads) {
    const auto feed = feeds_.find(session);
    if (feed == feeds_.end()) continue;
    for (FeedFollower* follower : feed->second->followers)
      if (follower->after() < head) follower->look_again();
  }
}

}  // namespace pons::session
