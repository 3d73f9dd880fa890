#include "pons/gateway/settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/base/text.h"
#include "pons/names/host_name.h"
#include "pons/names/ip_address.h"

namespace pons::gateway {

namespace {

using models::Protocol;

// A provider's words in pons.yaml, and what they stand for.
struct Kind {
  std::string_view name;
  std::vector<Protocol> protocols;
  std::string_view url;
  KeyHeader key_header;
  std::vector<std::string> serves;
};

const std::vector<Kind>& kinds() {
  using enum Protocol;
  static const std::vector<Kind> kKinds = {
      {"anthropic", {kMessages}, "https://api.anthropic.com", KeyHeader::kApiKey, {"claude-*"}},
      {"openai",
       {kResponses, kChat},
       "https://api.openai.com/v1",
       KeyHeader::kBearer,
       {"gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*"}},
      {"openai-compatible", {kChat}, "", KeyHeader::kBearer, {}},
      {"scripted", {kMessages, kChat, kResponses}, "", KeyHeader::kBearer, {}},
  };
  return kKinds;
}

// Takes a sandbox, or its machine, and looks around when it can; without tools, it only speaks.
constexpr std::string_view kDemoScript =
    R"({"answers":[)"
    R"({"when":{"system":"Linux machine of your own","tool_result":"exit code"},"text":"Done. That is )"
    R"(my machine; it is there for as long as this session is. A script answers so far: name a model )"
    R"(of yours."},)"
    R"({"when":{"system":"Linux machine of your own","turn":0},"text":"I will look around on my machine.",)"
    R"("tools":[{"name":"bash","input":{"command":)"
    R"("echo \"Hello from $(hostname), a machine of my own\"; uname -sr; id -un"}}]},)"
    R"({"when":{"tool_result":"exit code"},"text":"Done. I took a sandbox, ran one command in it, and )"
    R"(it is gone again as you read this. A script answers so far: put a model provider under )"
    R"(`providers` in pons.yaml, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, and start Pons again."},)"
    R"({"when":{"tool_result":"sandbox_id"},"tools":[{"name":"sandbox_execute","input":{"command":)"
    R"("echo \"Hello from $(hostname), a machine of my own\"; uname -sr; id -un"}}]},)"
    R"({"when":{"system":"sandbox_provision","turn":0},"text":"I will look around in a sandbox.",)"
    R"("tools":[{"name":"sandbox_provision","input":{"task_description":"look around"}}]},)"
    R"({"text":"This is Pons. No model provider is configured yet, so a script answers. )"
    R"(Put one under `providers` in pons.yaml and its key into the environment of `pons up`."}]})";

Result<Protocol> protocol_of(const JsonPlace& place) {
  const std::string word = TRY(place.text());
  for (const Protocol protocol : {Protocol::kMessages, Protocol::kChat, Protocol::kResponses})
    if (word == models::name_of(protocol)) return protocol;
  return place.refuse("must be messages, chat or responses");
}

Result<const Kind*> kind_of(const JsonPlace& place) {
  const std::string word = TRY(place.text());
  const auto found = std::ranges::find(kinds(), word, &Kind::name);
  if (found != kinds().end()) return &*found;
  return place.refuse("must be anthropic, openai, openai-compatible or scripted");
}

Result<std::vector<std::string>> texts_of(const JsonPlace& place) {
  constexpr std::size_t kEntriesMax = 100;
  if (place.value.is_string()) return std::vector{TRY(place.text())};
  TRY_VOID(place.expect_list(kEntriesMax));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < place.value.size(); ++i) texts.push_back(TRY(place.at(i).text()));
  return texts;
}

Result<void> read_keys(const JsonPlace& place, ProviderSettings& settings) {
  if (place.has("key"))
    return place.at("key").refuse(
        "a key never stands in the configuration; name its variable (key_env) or file (key_file)");
  if (place.has("key_env"))
    for (std::string& name : TRY(texts_of(place.at("key_env"))))
      settings.keys.push_back({.kind = KeySource::Kind::kEnvironment, .name = std::move(name)});
  if (place.has("key_file"))
    for (std::string& path : TRY(texts_of(place.at("key_file")))) {
      if (!path.starts_with('/')) return place.at("key_file").refuse("must be an absolute path");
      settings.keys.push_back({.kind = KeySource::Kind::kFile, .name = std::move(path)});
    }
  return {};
}

