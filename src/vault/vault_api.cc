#include "pons/vault/vault_api.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/api/caller.h"
#include "pons/api/query.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "vault_shape.h"

namespace pons::vault {

namespace {

using api::Call;
using api::Refusal;
using api::Reply;

constexpr std::size_t kBodyBytesMax = 64 * 1024;
constexpr api::PageLimits kPageLimits{.usual = 20, .max = 100};

struct Context {
  ProjectVaults& vaults;
  const Clock& clock;
  Probe probe;
};

VaultPlace place_of(const Call& call) {
  return {.project = call.caller.project, .vault = call.ids[0]};
}

// A full vault stays full however often it is asked; the SDKs would ask again after a 429.
Refusal refusal_of(const Error& error) {
  return error.code == ErrorCode::kLimit ? api::bad_request(error.message) : Refusal(error);
}

template <class Show>
Reply<Json> shown(const Result<VaultRecord>& record, const Show& show) {
  if (!record) return refusal_of(record.error());
  Json json = TRY(show(*record));
  return json;
}

auto credential_of(const Call& call) {
  return
      [vault = call.ids[0]](const VaultRecord& record) { return show_credential(record, vault); };
}

// As call.body(), and the text is wiped.
Task<Reply<Json>> read_body(Call& call) {
  auto text = co_await call.exchange.read_whole_body(kBodyBytesMax);
  if (!text && text.error().code == ErrorCode::kLimit)
    co_return Refusal{413, "invalid_request_error", "the body is too long"};
  if (!text) co_return text.error();
  const Secret wiped(*std::move(text));
  if (wiped.empty()) co_return Json::object();
  auto json = parse_json(wiped.reveal(), {.depth = 16, .bytes = kBodyBytesMax});
  // What a parser complains about, it quotes.
  if (!json || !json->is_object()) co_return api::bad_request("the body must be a JSON object");
  co_return *std::move(json);
}

template <class Show>
Reply<Json> list_of(const Call& call, std::vector<VaultRecord> records, std::string_view list,
                    const Show& show) {
  const auto query = TRY(api::Query::parse(call.exchange.request().query()));
  const bool with_archived = TRY(query.flag("include_archived"));
  const auto wish = TRY(api::read_page(query, list, kPageLimits));
  std::int64_t before = 0;
  if (!wish.after.empty()) before = TRY(api::number_in(wish, 0));
  const auto is_behind = [&](const VaultRecord& record) {
    return wish.after.empty() || record.created_unix_ms < before ||
           (record.created_unix_ms == before && wish.after.size() > 1 && record.id < wish.after[1]);
  };
  Json data = Json::array();
  Json next = nullptr;
  const VaultRecord* last = nullptr;
  for (const VaultRecord& record : records) {
    if ((record.archived_unix_ms && !with_archived) || !is_behind(record)) continue;
    if (static_cast<std::int64_t>(data.size()) == wish.limit) {
      next = api::write_cursor(list, {fmt::format("{}", last->created_unix_ms), last->id});
      break;
    }
    data.push_back(TRY(show(record)));
    last = &record;
  }
  return Json{{"data", std::move(data)}, {"next_page", std::move(next)}};
}

// ---- vaults

Task<Reply<Json>> create(Context& context, Call& call) {
  CO_TRY(const auto body, co_await read_body(call));
  CO_TRY(const auto document, read_new_vault(body));
  co_return shown(context.vaults.create(call.caller.project, dump_json(document)), show_vault);
}

Task<Reply<Json>> list(Context& context, Call& call) {
  co_return list_of(call, context.vaults.list(call.caller.project), "vaults", show_vault);
}

Task<Reply<Json>> get(Context& context, Call& call) {
  co_return shown(context.vaults.find(place_of(call)), show_vault);
}

Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto body, co_await read_body(call));
  CO_TRY(const auto before, context.vaults.find(place_of(call)));
  CO_TRY(const auto known, parse_json(before.document));
  CO_TRY(const auto document, read_changed_vault(known, body));
  co_return shown(context.vaults.update(place_of(call), dump_json(document)), show_vault);
}

Task<Reply<Json>> archive(Context& context, Call& call) {
  co_return shown(context.vaults.archive(place_of(call)), show_vault);
}

Task<Reply<Json>> remove(Context& context, Call& call) {
  CO_TRY_VOID(context.vaults.remove(place_of(call)));
  co_return Json{{"id", call.ids[0]}, {"type", "vault_deleted"}};
}

// ---- credentials

Task<Reply<Json>> create_credential(Context& context, Call& call) {
  CO_TRY(auto body, co_await read_body(call));
  CO_TRY(auto secrets, take_secrets(body));
  CO_TRY(const auto document, read_new_credential(body));
  co_return shown(
      context.vaults.create_credential(place_of(call), dump_json(document), std::move(secrets)),
      credential_of(call));
}

Task<Reply<Json>> list_credentials(Context& context, Call& call) {
  CO_TRY(auto records, context.vaults.list_credentials(place_of(call)));
  co_return list_of(call, std::move(records), "credentials " + call.ids[0], credential_of(call));
}

Task<Reply<Json>> get_credential(Context& context, Call& call) {
  co_return shown(context.vaults.find_credential(place_of(call), call.ids[1]), credential_of(call));
}

