#include "pons/budget/counters.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/check.h"

namespace pons::budget {

namespace {

constexpr std::size_t kOpenMax = 100'000;
// Of one call; so that no number of open ones can overflow a sum.
constexpr std::int64_t kEstimateMax = 40'000'000'000'000;
constexpr std::size_t kWarningsMax = 1'000;
constexpr std::int64_t kNotWarned = -1;
constexpr int kWholePercent = 100;

struct WatchedLimit {
  Limit limit;
  std::int64_t warned_in = kNotWarned;  // the window it was said in
};

struct WindowSum {
  std::int64_t start = 0;
  Amounts used;
};

// For people: "$1.50", "1000 tokens".
std::string shown(What what, std::int64_t amount) {
  constexpr double kNano = 1e9;
  if (what == What::kMoney) return fmt::format("${:.4f}", static_cast<double>(amount) / kNano);
  return fmt::format("{} {}", amount, name_of(what));
}

}  // namespace

struct Counters::Node {
  std::string id;
  std::shared_ptr<Node> parent;
  std::vector<WatchedLimit> limits;
  int soft_percent = kWholePercent;
  std::array<WindowSum, kWindows> windows;
  Amounts reserved;
  Amounts held;

  void roll(const Starts& starts) {
    for (std::size_t i = 0; i < kWindows; ++i)
      if (starts[i] > windows[i].start) windows[i] = {.start = starts[i], .used = {}};
  }
  const WindowSum& sum_of(const Limit& limit) const {
    return windows[static_cast<std::size_t>(limit.window)];
  }
  // Used in no window yet.
  Amounts under_way() const {
    Amounts sum = reserved;
    sum += held;
    return sum;
  }
};

bool Reservation::settle(const Amounts& real, std::int64_t now_ms) {
  Counters* counters = std::exchange(counters_, nullptr);
  return counters != nullptr && counters->settle(number_, real, now_ms);
}

void Reservation::release() {
  if (Counters* counters = std::exchange(counters_, nullptr)) counters->release(number_);
}

void Reservation::renew(const Amounts& if_lost, std::int64_t now_ms) {
  if (counters_ == nullptr) return;
  const auto open = counters_->open_.find(number_);
  if (open == counters_->open_.end()) return;
  open->second.estimate.if_lost = if_lost;
  open->second.expires_ms = now_ms + counters_->lease_ms_;
}

Counters::Counters(Duration lease)
    : lease_ms_(std::chrono::duration_cast<std::chrono::milliseconds>(lease).count()) {}

Counters::Starts Counters::starts_at(std::int64_t now_ms) {
  latest_ms_ = std::max(latest_ms_, now_ms);
  Starts starts;
  for (std::size_t i = 0; i < kWindows; ++i)
    starts[i] = window_start(static_cast<Window>(i), latest_ms_);
  return starts;
}

Counters::Node* Counters::find(std::string_view id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

void Counters::put(const std::string& id, const std::string& parent, std::vector<Limit> limits,
                   int soft_percent) {
  auto& node = nodes_[id];
  if (node == nullptr) {
    node = std::make_shared<Node>();
    node->id = id;
    if (!parent.empty()) {
      const auto above = nodes_.find(parent);
      CHECK(above != nodes_.end() && above->second != nullptr);
      node->parent = above->second;
    }
  }
  std::vector<WatchedLimit> watched;
  for (const Limit& limit : limits) {
    const auto before = std::ranges::find(node->limits, limit, &WatchedLimit::limit);
    watched.push_back(before == node->limits.end() ? WatchedLimit{.limit = limit} : *before);
  }
  node->limits = std::move(watched);
  node->soft_percent = soft_percent;
}

void Counters::remove(std::string_view id) {
  if (const auto found = nodes_.find(id); found != nodes_.end()) nodes_.erase(found);
}

// The windows have been rolled.
Result<void> Counters::check(Node& node, const Amounts& more, Refused* refused) {
  for (const WatchedLimit& watched : node.limits) {
    const Limit& limit = watched.limit;
    Amounts least = more;
    // Who has used up the time of sandboxes begins nothing more.
    if (limit.what == What::kSandboxSeconds)
      least[limit.what] = std::max<std::int64_t>(least[limit.what], 1);
    const std::int64_t wanted = least[limit.what];
    if (wanted <= 0) continue;
    Amounts sum = node.sum_of(limit).used;
    sum += node.under_way();
    sum += least;
    if (sum[limit.what] <= limit.amount) continue;
    Refused why{.node = node.id,
                .limit = limit,
                .used = node.sum_of(limit).used[limit.what],
                .reserved = node.under_way()[limit.what],
                .resets_at_ms = window_end(limit.window, latest_ms_)};
    Error error = make_error(
        ErrorCode::kLimit, "reserve budget",
        fmt::format("the limit of {} per {} of {} is reached: {} used, {} reserved, {} asked for",
                    shown(limit.what, limit.amount), name_of(limit.window), node.id,
                    shown(limit.what, why.used), shown(limit.what, why.reserved),
                    shown(limit.what, more[limit.what])));
    if (refused != nullptr) *refused = std::move(why);
    return error;
  }
  return {};
}

Result<Reservation> Counters::reserve(std::string_view id, const Estimate& estimate,
                                      std::int64_t now_ms, Refused* refused) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end())
    return make_error(ErrorCode::kNotFound, "reserve budget", "there is no such key");
  for (const std::int64_t amount : estimate.most.of)
    if (amount < 0 || amount > kEstimateMax)
      return make_error(ErrorCode::kInvalid, "reserve budget", "no call can come to so much");
  if (open_.size() >= kOpenMax)
    return make_error(ErrorCode::kUnavailable, "reserve budget",
                      "too many calls are under way; try again later");
  const Starts starts = starts_at(now_ms);
  for (Node* node = found->second.get(); node != nullptr; node = node->parent.get()) {
    node->roll(starts);
    TRY_VOID(check(*node, estimate.most, refused));
  }
  for (Node* node = found->second.get(); node != nullptr; node = node->parent.get())
    node->reserved += estimate.most;
  const std::uint64_t number = ++last_number_;
  open_.emplace(
      number,
      Open{.node = found->second, .estimate = estimate, .expires_ms = latest_ms_ + lease_ms_});
  return Reservation(*this, number);
}

