#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pons/linux/child.h"
#include "pons/linux/loop.h"
#include "pons/store/postgres_store.h"

namespace pons::store {

// A PostgreSQL of its own, for tests: in a folder that goes away, reached by a Unix socket only,
// run by nobody when the test is root. It keeps its promises: fsync is on.
class PostgresServer {
 public:
  PostgresServer();  // ends the program when there is no PostgreSQL here
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // One for all tests of a program; ends with it.
  static PostgresServer& shared();

  void start();
  void stop(int signal);  // SIGINT: orderly; SIGKILL: as if the power had failed

  // Always the same one, and empty: whatever was in it is gone.
  std::string empty_database();
  // As its superuser: several statements.
  void execute(const std::string& database, const std::string& sql);
  // Connections as the superuser.
  OpenStream opener(linux::Loop& loop, std::string database) const;

 private:
  void spawn_server();

  std::string directory_;
  std::string programs_;
  std::optional<linux::ChildProcess> process_;
};

}  // namespace pons::store