Task<Reply<Json>> update_credential(Context& context, Call& call) {
  CO_TRY(auto body, co_await read_body(call));
  CO_TRY(auto secrets, take_secrets(body));
  CO_TRY(const auto before, context.vaults.find_credential(place_of(call), call.ids[1]));
  CO_TRY(const auto known, parse_json(before.document));
  CO_TRY(const auto document, read_changed_credential(known, body));
  co_return shown(context.vaults.update_credential(place_of(call), call.ids[1], dump_json(document),
                                                   std::move(secrets)),
                  credential_of(call));
}

Task<Reply<Json>> archive_credential(Context& context, Call& call) {
  co_return shown(context.vaults.archive_credential(place_of(call), call.ids[1]),
                  credential_of(call));
}

Task<Reply<Json>> remove_credential(Context& context, Call& call) {
  CO_TRY_VOID(context.vaults.remove_credential(place_of(call), call.ids[1]));
  co_return Json{{"id", call.ids[1]}, {"type", "vault_credential_deleted"}};
}

// What a server says about a token that it does not take.
std::string_view verdict_on(const std::optional<ProbeAnswer>& answer) {
  if (!answer) return "unknown";
  if (answer->status >= 200 && answer->status < 300) return "valid";
  return answer->status == 401 || answer->status == 403 ? "invalid" : "unknown";
}

// Null where nothing failed; without an answer where none came.
Json failed_step(const std::optional<ProbeAnswer>& answer) {
  if (verdict_on(answer) == "valid") return nullptr;
  Json response = nullptr;
  if (answer)
    response = {{"status_code", answer->status},
                {"content_type", answer->content_type},
                {"body", answer->body},
                {"body_truncated", answer->is_cut}};
  return {{"method", "initialize"}, {"http_response", std::move(response)}};
}

Task<Reply<Json>> validate(Context& context, Call& call) {
  const VaultPlace place = place_of(call);
  CO_TRY(const auto record, context.vaults.find_credential(place, call.ids[1]));
  CO_TRY(const auto document, parse_json(record.document));
  const Json& auth = document.at("auth");
  if (auth.at("type") != "mcp_oauth")
    co_return api::bad_request("only credentials of the type mcp_oauth are validated");
  if (record.archived_unix_ms) co_return api::is_archived("credential");
  const auto answer = co_await context.probe(place, auth.at("mcp_server_url").get<std::string>());
  const auto now = context.clock.wall().time_since_epoch();
  co_return Json{
      {"type", "vault_credential_validation"},
      {"credential_id", record.id},
      {"vault_id", place.vault},
      {"status", verdict_on(answer)},
      {"has_refresh_token", context.vaults.has_refresh_token(place, record.id)},
      {"mcp_probe", failed_step(answer)},
      {"refresh", nullptr},
      {"validated_at",
       api::write_time(std::chrono::duration_cast<std::chrono::milliseconds>(now).count())}};
}

// ---- the brain's

Task<> answer_brain(const ProjectVaults& vaults, http::Exchange& exchange, VaultPlace place) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for somebody else"));
    co_return;
  }
  const auto record = vaults.find(place);
  if (!record)
    exchange.respond(http::error_response(404, "not_found", "there is no vault of this id"));
  else if (record->archived_unix_ms)
    exchange.respond(http::error_response(409, "conflict", "the vault is archived"));
  else
    exchange.respond({.body = "{}\n"});
}

Task<Reply<Json>> refuse_address(Call&) {
  co_return Refusal{404, "not_found_error", "there is nothing at this address"};
}

}  // namespace

std::vector<http::Route> vault_api(ProjectVaults& vaults, const Clock& clock, Probe probe) {
  const auto context = std::make_shared<Context>(
      Context{.vaults = vaults, .clock = clock, .probe = std::move(probe)});
  const auto with = [context](auto work) {
    return api::answering([context, work](Call& call) { return work(*context, call); });
  };
  return {{"POST", "/v1/vaults", with(create)},
          {"GET", "/v1/vaults", with(list)},
          {"GET", "/v1/vaults/{id}", with(get)},
          {"POST", "/v1/vaults/{id}", with(update)},
          {"DELETE", "/v1/vaults/{id}", with(remove)},
          {"POST", "/v1/vaults/{id}/archive", with(archive)},
          {"POST", "/v1/vaults/{id}/credentials", with(create_credential)},
          {"GET", "/v1/vaults/{id}/credentials", with(list_credentials)},
          {"GET", "/v1/vaults/{id}/credentials/{credential}", with(get_credential)},
          {"POST", "/v1/vaults/{id}/credentials/{credential}", with(update_credential)},
          {"DELETE", "/v1/vaults/{id}/credentials/{credential}", with(remove_credential)},
          {"POST", "/v1/vaults/{id}/credentials/{credential}/archive", with(archive_credential)},
          {"POST", "/v1/vaults/{id}/credentials/{credential}/mcp_oauth_validate", with(validate)},
          // What is left is refused in words that the SDKs understand.
          {"*", "/v1/vaults", api::answering(refuse_address)},
          {"*", "/v1/vaults/{...}", api::answering(refuse_address)},
          {"GET", "/project-vaults/{project}/{id}",
           [&vaults](http::Exchange& exchange, const http::PathValues& values) {
             return answer_brain(vaults, exchange,
                                 {.project = http::percent_decode(values[0]).value_or(""),
                                  .vault = http::percent_decode(values[1]).value_or("")});
           }}};
}

}  // namespace pons::vault
