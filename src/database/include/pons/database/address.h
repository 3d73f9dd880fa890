#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::database {

// Where a PostgreSQL database is and how it is reached, as its URL says:
// postgres://USER@HOST:PORT,HOST:PORT/NAME?sslmode=verify-full
struct Address {
  std::map<std::string, std::string> options;  // libpq's
  std::vector<std::string> hosts;
  std::string shown;  // for messages: hosts and name

  // kInvalid, with what to write instead: a password has no place in it, files and sockets of this
  // machine cannot be reached by who connects, and a connection that nobody can listen to is what
  // is meant unless the URL says otherwise or names this machine only.
  static Result<Address> parse(std::string_view url);
};

}  // namespace pons::database