void Counters::count(Node& node, const Amounts& real, const Starts& starts) {
  node.roll(starts);
  for (WindowSum& sum : node.windows) sum.used += real;
  warn(node, real);
}

// What is held is as good as used; a reservation may come to much less.
void Counters::warn(Node& node, const Amounts& more) {
  for (WatchedLimit& watched : node.limits) {
    const Limit& limit = watched.limit;
    const WindowSum& sum = node.sum_of(limit);
    Amounts all = sum.used;
    all += node.held;
    const std::int64_t used = all[limit.what];
    if (more[limit.what] <= 0 || watched.warned_in == sum.start ||
        !is_past_soft(used, limit.amount, node.soft_percent))
      continue;
    watched.warned_in = sum.start;
    if (warnings_.size() < kWarningsMax)
      warnings_.push_back({.node = node.id,
                           .limit = limit,
                           .used = used,
                           .resets_at_ms = window_end(limit.window, latest_ms_)});
  }
}

Result<void> Counters::charge(std::string_view id, const Amounts& real, std::int64_t now_ms,
                              Refused* refused) {
  Node* first = find(id);
  if (first == nullptr)
    return make_error(ErrorCode::kNotFound, "charge budget", "there is no such key");
  const Starts starts = starts_at(now_ms);
  for (Node* node = first; node != nullptr; node = node->parent.get()) count(*node, real, starts);
  Amounts next;  // the least that could be charged next
  for (std::size_t i = 0; i < kWhats; ++i) next.of[i] = real.of[i] > 0 ? 1 : 0;
  for (Node* node = first; node != nullptr; node = node->parent.get())
    TRY_VOID(check(*node, next, refused));
  return {};
}

// ---- what goes on

