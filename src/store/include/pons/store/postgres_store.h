#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pons/http/transport.h"
#include "pons/linux/loop.h"
#include "pons/store/bell.h"
#include "pons/store/limits.h"
#include "pons/store/store.h"

namespace pons::store {

// Opens one connection to the server, on which everything up to the server's first "ready" has been
// said: who we are, and that we may. The store has no password and knows no address.
using OpenStream =
    std::function<Task<Result<std::unique_ptr<http::Transport>>>(TimePoint deadline)>;

struct PostgresOptions {
  OpenStream open;
  std::string shown;  // the database's name in messages
  StoreLimits limits = {};
  std::size_t writing = 4;  // connections
  std::size_t reading = 2;
  Duration connect_time = std::chrono::seconds(10);
  // This process' among those that share the database; whoever else comes with the same is refused
  // while this one is connected. Empty: it has none, and nobody's bell is heard.
  std::string name = {};
  // Nobody else may use the database while this one is connected.
  bool is_alone = false;
};

// A PostgreSQL database, 14 or newer. A transaction is one trip there and back; several are under
// way on each connection. Connections that are lost are opened again: meanwhile everybody waits,
// and is told kUnavailable in the end. A transaction that was under way then is kTimeout, and is
// never asked a second time.
//
// Transactions that do not wait for each other may be stored in any order, and each statement sees
// what others have stored by then ("read committed"). A write whose answer is larger than the
// limits is kLimit, and stored.
class PostgresStore final : public Store {
 public:
  // Connects, checks that the server keeps what it acknowledges, and brings the tables up to date;
  // of several processes that do so at once, one does it. The error says what is wrong there.
  // kConflict: somebody else has this name, or the database for themselves.
  static Task<Result<std::unique_ptr<PostgresStore>>> open(linux::Loop& loop,
                                                           PostgresOptions options);
  ~PostgresStore() override;

  Dialect dialect() const override { return Dialect::kPostgres; }
  Task<Result<std::vector<Outcome>>> write(Transaction transaction) override;
  Task<Result<std::vector<Row>>> read(Statement statement) override;

  // Null without a name.
  Bell* bell();

  // Waits until everything that was asked for is answered, also to those who left.
  Task<> finish(TimePoint deadline);

 private:
  struct Lanes;
  PostgresStore(linux::Loop& loop, PostgresOptions options);

  linux::Loop& loop_;
  PostgresOptions options_;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace pons::store
