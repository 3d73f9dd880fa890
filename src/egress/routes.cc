#include "routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "access_news.h"
#include "access_requests.h"
#include "carrier.h"
#include "explain.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/supervisor/role_runtime.h"
#include "redaction.h"

namespace pons::egress {

namespace {

constexpr std::size_t kBodyBytesMax = 8 << 20;
constexpr std::size_t kSessionBytesMax = 256;

struct Context {
  Boundary& boundary;
  Attachments& attachments;
};
using Work = Task<Result<Json>> (*)(Context, http::Exchange&, std::string word);

Task<Result<Json>> read_json_body(http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kBodyBytesMax));
  co_return parse_json(body);
}

Error wrong_shape(const char* what) {
  return make_error(ErrorCode::kInvalid, "read request", what);
}

Task<> answer(Work work, Context context, http::Exchange& exchange, std::string word) {
  Result<Json> done = wrong_shape("the request has another shape");
  try {
    done = co_await work(context, exchange, std::move(word));
  } catch (const Json::exception&) {
    // what at() and get() say of a body that is not as it should be
  }
  if (done) {
    exchange.respond({.body = dump_json(*done) + "\n"});
  } else {
    exchange.respond(http::error_response(done.error()));
  }
}

// ---- the warden's

Task<Result<Json>> attach(Context context, http::Exchange& exchange, std::string word) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  const auto key = parse_hex(word);
  const auto& along = exchange.peer().descriptors;
  if (!key || along == nullptr || along->size() != 2)
    co_return wrong_shape("a sandbox is attached with its key and its two sockets");
  auto sockets = std::move(*along);
  CO_TRY(const auto variables,
         context.attachments.attach(
             {.key = *key,
              .id = body.at("id").get<std::string>(),
              .policy = {.environment = body.at("environment").get<std::string>(),
                         .document = body.at("policy").get<std::string>()}},
             std::move(sockets[0]), std::move(sockets[1])));
  co_return Json{{"environment", variables}};
}

Task<Result<Json>> detach(Context context, http::Exchange&, std::string word) {
  if (const auto key = parse_hex(word)) context.attachments.detach(*key);
  co_return Json::object();
}

Task<Result<Json>> keep_only(Context context, http::Exchange& exchange, std::string) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  std::set<std::uint64_t> keys;
  for (const Json& text : body.at("keys"))
    if (const auto key = parse_hex(text.get<std::string>())) keys.insert(*key);
  context.attachments.keep_only(keys);
  co_return Json::object();
}

// ---- the operator's

Task<Result<Json>> list(Context context, http::Exchange&, std::string) {
  Json all = Json::array();
  for (const auto& [key, sandbox] : context.attachments.all())
    all.push_back({{"id", sandbox->id},
                   {"connections", sandbox->traffic.connections},
                   {"requests", sandbox->traffic.requests},
                   {"refused", sandbox->traffic.refused},
                   {"bytes_out", sandbox->traffic.bytes_out},
                   {"names", sandbox->names.size()},
                   {"credentials", sandbox->policy->credentials()},
                   {"generation", sandbox->policy->generation()}});
  co_return Json{{"sandboxes", std::move(all)}};
}

Task<Result<Json>> set_policy(Context context, http::Exchange& exchange, std::string word) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  PolicyChoice choice;
  if (body.contains("environment")) {
    choice.environment = body.at("environment").get<std::string>();
  } else {
    choice.document = dump_json(body.at("policy"));
  }
  CO_TRY_VOID(context.attachments.set_policy(word, std::move(choice)));
  co_return Json::object();
}

Task<Result<Json>> show_policy(Context context, http::Exchange&, std::string word) {
  CO_TRY(const auto document, context.attachments.document_of(word));
  CO_TRY(auto policy, parse_json(document));
  co_return Json{{"policy", std::move(policy)}};
}

Task<Result<Json>> set_environments(Context context, http::Exchange& exchange, std::string) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY_VOID(context.attachments.set_environments(body.get<std::map<std::string, std::string>>()));
  co_return Json::object();
}

