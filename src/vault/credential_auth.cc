#include "pons/vault/credential_auth.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "host_rules.h"
#include "pons/base/text.h"
#include "pons/vault/credential.h"

namespace pons::vault {

namespace {

constexpr std::size_t kUrlBytesMax = 2'048;
constexpr std::string_view kScheme = "https://";

Error wrong(std::string why) {
  return make_error(ErrorCode::kInvalid, "read credential", std::move(why));
}

struct Server {
  std::string host;
  std::uint64_t port = 443;
  std::string path;
};

Result<Server> take_apart(std::string_view url) {
  if (url.size() > kUrlBytesMax || !url.starts_with(kScheme))
    return wrong("mcp_server_url begins with https://: a token travels on no other line");
  url.remove_prefix(kScheme.size());
  const bool is_plain =
      std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7F && c != '@' && c != '#'; });
  if (!is_plain) return wrong("mcp_server_url is no plain URL");
  const std::size_t end = std::min(url.find_first_of("/?"), url.size());
  std::string_view host = url.substr(0, end);
  Server server;
  if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    const auto port = parse_decimal(host.substr(colon + 1));
    if (!port || *port == 0 || *port > 65'535)
      return wrong("mcp_server_url has a port that is none");
    server.port = *port;
    host = host.substr(0, colon);
  }
  server.host = TRY(parse_host_pattern(host));
  if (server.host.starts_with('*')) return wrong("mcp_server_url names one host");
  server.path = url.substr(end, std::min(url.find('?'), url.size()) - end);
  while (server.path.ends_with('/')) server.path.pop_back();
  return server;
}

// In any header, also inside HTTP's Basic scheme; in a body where that was asked for.
Result<std::vector<Binding>> bindings_of(const Json& auth) {
  const Json& networking = auth.at("networking");
  const Json& location = auth.at("injection_location");
  std::vector<Binding> bindings;
  const auto add = [&](Json binding) -> Result<void> {
    bindings.push_back(TRY(parse_binding(binding)));
    return {};
  };
  for (const Json& host : networking.at("allowed_hosts")) {
    if (location.at("header").get<bool>()) {
      TRY_VOID(add({{"host", host}, {"name", "*"}}));
      for (const char* format : {"Basic *:{}", "Basic {}:*"})
        TRY_VOID(add({{"host", host}, {"name", "authorization"}, {"format", format}}));
    }
    if (location.at("body").get<bool>()) TRY_VOID(add({{"host", host}, {"position", "body"}}));
  }
  return bindings;
}

Result<CredentialUse> for_sandboxes(const Json& auth) {
  CredentialUse use{.name = auth.at("secret_name").get<std::string>(),
                    .bindings = TRY(bindings_of(auth))};
  if (!is_credential_name(use.name) || use.name.starts_with(kNotForSandboxes))
    return wrong("secret_name is that of an environment variable: A-Z, 0-9 and _, at most 128");
  return use;
}

Result<CredentialUse> for_server(const Json& auth) {
  const auto url = auth.at("mcp_server_url").get<std::string>();
  const Server server = TRY(take_apart(url));
  return CredentialUse{
      .bindings = {TRY(parse_binding(Json{{"host", server.host}, {"ports", {server.port}}}))},
      .server = TRY(canonical_server(url))};
}

}  // namespace

Result<CredentialUse> use_of(const Json& auth) {
  try {
    return auth.at("type") == "environment_variable" ? for_sandboxes(auth) : for_server(auth);
  } catch (const Json::exception&) {
    return wrong("\"auth\" has another shape");
  }
}

Result<std::string> canonical_server(std::string_view url) {
  const Server server = TRY(take_apart(url));
  return fmt::format("{}{}:{}{}", kScheme, server.host, server.port, server.path);
}

}  // namespace pons::vault
