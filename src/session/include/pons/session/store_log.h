#pragma once

#include "pons/base/clock.h"
#include "pons/session/log.h"
#include "pons/store/store.h"

namespace pons::session {

// The log in tables. `owner` names this process among those that share the store, and stays the
// same when it is started again.
class StoreLog final : public Log {
 public:
  StoreLog(store::Store& store, const Clock& clock, std::string owner);

  Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) override;
  Task<Result<Lease>> take(std::string session) override;
  Task<Result<void>> append(const Batch& batch) override;
  Task<Result<void>> renew() override;
  Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                              std::int64_t limit) override;
  Task<Result<Summary>> find(std::string session) override;
  Task<Result<std::vector<Summary>>> list(ListQuery query) override;
  Task<Result<std::vector<std::string>>> list_orphans() override;
  Task<Result<void>> archive(std::string session, std::int64_t at_ms) override;
  Task<Result<std::string>> read_blob(std::string project, std::string digest) override;
  Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) override;
  Task<Result<void>> finish_chores(std::vector<std::string> ids) override;

 private:
  std::int64_t now_ms() const;
  Task<Error> why_not(std::string session);
  Task<Error> why_not_made(Summary summary, Error otherwise);

  store::Store& store_;
  const Clock& clock_;
  std::string owner_;
};

}  // namespace pons::session
