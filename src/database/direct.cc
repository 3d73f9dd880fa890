#include "pons/database/direct.h"

#include "pons/database/greeting.h"
#include "pons/names/resolver.h"

namespace pons::database {

DirectDatabase::DirectDatabase(linux::Loop& loop, Address address, Secret password,
                               std::string authority_file)
    : loop_(loop),
      address_(std::move(address)),
      password_(std::move(password)),
      authority_file_(std::move(authority_file)),
      resolver_(std::make_unique<names::Resolver>(loop, names::read_resolver_settings())) {}

DirectDatabase::~DirectDatabase() = default;

Task<Result<std::unique_ptr<http::Transport>>> DirectDatabase::open(TimePoint deadline) {
  return greet(loop_, *resolver_,
               {.address = address_, .password = password_, .authority_file = authority_file_},
               deadline);
}

}  // namespace pons::database
