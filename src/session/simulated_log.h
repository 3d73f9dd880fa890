#pragma once

#include <deque>
#include <map>

#include <fmt/format.h>

#include "pons/session/log.h"
#include "simulated_fate.h"

// For tests: the log as tables in memory, of one or several processes.

namespace pons::session {

// Outlives processes.
struct Tables {
  struct Stored {
    Summary summary;
    std::vector<StoredEvent> events;
    std::int64_t epoch = 1;
    std::string owner;
    std::int64_t lease_until = 0;
    int commits = 1;
  };
  std::map<std::string, Stored> sessions;
  std::map<std::string, Chore> chores;
  std::map<std::string, std::string> blobs;
  std::map<std::string, std::int64_t> nodes;  // how long each is taken for alive

  struct Input {
    HandedOver said;
    std::optional<Reply> reply;
  };
  std::map<std::string, Input> inputs;  // their ids are in the order of their coming

  bool lives(const std::string& node, std::int64_t now_ms) const {
    const auto found = nodes.find(node);
    return found != nodes.end() && found->second >= now_ms;
  }
};

class SimulatedLog final : public Log {
 public:
  SimulatedLog(Tables& tables, Fate& fate, const Clock& clock, std::string owner)
      : tables_(tables), fate_(fate), clock_(clock), owner_(std::move(owner)) {}

  Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore || fate_.disk_is_full()) co_return down();
    auto [place, is_new] = tables_.sessions.try_emplace(summary.id);
    if (!is_new) co_return make_error(ErrorCode::kConflict, "create", "taken");
    place->second = {.summary = summary,
                     .events = std::move(events),
                     .epoch = 1,
                     .owner = owner_,
                     .lease_until = lease_end(summary.status)};
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return Lease{.session = summary.id, .project = summary.project, .epoch = 1};
  }

  Task<Result<Lease>> take(std::string session, Take how) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore || fate_.disk_is_full()) co_return down();
    const auto found = tables_.sessions.find(session);
    if (found == tables_.sessions.end()) co_return make_error(ErrorCode::kNotFound, "take", "");
    auto& stored = found->second;
    const bool steals = !fate_.is_calm() && fate_.pick(2) == 0;  // as one whose clock is wrong
    if (stored.summary.archived_ms) co_return make_error(ErrorCode::kInvalid, "take", "archived");
    const bool is_at_home = how == Take::kUnlessAtHome && stored.summary.home != owner_ &&
                            tables_.lives(stored.summary.home, now_ms());
    if (stored.owner != owner_ && (stored.lease_until >= now_ms() || is_at_home) && !steals)
      co_return make_error(ErrorCode::kConflict, "take", "another's");
    const Lease lease = hold(session, stored);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return lease;
  }

  Task<Result<std::vector<Lease>>> claim(std::int64_t limit) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore || fate_.disk_is_full()) co_return down();
    std::vector<Lease> leases;
    for (auto& [id, stored] : tables_.sessions)
      if (!is_at_rest(stored.summary.status) && stored.owner != owner_ &&
          stored.lease_until < now_ms() && leases.size() < static_cast<std::size_t>(limit))
        leases.push_back(hold(id, stored));
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return leases;
  }

  Task<Result<void>> append(const Batch& batch) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore || fate_.disk_is_full()) co_return down();
    if (refusals > 0 && refusals--) co_return refusal;
    if (!refused.empty()) {
      const Error error = refused.front();
      refused.pop_front();
      co_return error;
    }
    auto& stored = tables_.sessions.at(batch.lease.session);
    if (stored.epoch != batch.lease.epoch ||
        stored.events.back().seq + 1 != batch.events.front().seq)
      co_return make_error(ErrorCode::kConflict, "append", "fenced");
    for (const TakenOver& taken : batch.taken)
      if (tables_.inputs.at(taken.id).reply)
        co_return make_error(ErrorCode::kConflict, "append", "it is an event already");
    for (const TakenOver& taken : batch.taken) tables_.inputs.at(taken.id).reply = taken.seqs;
    stored.events.insert(stored.events.end(), batch.events.begin(), batch.events.end());
    stored.summary = batch.summary;
    stored.lease_until = lease_end(batch.summary.status);
    stored.commits += 1;
    for (const Chore& chore : batch.chores) tables_.chores.emplace(chore.id, chore);
    for (const Blob& blob : batch.blobs) tables_.blobs.emplace(blob.digest, blob.bytes);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return {};
  }

  Task<Result<void>> renew() override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    tables_.nodes[owner_] = now_ms() + kLeaseMs;
    for (auto& [id, stored] : tables_.sessions)
      if (stored.owner == owner_ && !is_at_rest(stored.summary.status))
        stored.lease_until = now_ms() + kLeaseMs;
    co_return {};
  }

  Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                              std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    const auto found = tables_.sessions.find(session);
    if (found == tables_.sessions.end()) co_return std::vector<StoredEvent>();
    const auto& events = found->second.events;
    const auto size = static_cast<Seq>(events.size());
    const Seq begin = std::min(after, size);
    co_return std::vector<StoredEvent>(events.begin() + begin,
                                       events.begin() + std::min(begin + limit, size));
  }

  Task<Result<Summary>> find(std::string session) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    const auto found = tables_.sessions.find(session);
    if (found == tables_.sessions.end()) co_return make_error(ErrorCode::kNotFound, "find", "");
    co_return found->second.summary;
  }

  Task<Result<std::vector<Summary>>> list(ListQuery) override { co_return std::vector<Summary>(); }

  Task<Result<std::vector<std::string>>> list_orphans(std::string after,
                                                      std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<std::string> ids;
    for (const auto& [id, stored] : tables_.sessions)
      if (!is_at_rest(stored.summary.status) &&
          (stored.owner == owner_ || stored.lease_until < now_ms()) && id > after &&
          std::ssize(ids) < limit)
        ids.push_back(id);
    co_return ids;
  }

  Task<Result<std::vector<StoredEvent>>> archive(std::string session, std::int64_t at_ms,
                                                 Farewell farewell) override {
    auto& stored = tables_.sessions.at(session);
    if (stored.summary.status != Status::kIdle)
      co_return make_error(ErrorCode::kConflict, "archive", "at work");
    stored.summary.archived_ms = at_ms;
    stored.epoch += 1;
    std::vector<StoredEvent> said;
    if (farewell == Farewell::kSaid) {
      stored.summary.head += 1;
      said.push_back({.seq = stored.summary.head, .at_ms = at_ms, .event = Archived{}});
      stored.events.push_back(said.back());
    }
    co_return said;
  }
  Task<Result<std::string>> read_blob(std::string, std::string digest) override {
    co_return tables_.blobs.at(digest);
  }

  Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<Chore> list;
    for (const auto& [id, chore] : tables_.chores) {
      const bool is_ours = chore.node == owner_ || chore.node.empty() ||
                           ((chore.kind == "stop_session" || chore.kind == "charge_question") &&
                            !tables_.lives(chore.node, now_ms()));
      if (is_ours && list.size() < static_cast<std::size_t>(limit)) list.push_back(chore);
    }
    co_return list;
  }

  Task<Result<void>> finish_chores(std::vector<std::string> ids) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    for (const std::string& id : ids) tables_.chores.erase(id);
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return {};
  }

  Task<Result<std::string>> hand_over(std::string session, std::vector<Event> inputs) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore || fate_.disk_is_full()) co_return down();
    std::string id = fmt::format("{:06}", tables_.inputs.size());
    tables_.inputs[id] = {.said = {.id = id, .session = session, .events = std::move(inputs)},
                          .reply = std::nullopt};
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return id;
  }
  Task<Result<std::vector<HandedOver>>> list_inputs(std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<HandedOver> list;
    for (const auto& [id, input] : tables_.inputs) {
      if (input.reply || list.size() == static_cast<std::size_t>(limit)) continue;
      const auto& stored = tables_.sessions.at(input.said.session);
      if (stored.owner == owner_ ||
          (stored.lease_until < now_ms() && !tables_.lives(stored.owner, now_ms())))
        list.push_back(input.said);
    }
    co_return list;
  }
  Task<Result<void>> reply(std::string handed_over, std::string, Reply reply) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (auto& kept = tables_.inputs.at(handed_over).reply; !kept) kept = std::move(reply);
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return {};
  }
  Task<Result<std::optional<Reply>>> find_reply(std::string handed_over) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    co_return tables_.inputs.at(handed_over).reply;
  }
  Task<Result<void>> forget_replies() override { co_return {}; }
  Task<Result<std::map<std::string, Seq>>> read_heads(std::vector<std::string> sessions) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::map<std::string, Seq> heads;
    for (const std::string& session : sessions)
      if (const auto found = tables_.sessions.find(session); found != tables_.sessions.end())
        heads[session] = found->second.summary.head;
    co_return heads;
  }

  // Of the next so many appends.
  int refusals = 0;
  Error refusal;
  // Or of the next ones, one after the other.
  std::deque<Error> refused;

 private:
  static constexpr std::int64_t kLeaseMs = 30'000;
  static Error down() { return make_error(ErrorCode::kUnavailable, "store", "no room"); }
  static Error late() { return make_error(ErrorCode::kTimeout, "store", "took too long"); }
  std::int64_t now_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
        .count();
  }
  Lease hold(const std::string& session, Tables::Stored& stored) const {
    stored.owner = owner_;
    stored.epoch += 1;
    stored.lease_until = now_ms() + kLeaseMs;
    return {.session = session, .project = stored.summary.project, .epoch = stored.epoch};
  }
  std::int64_t lease_end(Status status) const {
    return is_at_rest(status) ? 0 : now_ms() + kLeaseMs;
  }

  Tables& tables_;
  Fate& fate_;
  const Clock& clock_;
  std::string owner_;
};

}  // namespace pons::session
