#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "call_log.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/budget/book.h"
#include "pons/budget/counters.h"
#include "pons/budget/usage.h"
#include "pons/store/store.h"

namespace pons::budget {

// The calls of all time, in the store: each once in model_calls, and added up per node, model and
// day in model_usage, for its own node and all above.
class Ledger {
 public:
  explicit Ledger(store::Store& store) : store_(store) {}

  // All entries of a journal's file, in parts; they must live until it is done. A part that is
  // there already, because a process died after storing it, is not stored again; nor is a call that
  // is, because a machine died and its journal knows less than the store.
  Task<Result<void>> store_file(std::int64_t number, std::span<const Entry> entries,
                                std::int64_t now_ms);
  Task<Result<bool>> has_call(std::string id);
  // Of all calls whose ids begin with that.
  Task<Result<QuestionUse>> use_of(std::string prefix);
  // The highest number of a file that it knows; 0: none.
  Task<Result<std::int64_t>> last_file();

  // What the nodes of the counters have used in the windows that are open now.
  Task<Result<void>> restore(Counters& counters, std::int64_t now_ms);
  Task<Result<std::vector<UsageRow>>> usage(UsageQuery query);
  // Some of the calls before that time; the sums stay.
  Task<Result<void>> prune(std::int64_t before_ms);

 private:
  Task<Result<void>> store_part(std::int64_t number, std::int64_t part,
                                std::span<const Entry> entries, std::int64_t now_ms);
  Task<Result<std::vector<Entry>>> not_stored(std::span<const Entry> entries);
  Task<Result<void>> restore_from_days(Counters& counters, Window window, std::int64_t now_ms);
  Task<Result<void>> restore_from_calls(Counters& counters, Window window, std::int64_t now_ms);

  store::Store& store_;
};

}  // namespace pons::budget
