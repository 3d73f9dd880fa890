#pragma once

#include <memory>
#include <string>

#include "pons/base/secret.h"
#include "pons/database/address.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"
#include "pons/names/resolver.h"

namespace pons::database {

struct Guest {
  const Address& address;
  const Secret& password;      // empty: the server asks for none
  std::string authority_file;  // certificates to trust; empty: the system's
};

// Connects and says who we are, up to the server's first "ready": what comes next is the
// caller's. The hosts are tried in their order, until one fits. The error is what the last one
// said.
Task<Result<std::unique_ptr<http::Transport>>> greet(linux::Loop& loop, names::Resolver& resolver,
                                                     Guest guest, TimePoint deadline);

// What parsing addresses and greeting load by themselves: for a process that cannot open files
// later on.
Result<void> load_client_library();

}  // namespace pons::database