Result<Duration> seconds_at(const JsonPlace& place, const char* key, Duration otherwise) {
  constexpr std::uint64_t kLongest = 24ULL * 60 * 60;
  if (!place.has(key)) return otherwise;
  return Duration(std::chrono::seconds(TRY(place.at(key).number(1, kLongest))));
}

Result<void> read_url(const JsonPlace& place, const Kind& kind, ProviderSettings& settings) {
  std::string text(kind.url);
  if (place.has("url")) text = TRY(place.at("url").text());
  if (text.empty()) return place.refuse("\"url\" is missing: where the provider listens");
  auto url = ProviderUrl::parse(text);
  if (!url) return place.at("url").refuse(url.error().message);
  settings.url = std::move(*url);
  return {};
}

Result<ProviderSettings> read_provider(const std::string& name, const JsonPlace& place) {
  TRY_VOID(place.expect_object({"kind", "url", "key", "key_env", "key_file", "protocols", "serves",
                                "authority_file", "proxy", "answers", "concurrent",
                                "first_event_seconds", "next_event_seconds", "whole_seconds"}));
  if (!place.has("kind")) return place.refuse("\"kind\" is missing: which kind of provider it is");
  const Kind& kind = *TRY(kind_of(place.at("kind")));
  ProviderSettings settings{.name = name,
                            .protocols = kind.protocols,
                            .key_header = kind.key_header,
                            .serves = kind.serves};
  if (place.has("protocols")) {
    settings.protocols.clear();
    TRY_VOID(place.at("protocols").expect_list(3));
    for (std::size_t i = 0; i < place.at("protocols").value.size(); ++i)
      settings.protocols.push_back(TRY(protocol_of(place.at("protocols").at(i))));
    if (settings.protocols.empty()) return place.at("protocols").refuse("must name one at least");
  }
  if (place.has("serves")) settings.serves = TRY(texts_of(place.at("serves")));
  if (place.has("authority_file")) {
    settings.authority_file = TRY(place.at("authority_file").text());
    if (!settings.authority_file.starts_with('/'))
      return place.at("authority_file").refuse("must be an absolute path");
  }
  if (place.has("proxy")) {
    settings.proxy = TRY(place.at("proxy").text());
    const auto proxy = ProviderUrl::parse(settings.proxy);
    if (!proxy || proxy->tls) return place.at("proxy").refuse("must be http://host:port");
  }
  constexpr std::uint64_t kConcurrentMax = 100'000;
  if (place.has("concurrent"))
    settings.concurrent = TRY(place.at("concurrent").number(0, kConcurrentMax));
  settings.first_event_time =
      TRY(seconds_at(place, "first_event_seconds", settings.first_event_time));
  settings.next_event_time = TRY(seconds_at(place, "next_event_seconds", settings.next_event_time));
  settings.whole_time = TRY(seconds_at(place, "whole_seconds", settings.whole_time));
  TRY_VOID(read_keys(place, settings));
  if (kind.name == "scripted") {
    if (!place.has("answers")) return place.refuse("\"answers\" is missing: what the script says");
    settings.script = dump_json({{"answers", place.at("answers").value}});
    return settings;
  }
  TRY_VOID(read_url(place, kind, settings));
  return settings;
}

// "provider/model", or an object with more to say.
Result<Deployment> read_deployment(const JsonPlace& place, const ModelSettings& settings) {
  Deployment deployment;
  std::string target;
  if (place.value.is_string()) {
    target = TRY(place.text());
  } else {
    TRY_VOID(place.expect_object({"model", "weight", "context_tokens", "concurrent"}));
    if (!place.has("model")) return place.refuse("\"model\" is missing: PROVIDER/MODEL");
    target = TRY(place.at("model").text());
    constexpr std::uint64_t kWeightMax = 1'000;
    if (place.has("weight"))
      deployment.weight = static_cast<std::uint32_t>(TRY(place.at("weight").number(1, kWeightMax)));
    constexpr std::uint64_t kContextMax = 1'000'000'000;
    if (place.has("context_tokens"))
      deployment.context_tokens =
          static_cast<std::int64_t>(TRY(place.at("context_tokens").number(1, kContextMax)));
    constexpr std::uint64_t kConcurrentMax = 100'000;
    if (place.has("concurrent"))
      deployment.concurrent = TRY(place.at("concurrent").number(0, kConcurrentMax));
  }
  const std::size_t slash = target.find('/');
  if (slash == std::string::npos || slash + 1 == target.size())
    return place.refuse("must be PROVIDER/MODEL");
  deployment.provider = target.substr(0, slash);
  deployment.model = target.substr(slash + 1);
  if (!settings.providers.contains(deployment.provider))
    return place.refuse(fmt::format("there is no provider \"{}\"", deployment.provider));
  return deployment;
}

