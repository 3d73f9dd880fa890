#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/budget/counters.h"
#include "pons/budget/keys.h"
#include "pons/budget/prices.h"
#include "pons/budget/usage.h"
#include "pons/linux/loop.h"
#include "pons/store/store.h"

// Who may spend what, and who has: keys, counters, journal and ledger as one. Whatever happens to
// the process, a call that was begun is charged once or not at all.

namespace pons::budget {

struct BookOptions {
  std::string directory;                   // for the journal; of this book alone
  Duration lease = std::chrono::hours(1);  // of a call without progress
  Duration store_interval =
      std::chrono::minutes(1);  // from the journal to the store, at the latest
  Duration sync_interval = std::chrono::milliseconds(200);  // what a power failure may cost
  std::size_t journal_file_bytes = 8ULL << 20;
  int calls_kept_days = 90;              // single calls; the sums stay
  std::int64_t sandbox_second_nano = 0;  // what a second of a sandbox costs
};

struct CallWish {
  std::string node_id;
  std::string model;       // as it is priced, and as keys name it
  std::string asked = {};  // what the client calls it: a key that allows this name allows the call
  std::string provider;
  // What it is a part of, if somebody will ask what that came to: 16 to 64 small letters and
  // digits, which no other question ever has. Empty: nothing.
  std::string question = {};
  // It goes to the provider at once: as if sent() were called, and in the same write.
  bool is_sent = false;
  // Instead of the table's: of what costs nobody anything. Outlives the book.
  const Price* price = nullptr;
  std::int64_t price_percent = 100;  // of it, for this call
  models::Usage estimate =
      {};  // the most that it can come to: the whole prompt, all output it may have
};

class Book;

// A call under way: its estimate is reserved. Dropping it gives that back, or, once it was sent,
// charges what is known of it: a client that leaves does not get its tokens for nothing. Must not
// outlive the book.
class Call {
 public:
  Call(Call&& other) noexcept
      : book_(std::exchange(other.book_, nullptr)),
        number_(other.number_),
        id_(std::move(other.id_)) {}
  Call& operator=(Call&& other) noexcept {
    Call incoming(std::move(other));
    std::swap(book_, incoming.book_);
    std::swap(number_, incoming.number_);
    std::swap(id_, incoming.id_);
    return *this;
  }
  ~Call();

  const std::string& id() const { return id_; }  // "mc_…"
  // The provider has it. From here on a death of the process is charged for.
  void sent();
  // What it has used so far; as often as one likes.
  void progress(const models::Usage& usage);
  // What it cost, in nano-dollars; 0 when its time was over before, and it was charged then.
  std::int64_t settle(const models::Usage& usage, Outcome outcome);
  // Nobody was asked after all: as if it had never been, also where it counts as sent.
  void withdraw();

 private:
  friend class Book;
  Call(Book& book, std::uint64_t number, std::string id)
      : book_(&book), number_(number), id_(std::move(id)) {}
  Book* book_;
  std::uint64_t number_;
  std::string id_;
};

// What all calls of a question came to.
struct QuestionUse {
  models::Usage usage;
  std::int64_t cost_nano = 0;
  std::int64_t calls = 0;
};

// A call that has ended, as it was charged.
struct Charged {
  std::string_view provider;
  std::string_view model;
  const models::Usage& usage;
  std::int64_t cost_nano = 0;
  Outcome outcome = Outcome::kDone;
};

class CallLog;
class Ledger;
struct Settled;

// Questions of which no call is begun any more: what of one is on its way here arrives long before
// it is forgotten.
class EndedQuestions {
 public:
  void add(std::string question, TimePoint now);
  bool contains(std::string_view question) const { return all_.contains(question); }

 private:
  std::set<std::string, std::less<>> all_;
  std::deque<std::pair<TimePoint, std::string>> oldest_first_;
};

class Book {
 public:
  // Finishes what a process before has left. The store, the clock and the loop outlive it.
  static Task<Result<std::unique_ptr<Book>>> open(linux::Loop& loop, store::Store& store,
                                                  const Clock& clock, Prices prices,
                                                  BookOptions options);
  ~Book();

