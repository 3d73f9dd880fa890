#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "pons/session/world.h"
#include "simulated_fate.h"

// For tests: sandboxes that remember what ran in them, and what looks at everything that leaves.

namespace pons::session {

// Outlive processes. Those of one node are out of reach for the other.
struct Boxes {
  using Jobs = std::map<std::string, std::string>;            // by call
  std::map<std::pair<std::string, std::string>, Jobs> alive;  // by node and id
  std::map<std::string, int> runs;                            // by call
  std::set<std::pair<std::string, std::string>> made;

  bool lives(const std::string& sandbox) const {
    return std::ranges::any_of(alive, [&](const auto& box) { return box.first.second == sandbox; });
  }
};

class SimulatedHands final : public Hands {
 public:
  SimulatedHands(linux::Loop& loop, Boxes& boxes, Fate& fate, std::string node = {})
      : loop_(loop), boxes_(boxes), fate_(fate), node_(std::move(node)) {}

  bool forget_calls = false;  // breaks the cells' job table
  int hang_one_in = 0;        // commands never end; 0: all do

  Task<Result<ProvisionReport>> provision(ProvisionOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (boxes_.made.insert(at(order.sandbox)).second) boxes_.alive[at(order.sandbox)];
    if (!boxes_.alive.contains(at(order.sandbox)))
      co_return make_error(ErrorCode::kNotFound, "provision", "it was destroyed");
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return ProvisionReport{.contents = "Linux"};
  }

  Task<Result<ExecuteReport>> execute(ExecuteOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (turn == Fate::Turn::kFailsAfter && fate_.pick(3) == 0)
      boxes_.alive.erase(at(order.sandbox));
    const auto box = boxes_.alive.find(at(order.sandbox));
    if (box == boxes_.alive.end()) co_return make_error(ErrorCode::kNotFound, "execute", "gone");
    if (forget_calls || box->second.emplace(order.call, order.command).second)
      boxes_.runs[order.call] += 1;
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    if (hang_one_in > 0 && fate_.pick(static_cast<std::uint64_t>(hang_one_in)) == 0)
      co_await loop_.sleep_for(std::chrono::hours(1'000));
    co_return ExecuteReport{.output = order.command};
  }

  Task<Result<void>> stop(std::string, std::string) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    co_return {};
  }

  Task<Result<void>> copy(CopyOrder order) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    if (!boxes_.alive.contains(at(order.from)))
      co_return make_error(ErrorCode::kNotFound, "copy", "there is no such sandbox");
    boxes_.made.insert(at(order.sandbox));
    boxes_.alive[at(order.sandbox)];
    co_return {};
  }

  Task<Result<void>> destroy(std::string sandbox) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    boxes_.alive.erase(at(sandbox));
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return {};
  }

 private:
  static Error down() { return make_error(ErrorCode::kUnavailable, "sandbox", "went away"); }
  std::pair<std::string, std::string> at(const std::string& sandbox) const {
    return {node_, sandbox};
  }
  linux::Loop& loop_;
  Boxes& boxes_;
  Fate& fate_;
  std::string node_;
};

// Takes out one word, as letters x.
class SimulatedBoundary final : public Boundary {
 public:
  explicit SimulatedBoundary(Fate& fate) : fate_(fate) {}
  static constexpr std::string_view kSecret = "hunter2hunter2";

  Task<Result<Redaction>> redact(Text text) override {
    if (co_await fate_.wait() != Fate::Turn::kWell)
      co_return make_error(ErrorCode::kUnavailable, "redact", "went away");
    Redaction clean{.text = std::move(text.text)};
    for (std::size_t at; (at = clean.text.find(kSecret)) != std::string::npos;) {
      clean.text.replace(at, kSecret.size(), kSecret.size(), 'x');
      clean.redacted = {"password"};
    }
    co_return clean;
  }

 private:
  Fate& fate_;
};

}  // namespace pons::session
