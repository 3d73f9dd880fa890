#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/budget/limits.h"
#include "pons/budget/text_map.h"

// How much of each limit is used and reserved, for a tree of nodes. No I/O and no clock: the caller
// says what time it is. What is reserved counts in every window that is open until it is settled;
// what is settled counts in the windows of that moment. Time that goes back changes nothing.

namespace pons::budget {

class Counters;

// So much may be used. Dropping it gives it back. Must not outlive its counters.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : counters_(std::exchange(other.counters_, nullptr)), number_(other.number_) {}
  Reservation& operator=(Reservation&& other) noexcept {
    Reservation incoming(std::move(other));
    std::swap(counters_, incoming.counters_);
    std::swap(number_, incoming.number_);
    return *this;
  }
  ~Reservation() { release(); }

  // Turns it into what was really used. False: its time was over, a sweep has settled it.
  bool settle(const Amounts& real, std::int64_t now_ms);
  void release();
  // Its time begins again; `if_lost` is what a sweep will settle it at.
  void renew(const Amounts& if_lost, std::int64_t now_ms);
  std::uint64_t number() const { return number_; }

 private:
  friend class Counters;
  Reservation(Counters& counters, std::uint64_t number) : counters_(&counters), number_(number) {}
  Counters* counters_ = nullptr;
  std::uint64_t number_ = 0;
};

struct Estimate {
  Amounts most;     // what the call can come to
  Amounts if_lost;  // what it is settled at when nobody ever says: its input
};

class Counters {
 public:
  explicit Counters(Duration lease = std::chrono::hours(1));
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // A new node, or other limits for one that is there: what it has used stays. The parent (empty:
  // none) must be there and is the same for good.
  void put(const std::string& id, const std::string& parent, std::vector<Limit> limits,
           int soft_percent);
  // Reservations under way stay good, and what they use still counts above.
  void remove(std::string_view id);

  // kLimit when it does not fit into a limit of the node or of one above it; `refused` says which
  // then. kNotFound: there is no such node.
  Result<Reservation> reserve(std::string_view id, const Estimate& estimate, std::int64_t now_ms,
                              Refused* refused = nullptr);
  // Counts what has happened already, whatever the limits are; kLimit as soon as one is used up.
  Result<void> charge(std::string_view id, const Amounts& real, std::int64_t now_ms,
                      Refused* refused = nullptr);
  // What goes on now, has come to so much and is charged when it has ended: it counts as reserved
  // until this is said again. Nodes that are not named have nothing any more; unknown ones count
  // nowhere.
  void hold(const TextMap<Amounts>& running, std::int64_t now_ms);
  // So much more, if it fits as a reservation does.
  Result<void> hold_more(std::string_view id, const Amounts& more, std::int64_t now_ms,
                         Refused* refused = nullptr);
  // Of what was held, this has ended.
  void let_go(std::string_view id, const Amounts& ended);
  // Settles those whose time is over, and says which they were.
  std::vector<std::uint64_t> sweep(std::int64_t now_ms);

  // Each limit that went over its soft percentage, once per window.
  std::vector<Warning> take_warnings() { return std::exchange(warnings_, {}); }

  // What was used before this process, in the window that is open now; warns of nothing.
  void restore(std::string_view id, Window window, const Amounts& used, std::int64_t now_ms);

  Amounts used(std::string_view id, Window window, std::int64_t now_ms);
  Amounts reserved(std::string_view id) const;
  Amounts held(std::string_view id) const;  // of the node and all below it
  std::size_t open_reservations() const { return open_.size(); }

 private:
  friend class Reservation;
  struct Node;
  struct Open {
    std::shared_ptr<Node> node;
    Estimate estimate;
    std::int64_t expires_ms;
  };
  struct Held {
    std::shared_ptr<Node> node;  // keeps those above it, also when it is removed
    Amounts amounts;
  };
  using Starts = std::array<std::int64_t, kWindows>;

  Starts starts_at(std::int64_t now_ms);
  Node* find(std::string_view id) const;
  Result<void> check(Node& node, const Amounts& more, Refused* refused);
  void count(Node& node, const Amounts& real, const Starts& starts);
  void warn(Node& node, const Amounts& more);
  void add_held(Held& held, const Amounts& more, const Starts& starts);
  bool settle(std::uint64_t number, const Amounts& real, std::int64_t now_ms);
  void release(std::uint64_t number);

  std::int64_t lease_ms_;
  std::int64_t latest_ms_ = 0;
  std::uint64_t last_number_ = 0;
  TextMap<std::shared_ptr<Node>> nodes_;
  std::unordered_map<std::uint64_t, Open> open_;
  TextMap<Held> held_;
  std::vector<Warning> warnings_;
};

}  // namespace pons::budget