  Keys& keys() { return *keys_; }
  const Prices& prices() const { return prices_; }

  // kDenied: the key is not good, or not for this model, or the question is over. kNotFound: the
  // model has no price. kLimit: a limit is reached, and `refused` says which. kUnavailable: it
  // cannot be recorded.
  Result<Call> begin_call(CallWish wish, Refused* refused = nullptr);
  // What a question came to, of which nobody waits for more: from now on no call of it is begun.
  // kConflict: one is still under way. Asked again it says the same, for as long as single calls
  // are kept.
  Task<Result<QuestionUse>> end_question(std::string question);
  // Time that a sandbox has run, once for each `sandbox_id` for as long as single calls are kept:
  // false when it was charged before. Limits do not keep it from being counted. kConflict: somebody
  // charges it right now.
  Task<Result<bool>> charge_sandbox(std::string node_id, std::string sandbox_id,
                                    std::int64_t seconds);
  // Before a sandbox is made: kLimit when a limit of the key, or of one above it, has no room for
  // another second, or for what that costs. The second counts from now on, so that of many
  // sandboxes at once only those begin for which there is room.
  Result<void> admit_sandbox(std::string_view node_id, Refused* refused = nullptr);
  // For how many seconds sandboxes have run that nobody has charged yet, by the key that they will
  // be charged to. Until this is said again it counts as reserved, in every window that is open:
  // as if they all ended now. It replaces what was said before, and what was admitted since.
  void hold_sandboxes(const TextMap<std::int64_t>& seconds);
  // Whether sandboxes of this key may be refused for a limit of its own.
  bool limits_sandboxes(const Key& key) const;
  // Hears of every call that ends while this process lives.
  using Witness = std::function<void(const Charged&)>;
  void set_witness(Witness witness) { witness_ = std::move(witness); }
  // Hears of each limit of which so much is used that someone should look, when it comes to that,
  // whatever is charged: once in each window.
  using Alarm = std::function<void(const Warning&)>;
  void set_alarm(Alarm alarm) { alarm_ = std::move(alarm); }

  // Everything that was settled before is in it.
  Task<Result<std::vector<UsageRow>>> usage(UsageQuery query);
  Amounts used(std::string_view node_id, Window window) {
    return counters_.used(node_id, window, now());
  }
  Amounts reserved(std::string_view node_id) const { return counters_.reserved(node_id); }
  // By sandboxes that run.
  Amounts held(std::string_view node_id) const { return counters_.held(node_id); }

  // Brings what was settled into the store.
  Task<Result<void>> flush();
  // Settles calls of which nothing was heard for too long; the book does so by itself, too.
  void sweep();

 private:
  friend class Call;
  struct State;

  Book(linux::Loop& loop, store::Store& store, const Clock& clock, Prices prices,
       BookOptions options);
  Task<Result<void>> start();
  Task<> run();
  Task<Result<void>> round();
  Task<Result<void>> store_batches();
  std::int64_t now();

  void sent(std::uint64_t number);
  void progress(std::uint64_t number, const models::Usage& usage);
  std::int64_t settle(std::uint64_t number, const models::Usage& usage, Outcome outcome);
  void drop(std::uint64_t number);
  void withdraw(std::uint64_t number);
  void finish(std::uint64_t number, Settled settled);
  void tell(const Settled& settled) const;
  void raise_alarm();
  Amounts sandbox_amounts(std::int64_t seconds) const;

  linux::Loop& loop_;
  const Clock& clock_;
  Prices prices_;
  BookOptions options_;
  Witness witness_;
  Alarm alarm_;
  std::int64_t latest_ms_ = 0;
  Counters counters_;
  std::unique_ptr<Keys> keys_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<CallLog> log_;
  std::unordered_map<std::uint64_t, std::unique_ptr<State>> calls_;  // by reservation
  std::set<std::string, std::less<>> charging_;                      // sandboxes
  EndedQuestions ended_;
  bool storing_ = false;
  linux::Event stored_;
  linux::Event wake_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::budget
