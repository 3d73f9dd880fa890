#pragma once

#include <memory>
#include <string>

#include "pons/base/secret.h"
#include "pons/database/address.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::names {
class Resolver;
}

namespace pons::database {

// Streams to a database for a program that has a network of its own, and the password: a command of
// the operator, never a role that reads what strangers write.
class DirectDatabase {
 public:
  DirectDatabase(linux::Loop& loop, Address address, Secret password, std::string authority_file);
  ~DirectDatabase();
  DirectDatabase(const DirectDatabase&) = delete;
  DirectDatabase& operator=(const DirectDatabase&) = delete;

  // One on which everything up to the server's first "ready" has been said. Must end before this.
  Task<Result<std::unique_ptr<http::Transport>>> open(TimePoint deadline);
  const std::string& shown() const { return address_.shown; }

 private:
  linux::Loop& loop_;
  Address address_;
  Secret password_;
  std::string authority_file_;
  std::unique_ptr<names::Resolver> resolver_;
};

}  // namespace pons::database
