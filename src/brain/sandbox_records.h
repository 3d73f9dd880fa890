#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::brain {

// That a sandbox was made, or ended. Telling it twice changes nothing.
struct SandboxRecord {
  enum class What : std::uint8_t { kCreate, kEnd };
  What what = What::kCreate;
  std::string id;
  std::string project_id;
  std::int64_t at_ms = 0;
  std::string sandbox_template;  // kCreate
  std::string metadata;          // kCreate: a JSON object as text
  std::string reason;            // kEnd
  std::string session = {};      // kCreate: that has taken it; empty: none
};

struct OpenSandbox {
  std::string id;
  std::string project_id;
};

// One whose time nobody has paid for.
struct UnpaidSandbox {
  std::string id;
  std::string project_id;
  std::string agent;         // that took it; empty: none
  std::int64_t seconds = 0;  // at least one: a sandbox that was begun
};

// Of all together whose time nobody has paid for, those that run among them.
struct UnpaidTime {
  std::string project_id;
  std::string agent;
  std::int64_t seconds = 0;
};

struct RefusedRecord {
  std::size_t index = 0;
  Error error;
};

// Of the sandboxes of this machine; other nodes that share the store have theirs.
class SandboxRecords {
 public:
  explicit SandboxRecords(store::Store& store, std::string node = {})
      : store_(store), node_(std::move(node)) {}

  // Keeps them all, in order. Those that contradict the store (an unknown project, another
  // project's sandbox) or that are more than their project may have (kLimit) are named in the
  // answer, and keep no other from being stored.
  Task<Result<std::vector<RefusedRecord>>> keep(std::vector<SandboxRecord> records);
  // Those whose end nobody has told: the first ones behind `after`, by id.
  Task<Result<std::vector<OpenSandbox>>> list_open(std::string after);
  // Whosever it is. One that is not on record, or has ended, stays as it is.
  Task<Result<void>> end(std::string id, std::string reason, std::int64_t at_ms);

  // Of those that have ended, the first ones.
  Task<Result<std::vector<UnpaidSandbox>>> list_unpaid(std::int64_t rows_max);
  Task<Result<void>> mark_paid(std::vector<std::string> ids, std::int64_t at_ms);
  // The largest sums first.
  Task<Result<std::vector<UnpaidTime>>> sum_unpaid(std::int64_t now_ms);
  // On record, and its end is not.
  Task<Result<bool>> is_open(std::string id);
  // Whose session it is; empty: there is no such session.
  Task<Result<std::string>> agent_of(std::string project, std::string session);

 private:
  Task<Error> why_refused(std::string project);

  store::Store& store_;
  std::string node_;
};

}  // namespace pons::brain
