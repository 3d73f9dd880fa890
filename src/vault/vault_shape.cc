#include "vault_shape.h"

#include <array>

#include <fmt/format.h>

#include "pons/api/query.h"

namespace pons::vault {

namespace {

using api::has_value;
using api::needed_text;
using api::optional_text;
using api::type_of;

constexpr api::TextLimits kDisplayName{.min = 1, .max = 255};
constexpr api::TextLimits kWord{.min = 1, .max = 2'048};
constexpr std::size_t kSecretBytesMax = 16 * 1024;
constexpr std::size_t kHostsMax = 16;

struct SecretMember {
  std::array<const char*, 3> path;  // below "auth"; the last ones may be null
  Secret CredentialSecrets::* secret;
};
constexpr auto kSecretMembers = std::to_array<SecretMember>({
    {{"secret_value", nullptr, nullptr}, &CredentialSecrets::value},
    {{"token", nullptr, nullptr}, &CredentialSecrets::value},
    {{"access_token", nullptr, nullptr}, &CredentialSecrets::value},
    {{"refresh", "refresh_token", nullptr}, &CredentialSecrets::refresh_token},
    {{"refresh", "token_endpoint_auth", "client_secret"}, &CredentialSecrets::client_secret},
});

Json* find_member(Json& auth, const SecretMember& member) {
  Json* at = &auth;
  for (const char* key : member.path) {
    if (key == nullptr) break;
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
  }
  return at;
}

Error wrong(std::string why) {
  return make_error(ErrorCode::kInvalid, "read credential", std::move(why));
}

// take_secrets() has left true where one was.
bool has_secret(const JsonPlace& place, const char* key) {
  return has_value(place, key) && place.value.at(key) == true;
}

Result<void> expect_secret(const JsonPlace& place, const char* key) {
  if (!has_secret(place, key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  return {};
}

Result<void> keep_text(const JsonPlace& place, const char* key, Json& into) {
  if (place.has(key)) into[key] = api::or_null(TRY(optional_text(place, key, kWord)));
  return {};
}

// ---- environment variables

Result<Json> read_networking(const JsonPlace& place) {
  if (TRY(type_of(place, {"unrestricted", "limited"})) == "unrestricted")
    return place.refuse(
        "a secret that may go to every host is safe from none: say \"limited\" and name its hosts");
  TRY_VOID(place.expect_object({"type", "allowed_hosts"}));
  const auto hosts = TRY(api::text_list(place, "allowed_hosts", kHostsMax, {.min = 1, .max = 253}));
  if (hosts.empty()) return place.refuse("\"allowed_hosts\" names 1 to 16 hosts");
  return Json{{"type", "limited"}, {"allowed_hosts", hosts}};
}

Result<Json> read_location(const Json& before, const JsonPlace& place) {
  TRY_VOID(place.expect_object({"header", "body"}));
  const Json location = {
      {"header", TRY(api::flag_or(place, "header", before.at("header").get<bool>()))},
      {"body", TRY(api::flag_or(place, "body", before.at("body").get<bool>()))}};
  if (location["header"] == false && location["body"] == false)
    return place.refuse("a credential is put into headers, into bodies, or both");
  return location;
}

Result<Json> read_variable(Json auth, const JsonPlace& place, bool is_new) {
  TRY_VOID(place.expect_object(
      {"type", "secret_name", "secret_value", "networking", "injection_location"}));
  if (is_new) {
    auth["secret_name"] = TRY(needed_text(place, "secret_name", {.min = 1, .max = 128}));
    TRY_VOID(expect_secret(place, "secret_value"));
    if (!has_value(place, "networking")) return place.refuse("\"networking\" is missing");
    auth["injection_location"] = {{"header", true}, {"body", false}};
  } else if (has_value(place, "secret_name") &&
             place.value.at("secret_name") != auth.at("secret_name")) {
    return place.at("secret_name").refuse("stays what it is; create another credential");
  }
  if (has_value(place, "networking"))
    auth["networking"] = TRY(read_networking(place.at("networking")));
  if (has_value(place, "injection_location"))
    auth["injection_location"] =
        TRY(read_location(auth["injection_location"], place.at("injection_location")));
  return auth;
}

// ---- tokens for MCP servers

Result<void> expect_same_server(const Json& auth, const JsonPlace& place) {
  if (has_value(place, "mcp_server_url") &&
      place.value.at("mcp_server_url") != auth.at("mcp_server_url"))
    return place.at("mcp_server_url").refuse("stays what it is; create another credential");
  return {};
}

Result<Json> read_bearer(Json auth, const JsonPlace& place, bool is_new) {
  TRY_VOID(place.expect_object({"type", "token", "mcp_server_url"}));
  if (!is_new) {
    TRY_VOID(expect_same_server(auth, place));
    return auth;
  }
  TRY_VOID(expect_secret(place, "token"));
  auth["mcp_server_url"] = TRY(needed_text(place, "mcp_server_url", kWord));
  return auth;
}

Result<Json> read_endpoint_auth(const Json& before, const JsonPlace& place) {
  const std::string type =
      TRY(type_of(place, {"none", "client_secret_basic", "client_secret_post"}));
  TRY_VOID(place.expect_object({"type", "client_secret"}));
  if (!before.is_null() && before.at("type") != type)
    return place.at("type").refuse("stays what it is");
  if (type == "none" && has_value(place, "client_secret"))
    return place.at("client_secret").refuse("goes with no secret");
  if (type != "none" && before.is_null()) TRY_VOID(expect_secret(place, "client_secret"));
  return Json{{"type", type}};
}

Result<Json> read_refresh(const Json& before, const JsonPlace& place) {
  TRY_VOID(place.expect_object({"client_id", "refresh_token", "token_endpoint",
                                "token_endpoint_auth", "resource", "scope"}));
  Json refresh = before;
  if (before.is_null()) {
    TRY_VOID(expect_secret(place, "refresh_token"));
    refresh = {{"client_id", TRY(needed_text(place, "client_id", kWord))},
               {"token_endpoint", TRY(needed_text(place, "token_endpoint", kWord))}};
    if (!has_value(place, "token_endpoint_auth"))
      return place.refuse("\"token_endpoint_auth\" is missing");
    TRY_VOID(keep_text(place, "resource", refresh));
  }
  if (has_value(place, "token_endpoint_auth"))
    refresh["token_endpoint_auth"] =
        TRY(read_endpoint_auth(before.is_null() ? Json() : before.at("token_endpoint_auth"),
                               place.at("token_endpoint_auth")));
  TRY_VOID(keep_text(place, "scope", refresh));
  return refresh;
}

Result<Json> read_oauth(Json auth, const JsonPlace& place, bool is_new) {
  TRY_VOID(
      place.expect_object({"type", "access_token", "mcp_server_url", "expires_at", "refresh"}));
  if (is_new) {
    TRY_VOID(expect_secret(place, "access_token"));
    auth["mcp_server_url"] = TRY(needed_text(place, "mcp_server_url", kWord));
    auth["expires_at"] = nullptr;
    auth["refresh"] = nullptr;
  }
  TRY_VOID(expect_same_server(auth, place));
  if (place.has("expires_at")) {
    const auto said = TRY(optional_text(place, "expires_at", {.max = 40}));
    const auto time = said ? api::parse_time(*said) : std::nullopt;
    if (said && !time) return place.at("expires_at").refuse("is a time: 2026-11-15T00:00:00Z");
    auth["expires_at"] = time ? Json(api::write_time(*time)) : Json(nullptr);
  }
  if (has_value(place, "refresh"))
    auth["refresh"] = TRY(read_refresh(auth["refresh"], place.at("refresh")));
  return auth;
}

// ---- both

Result<Json> read_auth(const Json& before, const JsonPlace& place) {
  const std::string type =
      TRY(type_of(place, {"environment_variable", "static_bearer", "mcp_oauth"}));
  const bool is_new = before.is_null();
  if (!is_new && before.at("type") != type)
    return place.at("type").refuse("stays what it is; create another credential");
  const Json auth = is_new ? Json{{"type", type}} : before;
  if (type == "environment_variable") return read_variable(auth, place, is_new);
  if (type == "static_bearer") return read_bearer(auth, place, is_new);
  return read_oauth(auth, place, is_new);
}

Result<Json> show(const VaultRecord& record, const char* type) {
  Json shown = TRY(parse_json(record.document));
  shown["id"] = record.id;
  shown["type"] = type;
  shown["created_at"] = api::write_time(record.created_unix_ms);
  shown["updated_at"] = api::write_time(record.updated_unix_ms);
  shown["archived_at"] =
      record.archived_unix_ms ? Json(api::write_time(*record.archived_unix_ms)) : Json(nullptr);
  return shown;
}

}  // namespace

Result<Json> read_new_vault(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"display_name", "metadata"}));
  return Json{{"display_name", TRY(needed_text(place, "display_name", kDisplayName))},
              {"metadata", TRY(api::read_metadata(place, "metadata"))}};
}

Result<Json> read_changed_vault(const Json& before, const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"display_name", "metadata"}));
  Json after = before;
  if (has_value(place, "display_name"))
    after["display_name"] = TRY(needed_text(place, "display_name", kDisplayName));
  after["metadata"] = TRY(api::patch_metadata(before.at("metadata"), place, "metadata"));
  return after;
}

