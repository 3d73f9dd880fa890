#pragma once

#include <map>
#include <set>
#include <string>

#include "pons/session/world.h"
#include "simulated_fate.h"

// For tests: sandboxes that remember what ran in them, and what looks at everything that leaves.

namespace pons::session {

// Outlive processes. Those of one node are out of reach for the other.
struct Boxes {
  std::map<std::string, std::map<std::string, std::string>> alive;  // by id: jobs by call
  std::map<std::string, std::string> nodes;                         // by id: where it is
  std::map<std::string, int> runs;                                  // by call
  std::map<std::string, std::string> running;                       // by call: where
  std::set<std::string> made;
  std::set<std::string> made_again;
  std::set<std::string> made_twice;                          // on two nodes, under one name
  std::map<std::string, std::set<std::string>> checkpoints;  // by sandbox
};

class SimulatedHands final : public Hands {
 public:
  SimulatedHands(linux::Loop& loop, Boxes& boxes, Fate& fate, std::string node = {})
      : loop_(loop), boxes_(boxes), fate_(fate), node_(std::move(node)) {}

  bool forget_calls = false;  // breaks the cells' job table
  int hang_one_in = 0;        // commands never end; 0: all do
  int stops_that_fail = 0;    // the next ones
  Duration provision_takes{};

  Task<Result<ProvisionReport>> provision(ProvisionOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (provision_takes > Duration{}) co_await loop_.sleep_for(provision_takes);
    make(order.sandbox);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return ProvisionReport{.contents = "Linux"};
  }

  Task<Result<ExecuteReport>> execute(ExecuteOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (turn == Fate::Turn::kFailsAfter && fate_.pick(3) == 0) end(order.sandbox);
    if (!has(order.sandbox)) co_return make_error(ErrorCode::kNotFound, "execute", "gone");
    const auto box = boxes_.alive.find(order.sandbox);
    if (order.was_begun && !box->second.contains(order.call))
      co_return make_error(ErrorCode::kUnavailable, "execute", "there is no such job");
    if (forget_calls || box->second.emplace(order.call, order.command).second) {
      boxes_.runs[order.call] += 1;
      boxes_.running[order.call] = order.sandbox;  // also when nobody hears of its end
    }
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    if (hang_one_in > 0 && fate_.pick(static_cast<std::uint64_t>(hang_one_in)) == 0)
      co_await loop_.sleep_for(std::chrono::hours(1'000));
    boxes_.running.erase(order.call);
    if (!order.checkpoint.empty()) {
      boxes_.checkpoints[order.sandbox].insert(order.checkpoint);
      boxes_.checkpoints[order.sandbox].erase(order.forgotten);
    }
    co_return ExecuteReport{.output = order.command, .checkpoint = order.checkpoint};
  }

  Task<Result<void>> stop(std::string sandbox, std::string call) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (stops_that_fail > 0 && stops_that_fail--) co_return down();
    if (has(sandbox)) boxes_.running.erase(call);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return {};
  }

  Task<Result<void>> copy(CopyOrder order) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    if (!has(order.from))
      co_return make_error(ErrorCode::kNotFound, "copy", "there is no such sandbox");
    make(order.sandbox);
    co_return {};
  }

  Task<Result<void>> destroy(std::string sandbox) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    end(sandbox);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return {};
  }

 private:
  static Error down() { return make_error(ErrorCode::kUnavailable, "sandbox", "went away"); }
  // Whether it is here.
  bool has(const std::string& sandbox) const {
    const auto node = boxes_.nodes.find(sandbox);
    return boxes_.alive.contains(sandbox) && (node == boxes_.nodes.end() || node->second == node_);
  }
  // One that was destroyed is made again, and knows nothing.
  void make(const std::string& sandbox) {
    if (boxes_.alive.contains(sandbox) && !has(sandbox)) boxes_.made_twice.insert(sandbox);
    const bool is_new = boxes_.made.insert(sandbox).second;
    if (boxes_.alive.try_emplace(sandbox).second) {
      if (!is_new) boxes_.made_again.insert(sandbox);
      forget_running(sandbox);
    }
    boxes_.nodes[sandbox] = node_;
  }
  void end(const std::string& sandbox) {
    if (!has(sandbox)) return;
    boxes_.alive.erase(sandbox);
    forget_running(sandbox);
  }
  void forget_running(const std::string& sandbox) {
    std::erase_if(boxes_.running, [&](const auto& job) { return job.second == sandbox; });
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
  std::string unreadable;  // texts that hold this are never looked through; empty: all are

  Task<Result<Redaction>> redact(Text text) override {
    if (co_await fate_.wait() != Fate::Turn::kWell)
      co_return make_error(ErrorCode::kUnavailable, "redact", "went away");
    if (!unreadable.empty() && text.text.find(unreadable) != std::string::npos)
      co_return make_error(ErrorCode::kInvalid, "redact", "too much");
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