Task<Result<Json>> explain(Context context, http::Exchange& exchange, std::string) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  const auto id = body.at("sandbox").get<std::string>();
  const auto sandbox = context.attachments.find(id);
  if (sandbox == nullptr)
    co_return make_error(ErrorCode::kNotFound, "explain",
                         fmt::format("no sandbox \"{}\" has a network", id));
  co_return co_await explain_request(context.boundary, sandbox, body.at("url").get<std::string>(),
                                     body.value("method", "GET"));
}

Task<Result<Json>> list_access_requests(Context context, http::Exchange&, std::string) {
  Json all = Json::array();
  for (const AccessRequest& request : context.boundary.access.all())
    all.push_back(to_json(request));
  co_return Json{{"requests", std::move(all)}};
}

Result<Json> close_request(Boundary& boundary, const std::string& id, AccessStatus as,
                           std::string message) {
  const AccessRequest* before = boundary.access.find(id);
  const bool was_pending = before != nullptr && before->is_pending();
  const AccessRequest request = TRY(boundary.access.close(id, as, std::move(message)));
  if (was_pending) put_on_record(boundary.audit, request);
  return to_json(request);
}

// Nobody's word opens it, or nobody is there any more: it is over all the same.
Result<Json> fail_request(Boundary& boundary, const std::string& id, const Error& error) {
  const bool is_gone = error.code == ErrorCode::kNotFound;
  Json json = TRY(close_request(
      boundary, id, is_gone ? AccessStatus::kWithdrawn : AccessStatus::kClosed, error.message));
  if (!is_gone) json["status"] = "failed";
  return json;
}

Task<Result<Json>> close_access_request(Context context, http::Exchange&, std::string word) {
  co_return close_request(context.boundary, word, AccessStatus::kClosed, "");
}

// {"allow", "message"}. What was decided before stands, and is the answer.
Task<Result<Json>> decide_access_request(Context context, http::Exchange& exchange,
                                         std::string word) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  const bool allow = body.at("allow").get<bool>();
  auto message = body.value("message", std::string());
  const AccessRequest* request = context.boundary.access.find(word);
  if (allow && request != nullptr && request->is_pending()) {
    const auto granted = context.attachments.grant(request->sandbox_key,
                                                   {.request = request->id, .wish = request->wish});
    if (!granted) co_return fail_request(context.boundary, word, granted.error());
  }
  co_return close_request(context.boundary, word,
                          allow ? AccessStatus::kAllowed : AccessStatus::kDenied,
                          std::move(message));
}

// ---- the brain's: what the people of its sessions are to be asked

// {"requests": […]}: those that it has not been told as they are; waits while there are none.
Task<> answer_access_news(AccessNews& news, http::Exchange& exchange) {
  co_await news.wait(exchange);
  exchange.respond({.body = dump_json({{"requests", news.list()}}) + "\n"});
}

// {"status", "session"}: it has been told that. An empty session: nobody there is asked.
Task<Result<Json>> note_told(Context context, http::Exchange& exchange, std::string word) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  const auto status = find_access_status(body.at("status").get<std::string>());
  auto session = body.at("session").get<std::string>();
  if (!status || session.size() > kSessionBytesMax)
    co_return wrong_shape("a status and a session are told");
  CO_TRY_VOID(context.boundary.access.tell(word, *status, std::move(session)));
  co_return Json::object();
}

Task<Result<Json>> withdraw_access_request(Context context, http::Exchange& exchange,
                                           std::string word) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  if (context.boundary.access.find(word) == nullptr) co_return Json::object();
  co_return close_request(context.boundary, word, AccessStatus::kWithdrawn,
                          body.value("message", std::string()));
}

// ---- everyone's

