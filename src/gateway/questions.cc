// What a question of the brain came to whose answer nobody waits for any more.

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/error_status.h"
#include "routes.h"

namespace pons::gateway {

namespace {

Task<> answer(Models& models, http::Exchange& exchange, std::string question) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for the brain"));
    co_return;
  }
  const auto use = co_await models.book.end_question(std::move(question));
  if (!use) {
    exchange.respond(http::error_response(use.error()));
    co_return;
  }
  const models::Usage& usage = use->usage;
  exchange.respond({.body = dump_json({{"input", usage.input},
                                       {"cache_read", usage.cache_read},
                                       {"cache_write", usage.cache_write + usage.cache_write_hour},
                                       {"output", usage.output},
                                       {"cost_nano_usd", use->cost_nano},
                                       {"calls", use->calls}}) +
                            "\n"});
}

}  // namespace

std::vector<http::Route> question_routes(Models& models) {
  return {{"POST", "/questions/{id}/end",
           [&models](http::Exchange& exchange, const http::PathValues& values) {
             return answer(models, exchange, std::string(values.front()));
           }}};
}

}  // namespace pons::gateway
