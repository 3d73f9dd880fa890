#include "call_log.h"

#include <algorithm>
#include <array>

#include "pons/base/check.h"
#include "pons/base/log.h"

namespace pons::budget {

namespace {

// Files that wait for a store that does not take them; after that no new calls.
constexpr std::size_t kBatchesMax = 4;

Error full() {
  return make_error(ErrorCode::kUnavailable, "reserve budget",
                    "calls cannot be recorded: the store takes no writes. See the log for why");
}

}  // namespace

Settled as_lost(const Reserved& call, const Progress& last, Outcome outcome, std::int64_t time_ms) {
  Settled lost{.id = call.id,
               .usage = last.usage,
               .cost_nano = last.cost_nano,
               .outcome = outcome,
               .time_ms = time_ms};
  if (last.usage.prompt() > 0) return lost;
  lost.usage = call.estimate;
  lost.usage.output = last.usage.output;
  lost.usage.reasoning = last.usage.reasoning;
  lost.cost_nano += call.input_nano;
  return lost;
}

void CallState::apply(Record record) {
  if (auto* begun = std::get_if<Reserved>(&record)) {
    std::string id = begun->id;
    open.insert_or_assign(std::move(id), OpenCall{.reserved = std::move(*begun), .progress = {}});
  } else if (auto* news = std::get_if<Progress>(&record)) {
    if (const auto call = open.find(news->id); call != open.end())
      call->second.progress = std::move(*news);
  } else if (auto* ended = std::get_if<Settled>(&record)) {
    const auto call = open.find(ended->id);
    if (call == open.end()) return;
    settled.push_back({.reserved = std::move(call->second.reserved), .settled = std::move(*ended)});
    open.erase(call);
  } else if (const auto* gone = std::get_if<Released>(&record)) {
    if (const auto call = open.find(gone->id); call != open.end()) open.erase(call);
  }
}

Result<std::unique_ptr<CallLog>> CallLog::open(JournalOptions options, std::int64_t last_number,
                                               std::int64_t now_ms) {
  auto journal = TRY(Journal::open(std::move(options)));
  std::unique_ptr<CallLog> log(new CallLog(std::move(journal)));
  TRY_VOID(log->take_over(last_number, now_ms));
  return log;
}

Result<void> CallLog::take_over(std::int64_t last_number, std::int64_t now_ms) {
  for (Journal::OldFile& file : TRY(journal_->read_old())) {
    for (Record& record : file.records) state_.apply(std::move(record));
    last_number = std::max(last_number, file.number);
    batches_.push_back({.number = file.number, .entries = std::exchange(state_.settled, {})});
  }
  // The new file has them before an old one is given up.
  TRY_VOID(next_file(last_number + 1));
  std::vector<Record> ends;
  for (const auto& [id, call] : state_.open) {
    if (call.progress)
      ends.emplace_back(as_lost(call.reserved, *call.progress, Outcome::kLost, now_ms));
    else
      ends.emplace_back(Released{.id = id});
  }
  if (!ends.empty())
    LOG_WARN("calls to models were under way when the process before died", {"calls", ends.size()});
  for (Record& end : ends) TRY_VOID(write(std::move(end)));
  // What was open in files without anything settled stands in the new one now.
  std::erase_if(batches_, [&](const Batch& batch) {
    if (batch.entries.empty()) journal_->remove(batch.number);
    return batch.entries.empty();
  });
  return {};
}

Result<void> CallLog::next_file(std::int64_t number) {
  std::string carried;
  for (const auto& [id, call] : state_.open) {
    append_record(carried, call.reserved);
    if (call.progress) append_record(carried, *call.progress);
  }
  return journal_->begin_file(number, carried);
}

Result<void> CallLog::finish_file() {
  if (state_.settled.empty() && !journal_->is_full()) return {};
  if (batches_.size() >= kBatchesMax) return full();
  const std::int64_t number = journal_->number();
  TRY_VOID(next_file(number + 1));
  batches_.push_back({.number = number, .entries = std::exchange(state_.settled, {})});
  return {};
}

void CallLog::first_batch_is_stored() {
  journal_->remove(batches_.front().number);
  batches_.pop_front();
}

bool CallLog::knows(const std::string& id) const {
  const auto is_it = [&](const Entry& entry) { return entry.settled.id == id; };
  return state_.open.contains(id) || std::ranges::any_of(state_.settled, is_it) ||
         std::ranges::any_of(batches_, [&](const Batch& batch) {
           return std::ranges::any_of(batch.entries, is_it);
         });
}

const Reserved& CallLog::reserved(const std::string& id) const {
  const auto found = state_.open.find(id);
  CHECK(found != state_.open.end());
  return found->second.reserved;
}

Result<void> CallLog::write(Record record) {
  return write({&record, 1});
}

Result<void> CallLog::write(std::span<Record> records) {
  scratch_.clear();
  for (const Record& record : records) append_record(scratch_, record);
  TRY_VOID(journal_->append(scratch_));
  for (Record& record : records) state_.apply(std::move(record));
  return {};
}

Result<void> CallLog::write_kept() {
  while (!kept_.empty()) {
    TRY_VOID(write(kept_.front()));
    kept_.erase(kept_.begin());
  }
  return {};
}

void CallLog::write_or_keep(Record record) {
  auto written = write_kept();
  if (written) written = write(record);
  if (written) return;
  LOG_ERROR("the end of a call waits for room in the journal", {"error", written.error()});
  kept_.push_back(std::move(record));
}

Result<void> CallLog::reserve(Reserved call, bool is_sent) {
  if (journal_->is_full()) TRY_VOID(finish_file());
  TRY_VOID(write_kept());
  Record sent = Progress{.id = call.id};
  std::array<Record, 2> records = {std::move(call), std::move(sent)};
  return write(std::span(records).first(is_sent ? 2 : 1));
}

void CallLog::progress(Progress progress) {
  // It only makes a loss more exact: not worth being kept.
  if (write_kept()) (void)write(std::move(progress));
}

void CallLog::settle(Settled settled) {
  write_or_keep(std::move(settled));
}

void CallLog::release(const std::string& id) {
  write_or_keep(Released{.id = id});
}

}  // namespace pons::budget
