#include "network_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace pons::e2b {

namespace {

constexpr std::size_t kEntriesMax = 256;
constexpr std::size_t kEntryBytesMax = 256;
constexpr const char* kNote = "note";

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read network", std::move(message));
}

bool is_there(const Json& options, const char* name) {
  const auto found = options.find(name);
  return found != options.end() && !found->is_null();
}

Result<std::vector<std::string>> read_texts(const Json& options, const char* name) {
  std::vector<std::string> texts;
  if (!is_there(options, name)) return texts;
  const Json& list = options[name];
  if (!list.is_array() || list.size() > kEntriesMax)
    return wrong(fmt::format("{} is a list of at most {} texts", name, kEntriesMax));
  for (const Json& entry : list) {
    if (!entry.is_string() || entry.get_ref<const std::string&>().size() > kEntryBytesMax)
      return wrong(fmt::format("{} has an entry that is no short text", name));
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

bool is_everything(const std::string& range) {
  return range == "0.0.0.0/0" || range == "::/0";
}

// What is allowed is so whatever is denied; nothing ever opens an address that is not public.
Json make_policy(const std::vector<std::string>& allow, const std::vector<std::string>& deny,
                 bool internet) {
  const bool all_allowed = std::ranges::any_of(allow, is_everything);
  const bool closed = (!internet || std::ranges::any_of(deny, is_everything)) && !all_allowed;
  Json rules = Json::array();
  Json ranges = Json::array();
  for (const std::string& host : allow) {
    if (is_everything(host)) continue;
    if (host.find('/') == std::string::npos)
      rules.push_back({{"host", host}});
    else
      ranges.push_back(host);
  }
  if (closed && rules.empty() && ranges.empty()) return Json{{"mode", "none"}};
  Json policy{{"mode", closed ? "list" : "public"}};
  if (!rules.empty()) policy["allow"] = std::move(rules);
  if (!ranges.empty()) policy["allow_ranges"] = std::move(ranges);
  if (closed || all_allowed || deny.empty()) return policy;
  policy["deny"] = deny;
  policy["prefer"] = "allow";
  return policy;
}

Result<Json> read_transform(const std::string& host, const Json& rule) {
  if (!rule.is_object()) return wrong(fmt::format("rules.{} has an entry that is no rule", host));
  if (!is_there(rule, "transform")) return Json::object();
  const Json& transform = rule["transform"];
  if (!transform.is_object()) return wrong(fmt::format("rules.{}: transform is an object", host));
  if (!is_there(transform, "headers")) return Json::object();
  const Json& headers = transform["headers"];
  if (!headers.is_object() ||
      !std::ranges::all_of(headers, [](const Json& value) { return value.is_string(); }))
    return wrong(fmt::format("rules.{}: headers are an object of texts", host));
  return headers;
}

// {host: [{"transform": {"headers": {name: value}}}]}, as fields that egress sets.
Result<Json> read_rules(const Json& options) {
  Json fields = Json::array();
  if (!is_there(options, "rules")) return fields;
  const Json& rules = options["rules"];
  if (!rules.is_object()) return wrong("rules is an object of hosts");
  for (const auto& [host, list] : rules.items()) {
    if (!list.is_array()) return wrong(fmt::format("rules.{} is a list", host));
    const std::size_t before = fields.size();
    for (const Json& rule : list) {
      Json headers = TRY(read_transform(host, rule));
      if (headers.empty()) continue;
      fields.push_back({{"host", host}, {"set", std::move(headers)}});
    }
    // That a host has rules keeps those of wildcards away from it.
    if (fields.size() == before) fields.push_back({{"host", host}, {"set", Json::object()}});
  }
  if (fields.size() > kEntriesMax) return wrong(fmt::format("more than {} rules", kEntriesMax));
  return fields;
}

Result<void> read_inward(const Json& options, NetworkOptions& network) {
  Json inward = Json::object();
  if (is_there(options, "allowPublicTraffic")) {
    if (!options["allowPublicTraffic"].is_boolean())
      return wrong("allowPublicTraffic is true or false");
    network.traffic_is_public = options["allowPublicTraffic"].get<bool>();
    inward["allowPublicTraffic"] = network.traffic_is_public;
  }
  if (is_there(options, "maskRequestHost")) {
    const Json& mask = options["maskRequestHost"];
    if (!mask.is_string() || mask.get_ref<const std::string&>().size() > kEntryBytesMax)
      return wrong("maskRequestHost is a short text");
    network.mask_host = mask.get<std::string>();
    inward["maskRequestHost"] = mask;
  }
  network.inward = dump_json(inward);
  return {};
}

Result<void> refuse_unsupported(const Json& options) {
  for (const char* name : {"egressProxy", "httpsPorts"})
    if (is_there(options, name) && !options[name].empty())
      return wrong(fmt::format("network.{} is not offered by this server", name));
  return {};
}

}  // namespace

Result<NetworkOptions> read_network(const Json& body, const Json& options,
                                    std::string_view project) {
  if (!options.is_object()) return wrong("network is an object");
  TRY_VOID(refuse_unsupported(options));
  bool internet = true;
  Json words = Json::object();
  if (is_there(body, "allow_internet_access")) {
    const Json& allowed = body["allow_internet_access"];
    if (!allowed.is_boolean()) return wrong("allow_internet_access is true or false");
    internet = allowed.get<bool>();
    words["allowInternetAccess"] = internet;
  }
  const auto allow = TRY(read_texts(options, "allowOut"));
  const auto deny = TRY(read_texts(options, "denyOut"));
  Json policy = make_policy(allow, deny, internet);
  if (Json fields = TRY(read_rules(options)); !fields.empty()) {
    policy["fields"] = std::move(fields);
  }
  policy["project"] = project;  // whose secrets are looked for in what hosts answer
  for (const char* name : {"allowOut", "denyOut", "rules"})
    if (is_there(options, name)) words["network"][name] = options[name];
  if (!words.empty()) policy[kNote] = dump_json(words);
  NetworkOptions network{.policy = dump_json(policy), .mask_host = {}};
  TRY_VOID(read_inward(options, network));
  return network;
}

Json words_of(const std::string& policy) {
  const auto json = parse_json(policy);
  if (!json || !json->is_object() || !json->contains(kNote) || !(*json)[kNote].is_string())
    return Json::object();
  auto words = parse_json((*json)[kNote].get_ref<const std::string&>());
  return words && words->is_object() ? *std::move(words) : Json::object();
}

}  // namespace pons::e2b