void Counters::add_held(Held& held, const Amounts& more, const Starts& starts) {
  held.amounts += more;
  for (Node* node = held.node.get(); node != nullptr; node = node->parent.get()) {
    node->roll(starts);
    node->held += more;
    warn(*node, more);
  }
}

void Counters::hold(const TextMap<Amounts>& running, std::int64_t now_ms) {
  for (auto& [id, held] : std::exchange(held_, {}))
    for (Node* node = held.node.get(); node != nullptr; node = node->parent.get())
      node->held -= held.amounts;
  const Starts starts = starts_at(now_ms);
  for (const auto& [id, amounts] : running)
    if (const auto found = nodes_.find(id); found != nodes_.end())
      add_held(held_[id] = {.node = found->second, .amounts = {}}, amounts, starts);
}

Result<void> Counters::hold_more(std::string_view id, const Amounts& more, std::int64_t now_ms,
                                 Refused* refused) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end())
    return make_error(ErrorCode::kNotFound, "reserve budget", "there is no such key");
  const Starts starts = starts_at(now_ms);
  for (Node* node = found->second.get(); node != nullptr; node = node->parent.get()) {
    node->roll(starts);
    TRY_VOID(check(*node, more, refused));
  }
  Held& held = held_[std::string(id)];
  if (held.node == nullptr) held.node = found->second;
  add_held(held, more, starts);
  return {};
}

void Counters::let_go(std::string_view id, const Amounts& ended) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  Amounts least;
  for (std::size_t i = 0; i < kWhats; ++i)
    least.of[i] = std::min(found->second.amounts.of[i], ended.of[i]);
  found->second.amounts -= least;
  for (Node* node = found->second.node.get(); node != nullptr; node = node->parent.get())
    node->held -= least;
}

Amounts Counters::held(std::string_view id) const {
  const Node* node = find(id);
  return node == nullptr ? Amounts{} : node->held;
}

bool Counters::settle(std::uint64_t number, const Amounts& real, std::int64_t now_ms) {
  const auto open = open_.find(number);
  if (open == open_.end()) return false;
  const Starts starts = starts_at(now_ms);
  for (Node* node = open->second.node.get(); node != nullptr; node = node->parent.get()) {
    node->reserved -= open->second.estimate.most;
    count(*node, real, starts);
  }
  open_.erase(open);
  return true;
}

void Counters::release(std::uint64_t number) {
  const auto open = open_.find(number);
  if (open == open_.end()) return;
  for (Node* node = open->second.node.get(); node != nullptr; node = node->parent.get())
    node->reserved -= open->second.estimate.most;
  open_.erase(open);
}

std::vector<std::uint64_t> Counters::sweep(std::int64_t now_ms) {
  std::vector<std::uint64_t> expired;
  for (const auto& [number, open] : open_)
    if (open.expires_ms <= now_ms) expired.push_back(number);
  for (const std::uint64_t number : expired) {
    const Amounts if_lost = open_.find(number)->second.estimate.if_lost;
    settle(number, if_lost, now_ms);
  }
  return expired;
}

void Counters::restore(std::string_view id, Window window, const Amounts& used,
                       std::int64_t now_ms) {
  Node* node = find(id);
  if (node == nullptr) return;
  node->roll(starts_at(now_ms));
  WindowSum& sum = node->windows[static_cast<std::size_t>(window)];
  sum.used += used;
  for (WatchedLimit& watched : node->limits)
    if (watched.limit.window == window &&
        is_past_soft(sum.used[watched.limit.what], watched.limit.amount, node->soft_percent))
      watched.warned_in = sum.start;
}

Amounts Counters::used(std::string_view id, Window window, std::int64_t now_ms) {
  Node* node = find(id);
  if (node == nullptr) return {};
  node->roll(starts_at(now_ms));
  return node->windows[static_cast<std::size_t>(window)].used;
}

Amounts Counters::reserved(std::string_view id) const {
  const Node* node = find(id);
  return node == nullptr ? Amounts{} : node->reserved;
}

}  // namespace pons::budget