Result<ModelRoute> read_route(const JsonPlace& place, const ModelSettings& settings) {
  TRY_VOID(place.expect_object({"try", "order"}));
  if (!place.has("try")) return place.refuse("\"try\" is missing: a list of PROVIDER/MODEL");
  ModelRoute route;
  if (place.has("order")) {
    const std::string order = TRY(place.at("order").text());
    if (order != "in_turn" && order != "by_weight")
      return place.at("order").refuse("must be in_turn or by_weight");
    if (order == "by_weight") route.order = ModelRoute::Order::kByWeight;
  }
  constexpr std::size_t kDeploymentsMax = 32;
  const JsonPlace list = place.at("try");
  TRY_VOID(list.expect_list(kDeploymentsMax));
  for (std::size_t i = 0; i < list.value.size(); ++i)
    route.deployments.push_back(TRY(read_deployment(list.at(i), settings)));
  if (route.deployments.empty()) return list.refuse("must name one at least");
  return route;
}

}  // namespace

bool ProviderSettings::speaks(Protocol protocol) const {
  return std::ranges::find(protocols, protocol) != protocols.end();
}

Duration ProviderSettings::longest_silence() const {
  return std::max({first_event_time * kLastPatience, next_event_time, whole_time});
}

Duration ModelSettings::longest_silence() const {
  Duration longest{};
  for (const auto& [name, provider] : providers)
    longest = std::max(longest, provider.longest_silence());
  return longest;
}

Result<ProviderUrl> ProviderUrl::parse(std::string_view text) {
  const auto refuse = [](std::string why) {
    return make_error(ErrorCode::kInvalid, "read provider", std::move(why));
  };
  ProviderUrl url;
  if (text.starts_with("https://")) {
    text.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    text.remove_prefix(7);
    url.tls = false;
    url.port = 80;
  } else {
    return refuse("must begin with https:// or http://");
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F && c != '?' && c != '#'; };
  if (!std::ranges::all_of(url.path, is_plain)) return refuse("its path must be plain");
  std::string_view host = text.substr(0, slash);
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return refuse("a bracket is missing");
    port = host.substr(end + 1);
    host = host.substr(1, end - 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (!port.empty()) {
    const auto number = parse_decimal(port.substr(1));
    if (port.front() != ':' || !number || *number == 0 || *number > 65'535)
      return refuse("its port is no port");
    url.port = static_cast<std::uint16_t>(*number);
  }
  if (const auto address = names::IpAddress::parse(host)) {
    url.host = address->to_text();
    return url;
  }
  url.host = TRY(names::HostName::parse(host)).text();
  return url;
}

std::string ProviderUrl::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

Result<ModelSettings> read_model_settings(const std::map<std::string, std::string>& providers,
                                          const std::map<std::string, std::string>& models) {
  ModelSettings settings;
  for (const auto& [name, text] : providers) {
    const Json document = TRY(parse_json(text));
    settings.providers[name] =
        TRY(read_provider(name, {.value = document, .pointer = "/providers/" + name}));
  }
  if (settings.providers.empty()) {
    settings.providers["demo"] = {
        .name = "demo", .protocols = {Protocol::kMessages}, .script = std::string(kDemoScript)};
    settings.routes["demo"] = {.deployments = {{.provider = "demo", .model = "demo"}}};
  }
  for (const auto& [name, text] : models) {
    const Json document = TRY(parse_json(text));
    settings.routes[name] =
        TRY(read_route({.value = document, .pointer = "/models/" + name}, settings));
  }
  return settings;
}

Result<ModelSettings> read_model_settings(std::string_view both) {
  using Documents = std::map<std::string, std::string>;
  const Json document = TRY(parse_json(both));
  return read_model_settings(document.at("providers").get<Documents>(),
                             document.at("models").get<Documents>());
}

}  // namespace pons::gateway
