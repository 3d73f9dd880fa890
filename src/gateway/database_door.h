#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pons/base/secret.h"
#include "pons/database/address.h"
#include "pons/http/router.h"
#include "pons/linux/loop.h"
#include "pons/names/resolver.h"

namespace pons::gateway {

// The brain's way to its database: POST /database, with one end of a stream sent along. When it is
// answered with 200, the stream leads to a server that has let us in; from then on bytes are passed
// on as they are. The password stays here.
class DatabaseDoor {
 public:
  // `resolver` must outlive it. `authority_file`: certificates to trust; empty: the system's.
  DatabaseDoor(linux::Loop& loop, names::Resolver& resolver, database::Address address,
               Secret password, std::string authority_file);

  std::vector<http::Route> routes();

 private:
  Task<> answer(http::Exchange& exchange);
  Task<Result<void>> open(http::Exchange& exchange);
  Task<> carry(std::unique_ptr<http::Transport> inside, std::unique_ptr<http::Transport> outside);

  linux::Loop& loop_;
  names::Resolver& resolver_;
  database::Address address_;
  Secret password_;
  std::string authority_file_;
  linux::TaskGroup streams_;
};

}  // namespace pons::gateway
