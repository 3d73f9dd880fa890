#include "database_door.h"

#include "pons/database/greeting.h"
#include "pons/database/relay.h"
#include "pons/http/error_status.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kStreamsMax = 64;
constexpr Duration kGreetingTime = std::chrono::seconds(8);

}  // namespace

DatabaseDoor::DatabaseDoor(linux::Loop& loop, names::Resolver& resolver, database::Address address,
                           Secret password, std::string authority_file)
    : loop_(loop),
      resolver_(resolver),
      address_(std::move(address)),
      password_(std::move(password)),
      authority_file_(std::move(authority_file)),
      streams_(loop) {}

std::vector<http::Route> DatabaseDoor::routes() {
  return {{"POST", "/database",
           [this](http::Exchange& exchange, const http::PathValues&) { return answer(exchange); }}};
}

Task<> DatabaseDoor::answer(http::Exchange& exchange) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for the brain"));
    co_return;
  }
  if (const auto opened = co_await open(exchange); !opened)
    exchange.respond(http::error_response(opened.error()));
  else
    exchange.respond({.body = "{}\n"});
}

Task<Result<void>> DatabaseDoor::open(http::Exchange& exchange) {
  const auto& along = exchange.peer().descriptors;
  if (along == nullptr || along->size() != 1)
    co_return make_error(ErrorCode::kInvalid, "open database", "a stream must be sent along");
  if (streams_.size() >= kStreamsMax)
    co_return make_error(ErrorCode::kUnavailable, "open database", "too many streams are open");
  linux::UniqueFd stream = std::move(along->front());
  along->clear();
  CO_TRY(auto inside, http::create_plain_transport(loop_, std::move(stream)));
  CO_TRY(auto outside,
         co_await database::greet(
             loop_, resolver_,
             {.address = address_, .password = password_, .authority_file = authority_file_},
             loop_.now() + kGreetingTime));
  streams_.spawn(carry(std::move(inside), std::move(outside)));
  co_return {};
}

Task<> DatabaseDoor::carry(std::unique_ptr<http::Transport> inside,
                           std::unique_ptr<http::Transport> outside) {
  co_await database::relay(loop_, *inside, *outside);
}

}  // namespace pons::gateway
