#include "pons/base/json_place.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"
#include "routes.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kRequestBytesMax = 256 * 1024;
constexpr std::size_t kSandboxesMax = 500;
constexpr std::uint64_t kSecondsMax = 31ULL * 86'400;

struct Ended {
  std::string id;
  std::string project;
  std::int64_t seconds = 0;
};

Result<std::vector<Ended>> parse_ended(std::string_view body) {
  const Json json = TRY(parse_json(body));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_list(kSandboxesMax));
  std::vector<Ended> all;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonPlace one = place.at(i);
    TRY_VOID(one.expect_object({"id", "project", "seconds"}));
    for (const char* key : {"id", "project", "seconds"})
      if (!one.has(key)) return one.refuse("has no " + std::string(key));
    all.push_back(
        {.id = TRY(one.at("id").text()),
         .project = TRY(one.at("project").text()),
         .seconds = static_cast<std::int64_t>(TRY(one.at("seconds").number(1, kSecondsMax)))});
  }
  return all;
}

Task<Result<std::size_t>> charge(budget::Book& book, http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const auto all, parse_ended(body));
  std::size_t charged = 0;
  for (const Ended& one : all) {
    CO_TRY(const budget::Key root, co_await book.keys().ensure_root(one.project));
    const auto is_new = co_await book.charge_sandbox(root.id, one.id, one.seconds);
    const bool is_final = !is_new && is_new.error().code == ErrorCode::kDenied;
    if (!is_new && !is_final) co_return is_new.error();
    // What can never be charged keeps nobody else's time from being charged.
    if (is_final)
      LOG_WARN("the time of a sandbox is not charged", {"sandbox", one.id},
               {"error", is_new.error()});
    else
      charged += *is_new ? 1 : 0;
  }
  co_return charged;
}

Task<> answer(budget::Book& book, http::Exchange& exchange) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for the brain"));
    co_return;
  }
  const auto charged = co_await charge(book, exchange);
  if (charged)
    exchange.respond({.body = dump_json({{"charged", *charged}}) + "\n"});
  else
    exchange.respond(http::error_response(charged.error()));
}

}  // namespace

std::vector<http::Route> sandbox_routes(Models& models) {
  return {{"POST", "/sandbox-time", [&models](http::Exchange& exchange, const http::PathValues&) {
             return answer(models.book, exchange);
           }}};
}

}  // namespace pons::gateway