// What a role is about to say to the outside, or to keep, without secrets and stubs: an empty
// answer when there are none in it.
Task<> answer_redaction(Context context, http::Exchange& exchange) {
  const auto text = co_await exchange.read_whole_body(kRedactedBytesMax);
  if (!text) {
    exchange.respond(http::error_response(text.error()));
    co_return;
  }
  const std::string_view query = exchange.request().query();
  std::vector<AttachedSandbox*> sandboxes;
  const auto listed = http::find_query(query, "sandboxes");
  if (listed && *listed)
    for (const std::string_view id : split(**listed, ','))
      if (const auto sandbox = context.attachments.find(id)) sandboxes.push_back(sandbox.get());
  const auto more = http::find_query(query, "more");
  auto clean = redact(context.boundary, sandboxes, *text, more && *more);
  if (!clean) {
    exchange.respond(http::error_response(clean.error()));
    co_return;
  }
  http::Response answer{.content_type = "application/octet-stream"};
  if (!clean->names.empty()) {
    answer.body = std::move(clean->text);
    answer.fields.emplace_back("x-pons-redacted", fmt::format("{}", fmt::join(clean->names, ",")));
  }
  if (clean->held > 0) answer.fields.emplace_back("x-pons-held", fmt::format("{}", clean->held));
  exchange.respond(std::move(answer));
}

Task<> refuse_other(http::Exchange& exchange) {
  exchange.respond(http::error_response(403, "denied", "this is for somebody else"));
  co_return;
}

enum class Who : std::uint8_t { kWarden, kBrain, kOperator, kDeciders, kCallers };

bool may_ask(Who who, const std::string& role) {
  switch (who) {
    case Who::kWarden:
      return role == "warden";
    case Who::kBrain:
      return role == "brain";
    case Who::kOperator:
      return role == "operator";
    case Who::kDeciders:  // for people: the brain's, or the one at the command line
      return role == "operator" || role == "brain";
    case Who::kCallers:  // of the API, through the front, which knows whose the sandbox is
      return role == "operator" || role == "front";
  }
  return false;
}

}  // namespace

std::vector<http::Route> egress_routes(Boundary& boundary, Attachments& attachments) {
  const Context context{boundary, attachments};
  const auto carrier = std::make_shared<Carrier>(boundary, attachments);
  const auto news = std::make_shared<AccessNews>(boundary, attachments);
  const auto handler = [context](Who who, Work work) -> http::RouteHandler {
    return
        [context, who, work](http::Exchange& exchange, const http::PathValues& values) -> Task<> {
          if (!may_ask(who, exchange.peer().role)) return refuse_other(exchange);
          return answer(work, context, exchange, values.empty() ? "" : std::string(values.front()));
        };
  };
  return {
      {"PUT", "/sandboxes/{key}", handler(Who::kWarden, attach)},
      {"DELETE", "/sandboxes/{key}", handler(Who::kWarden, detach)},
      {"PUT", "/sandboxes", handler(Who::kWarden, keep_only)},
      {"GET", "/sandboxes", handler(Who::kOperator, list)},
      {"PUT", "/sandboxes/{id}/policy", handler(Who::kCallers, set_policy)},
      {"GET", "/sandboxes/{id}/policy", handler(Who::kCallers, show_policy)},
      {"PUT", "/environments", handler(Who::kOperator, set_environments)},
      {"POST", "/explain", handler(Who::kOperator, explain)},
      {"GET", "/access-requests", handler(Who::kOperator, list_access_requests)},
      {"POST", "/access-requests/{id}/close", handler(Who::kOperator, close_access_request)},
      {"POST", "/access-requests/{id}/decision", handler(Who::kDeciders, decide_access_request)},
      {"POST", "/access-requests/{id}/told", handler(Who::kBrain, note_told)},
      {"POST", "/access-requests/{id}/withdraw", handler(Who::kBrain, withdraw_access_request)},
      {"GET", "/access-news",
       [news](http::Exchange& exchange, const http::PathValues&) {
         if (exchange.peer().role != "brain") return refuse_other(exchange);
         return answer_access_news(*news, exchange);
       }},
      {"POST", "/carry",
       [carrier](http::Exchange& exchange, const http::PathValues&) {
         if (exchange.peer().role != "brain") return refuse_other(exchange);
         return carrier->handle(exchange);
       }},
      {"POST", "/redact", [context](http::Exchange& exchange, const http::PathValues&) {
         return answer_redaction(context, exchange);
       }}};
}

}  // namespace pons::egress
