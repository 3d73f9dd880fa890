#pragma once

#include <chrono>

#include "pons/base/clock.h"
#include "pons/session/log.h"
#include "pons/store/bell.h"
#include "pons/store/store.h"

namespace pons::session {

struct StoreLogOptions {
  // Names this process among those that share the store, and stays the same when it is started
  // again.
  std::string owner;
  // A process that has said nothing for so long is taken for dead.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  // Leases are by the clock of the store's server: those of several machines differ.
  bool uses_servers_clock = false;
  store::Bell* bell = nullptr;  // must outlive the log; null: nobody else is there
};

// The log in tables.
class StoreLog final : public Log {
 public:
  StoreLog(store::Store& store, const Clock& clock, StoreLogOptions options);
  // Of a process that shares its store with nobody.
  StoreLog(store::Store& store, const Clock& clock, std::string owner)
      : StoreLog(store, clock, StoreLogOptions{.owner = std::move(owner)}) {}

  Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) override;
  Task<Result<Lease>> take(std::string session, Take how) override;
  Task<Result<std::vector<Lease>>> claim(std::int64_t limit) override;
  Task<Result<void>> append(const Batch& batch) override;
  Task<Result<void>> renew() override;
  Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                              std::int64_t limit) override;
  Task<Result<Summary>> find(std::string session) override;
  Task<Result<std::vector<Summary>>> list(ListQuery query) override;
  Task<Result<std::vector<std::string>>> list_orphans(std::string after,
                                                      std::int64_t limit) override;
  Task<Result<std::vector<StoredEvent>>> archive(std::string session, std::int64_t at_ms,
                                                 Farewell farewell) override;
  Task<Result<std::string>> read_blob(std::string project, std::string digest) override;
  Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) override;
  Task<Result<void>> finish_chores(std::vector<std::string> ids) override;
  Task<Result<std::string>> hand_over(std::string session, std::vector<Event> inputs) override;
  Task<Result<std::vector<HandedOver>>> list_inputs(std::int64_t limit) override;
  Task<Result<void>> reply(std::string handed_over, std::string session, Reply reply) override;
  Task<Result<std::optional<Reply>>> find_reply(std::string handed_over) override;
  Task<Result<void>> forget_replies() override;
  Task<Result<std::map<std::string, Seq>>> read_heads(std::vector<std::string> sessions) override;

 private:
  // At most so many rows as the statement's limit, which is that value, and as fit together.
  Task<Result<std::vector<store::Row>>> read_as_many(store::Statement statement,
                                                     std::size_t limit_at);
  std::int64_t now_ms() const;
  // The time of leases in a statement: a value of it, or the server's own.
  std::string lease_now(std::vector<store::Value>& values) const;
  // A lease of somebody else that ends before this is over.
  std::string lapsed_before(std::vector<store::Value>& values) const;
  std::int64_t lease_ms() const { return options_.lease.count(); }
  bool is_postgres() const { return store_.dialect() == store::Dialect::kPostgres; }
  store::Statement update_summary(const Lease& lease, const Summary& summary) const;
  void ring(std::string_view topic, const std::string& session) const;
  Task<Error> why_not(std::string session);
  Task<Error> why_not_made(Summary summary, Error otherwise);

  store::Store& store_;
  const Clock& clock_;
  StoreLogOptions options_;
  TimePoint renewed_{};      // last
  TimePoint heard_since_{};  // from then on without a gap
};

}  // namespace pons::session
