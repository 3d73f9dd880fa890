#include "chores.h"

#include <algorithm>

#include "pons/base/log.h"

namespace pons::session {

namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr Duration kBetweenLooks = std::chrono::seconds(5);
constexpr std::int64_t kTakenAtOnce = 500;

}  // namespace

std::pair<std::string, std::string> two_words(const std::string& what) {
  const std::size_t space = std::min(what.find(' '), what.size());
  return {what.substr(0, space), what.substr(std::min(space + 1, what.size()))};
}

void Chores::begin(const Chore& chore) {
  if (under_way_.emplace(chore.id, false).second) tasks_.spawn(carry_out(chore));
}

Task<> Chores::carry_out(Chore chore) {
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto done = co_await try_once(chore);
    if (done) break;
    LOG_WARN("cannot do this yet", {"chore", chore.kind}, {"what", chore.what},
             {"error", done.error()});
    co_await world_.loop.sleep_for(pause);
  }
  under_way_[chore.id] = true;
}

Task<Result<void>> Chores::try_once(const Chore& chore) {
  if (chore.kind == kDestroySandbox) co_return co_await world_.hands.destroy(chore.what);
  if (chore.kind == kStopSession) co_return co_await world_.stop_child(chore.what);
  if (chore.kind == kStopCommand) {
    const auto [sandbox, call] = two_words(chore.what);
    co_return co_await world_.hands.stop(sandbox, call);
  }
  if (chore.kind == kChargeQuestion) co_return co_await world_.charge_question(chore);
  if (chore.kind == kWithdrawAccess) {
    if (world_.extras.desk == nullptr) co_return Result<void>{};
    co_return co_await world_.extras.desk->withdraw(chore.what);
  }
  co_return make_error(ErrorCode::kUnsupported, "do chore", "a newer Pons has left it");
}

void Chores::drop_sandbox(std::string sandbox) {
  tasks_.spawn(drop(std::move(sandbox)));
}

Task<> Chores::drop(std::string sandbox) {
  (void)co_await world_.hands.destroy(std::move(sandbox));
}

Task<> Chores::keep_going() {
  for (;;) {
    woken_.reset();
    std::vector<std::string> done;
    for (const auto& [id, is_done] : under_way_)
      if (is_done && done.size() < static_cast<std::size_t>(kTakenAtOnce)) done.push_back(id);
    if (!done.empty() && co_await world_.log.finish_chores(done))
      for (const std::string& id : done) under_way_.erase(id);
    if (const auto left = co_await world_.log.list_chores(kTakenAtOnce))
      for (const Chore& chore : *left) begin(chore);
    co_await woken_.wait(world_.loop.now() + kBetweenLooks);
  }
}

}  // namespace pons::session
