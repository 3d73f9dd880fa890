#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "journal.h"
#include "pons/base/result.h"
#include "pons/budget/text_map.h"

namespace pons::budget {

struct OpenCall {
  Reserved reserved;
  std::optional<Progress> progress;
};

// What is charged when nobody says more: what it has used so far, with the prompt as estimated
// unless the provider has counted it.
Settled as_lost(const Reserved& call, const Progress& last, Outcome outcome, std::int64_t time_ms);

// A call as it goes into the ledger.
struct Entry {
  Reserved reserved;
  Settled settled;
};

// What a sequence of records comes to. Reading a file and writing it go through the same steps, so
// that a process finds exactly what the one before had.
struct CallState {
  TextMap<OpenCall> open;
  std::vector<Entry> settled;
  void apply(Record record);
};

// The calls that are not in the ledger yet, over a journal.
class CallLog {
 public:
  // The entries of one finished file.
  struct Batch {
    std::int64_t number = 0;
    std::vector<Entry> entries;
  };

  // Takes over what processes before have left. Calls of theirs that had reached a provider are
  // settled as lost, the others released. `last_number` is the highest that the ledger knows.
  static Result<std::unique_ptr<CallLog>> open(JournalOptions options, std::int64_t last_number,
                                               std::int64_t now_ms);

  // On disk, as far as the death of this process goes, when it returns. kUnavailable: it is not,
  // and the call must not be made.
  Result<void> reserve(Reserved call, bool is_sent = false);
  void progress(Progress progress);
  // These cannot fail: what finds no room is kept and written first as soon as there is some.
  void settle(Settled settled);
  void release(const std::string& id);

  // Whether a call of this id is open, or settled and not in the ledger yet.
  bool knows(const std::string& id) const;
  // Of a call that is open.
  const Reserved& reserved(const std::string& id) const;

  // Ends the file if anything was settled in it; it is the last of the batches then. kUnavailable:
  // too many wait already, or there is no room.
  Result<void> finish_file();
  bool has_batch() const { return !batches_.empty(); }
  const Batch& first_batch() const { return batches_.front(); }
  void first_batch_is_stored();

 private:
  explicit CallLog(std::unique_ptr<Journal> journal) : journal_(std::move(journal)) {}
  Result<void> take_over(std::int64_t last_number, std::int64_t now_ms);
  Result<void> next_file(std::int64_t number);
  Result<void> write(Record record);
  Result<void> write(std::span<Record> records);
  Result<void> write_kept();
  void write_or_keep(Record record);

  std::unique_ptr<Journal> journal_;
  CallState state_;
  std::vector<Record> kept_;
  std::deque<Batch> batches_;
  std::string scratch_;
};

}  // namespace pons::budget
