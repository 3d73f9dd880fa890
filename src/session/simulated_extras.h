#pragma once

#include <map>
#include <set>
#include <string>

#include "pons/session/world.h"
#include "simulated_fate.h"

// For tests: a memory that knows which calls it has written for, and a server that does not.

namespace pons::session {

// Outlive processes.
struct Notebook {
  std::set<std::string> written;  // calls
};
struct ServerBook {
  std::map<std::string, int> runs;  // by call
};

struct DeskBook {
  std::map<std::string, bool> decided;  // by request, as it was decided first
  std::set<std::string> withdrawn;
};

class SimulatedNotes final : public Notes {
 public:
  SimulatedNotes(Notebook& book, Fate& fate) : book_(book), fate_(fate) {}

  Task<Result<std::string>> recall(RecallOrder) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    co_return "You know something.";
  }

  Task<Result<NoteReport>> use(NoteOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    book_.written.insert(order.call);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return NoteReport{.text = "Written.", .is_untrusted = fate_.pick(5) == 0};
  }

 private:
  static Error down() { return make_error(ErrorCode::kUnavailable, "memory", "went away"); }
  Notebook& book_;
  Fate& fate_;
};

class SimulatedServers final : public Servers {
 public:
  SimulatedServers(ServerBook& book, Fate& fate) : book_(book), fate_(fate) {}

  Task<ServerOffer> list(ServerWay, std::vector<ServerGrant> servers) override {
    ServerOffer offer;
    for (const ServerGrant& server : servers) {
      if (co_await fate_.wait() != Fate::Turn::kWell) {
        offer.troubles.push_back({.server = server.name, .message = "went away"});
        continue;
      }
      for (const bool asks : {false, true}) {
        const std::string name = asks ? "ask" : "do";
        offer.tools.push_back(
            {.server = server.name,
             .name = name,
             .alias = "far_" + name,
             .definition = R"({"name":"far_)" + name + R"(","input_schema":{"type":"object"}})",
             .asks = asks});
      }
    }
    co_return offer;
  }

  // Whoever asks it twice gets it done twice.
  Task<Result<ServerReport>> call(ServerWay, ServerOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore)
      co_return make_error(ErrorCode::kDenied, "ask server", "it may not leave");
    book_.runs[order.call] += 1;
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter)
      co_return make_error(ErrorCode::kTimeout, "ask server", "it did not answer");
    co_return ServerReport{.text = "done there"};
  }

 private:
  ServerBook& book_;
  Fate& fate_;
};

// What is decided twice is decided once; what is withdrawn is decided never.
class SimulatedDesk final : public AccessDesk {
 public:
  SimulatedDesk(DeskBook& book, Fate& fate) : book_(book), fate_(fate) {}

  Task<Result<AccessReport>> decide(AccessDecision decision) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (book_.withdrawn.contains(decision.request))
      co_return AccessReport{.outcome = AccessOutcome::kWithdrawn, .message = {}};
    const bool allowed = book_.decided.emplace(decision.request, decision.allowed).first->second;
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return AccessReport{.outcome = allowed ? AccessOutcome::kAllowed : AccessOutcome::kDenied,
                           .message = std::move(decision.message)};
  }

  Task<Result<void>> withdraw(std::string request) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    if (!book_.decided.contains(request)) book_.withdrawn.insert(request);
    co_return {};
  }

 private:
  static Error down() { return make_error(ErrorCode::kUnavailable, "egress", "went away"); }
  DeskBook& book_;
  Fate& fate_;
};

}  // namespace pons::session
