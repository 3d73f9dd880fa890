#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "requests.h"
#include "routes.h"
#include "sandbox_bills.h"

namespace pons::brain {

namespace {

constexpr Duration kNewsTime = std::chrono::seconds(25);

// Egress dials the brain on behalf of sandboxes: it gets none of this.
bool refuse_unless_front(http::Exchange& exchange) {
  const std::string& role = exchange.peer().role;
  if (role == "front" || role == "operator") return false;
  exchange.respond(http::error_response(403, "denied", "only the front may ask for this"));
  return true;
}

std::string after_of(std::string_view query) {
  constexpr std::string_view kName = "after=";
  for (const std::string_view pair : split(query, '&'))
    if (pair.starts_with(kName)) return std::string(pair.substr(kName.size()));
  return {};
}

// The head leaves at once, so that whoever waits knows that somebody is there.
Task<> answer_keys(KeyFeed& feed, http::Exchange& exchange) {
  if (refuse_unless_front(exchange)) co_return;
  if (!co_await exchange.start({})) co_return;
  co_await feed.wait_for_news(after_of(exchange.request().query()), exchange,
                              exchange.loop().now() + kNewsTime);
  (void)co_await exchange.finish(feed.body());
}

Json refusal(std::size_t index, const Error& error) {
  return {{"index", index}, {"type", to_string(error.code)}, {"message", error.message}};
}

// Nothing where the record may be kept as far as budgets go.
Task<std::optional<Error>> why_not(Memory& memory, const SandboxRecord& record) {
  if (memory.bills == nullptr || record.what != SandboxRecord::What::kCreate)
    co_return std::nullopt;
  const auto may =
      co_await memory.bills->may_begin({.id = record.id, .project = record.project_id});
  if (may) co_return std::nullopt;
  co_return may.error();
}

Task<Result<Json>> keep_records(Memory& memory, http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(auto records, parse_sandbox_records(body, wall_ms(memory.clock)));
  Json list = Json::array();
  std::vector<SandboxRecord> kept;
  std::vector<std::size_t> indices;  // of those
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (const auto error = co_await why_not(memory, records[i])) {
      list.push_back(refusal(i, *error));
      continue;
    }
    kept.push_back(std::move(records[i]));
    indices.push_back(i);
  }
  CO_TRY(const auto refused, co_await memory.records.keep(std::move(kept)));
  for (const RefusedRecord& record : refused)
    list.push_back(refusal(indices[record.index], record.error));
  co_return Json{{"stored", indices.size() - refused.size()}, {"refused", std::move(list)}};
}

Task<> answer_records(Memory& memory, http::Exchange& exchange) {
  if (refuse_unless_front(exchange)) co_return;
  const auto answer = co_await keep_records(memory, exchange);
  if (answer)
    exchange.respond({.body = dump_json(*answer) + "\n"});
  else
    exchange.respond(http::error_response(answer.error()));
}

Task<> answer_open_records(Memory& memory, http::Exchange& exchange) {
  if (refuse_unless_front(exchange)) co_return;
  const auto open = co_await memory.records.list_open(after_of(exchange.request().query()));
  if (!open) {
    exchange.respond(http::error_response(open.error()));
    co_return;
  }
  Json list = Json::array();
  for (const OpenSandbox& sandbox : *open)
    list.push_back({{"id", sandbox.id}, {"project", sandbox.project_id}});
  exchange.respond({.body = dump_json({{"open", std::move(list)}}) + "\n"});
}

}  // namespace

std::vector<http::Route> front_routes(Memory& memory, KeyFeed& feed) {
  return {
      {"GET", "/keys",
       [&feed](http::Exchange& e, const http::PathValues&) { return answer_keys(feed, e); }},
      {"GET", "/sandbox-records/open",
       [&memory](http::Exchange& e, const http::PathValues&) {
         return answer_open_records(memory, e);
       }},
      {"POST", "/sandbox-records",
       [&memory](http::Exchange& e, const http::PathValues&) { return answer_records(memory, e); }},
  };
}

}  // namespace pons::brain