Result<Json> show_vault(const VaultRecord& record) {
  return show(record, "vault");
}

Result<CredentialSecrets> take_secrets(Json& body) {
  CredentialSecrets secrets;
  const auto auth = body.find("auth");
  if (auth == body.end()) return secrets;
  for (const SecretMember& member : kSecretMembers) {
    Json* found = find_member(*auth, member);
    if (found == nullptr) continue;
    if (!found->is_string()) return wrong("a secret is a text");
    Secret taken(std::move(found->get_ref<std::string&>()));
    *found = true;
    if (taken.empty() || taken.size() > kSecretBytesMax)
      return wrong(fmt::format("a secret has 1 to {} bytes", kSecretBytesMax));
    if (!(secrets.*member.secret).empty()) return wrong("a credential has one value");
    secrets.*member.secret = std::move(taken);
  }
  return secrets;
}

Result<Json> read_new_credential(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"auth", "display_name", "metadata"}));
  if (!has_value(place, "auth")) return place.refuse("\"auth\" is missing");
  return Json{
      {"auth", TRY(read_auth(Json(), place.at("auth")))},
      {"display_name", api::or_null(TRY(optional_text(place, "display_name", kDisplayName)))},
      {"metadata", TRY(api::read_metadata(place, "metadata"))}};
}

Result<Json> read_changed_credential(const Json& before, const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"auth", "display_name", "metadata"}));
  Json after = before;
  if (has_value(place, "auth")) after["auth"] = TRY(read_auth(before.at("auth"), place.at("auth")));
  if (place.has("display_name"))
    after["display_name"] = api::or_null(TRY(optional_text(place, "display_name", kDisplayName)));
  after["metadata"] = TRY(api::patch_metadata(before.at("metadata"), place, "metadata"));
  return after;
}

Result<Json> show_credential(const VaultRecord& record, std::string_view vault) {
  Json shown = TRY(show(record, "vault_credential"));
  shown["vault_id"] = vault;
  return shown;
}

}  // namespace pons::vault
