#include "network_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace pons::e2b {

namespace {

constexpr std::size_t kEntriesMax = 256;
constexpr std::size_t kEntryBytesMax = 256;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read network", std::move(message));
}

Result<std::vector<std::string>> read_texts(const Json& options, const char* name) {
  std::vector<std::string> texts;
  const auto list = options.find(name);
  if (list == options.end() || list->is_null()) return texts;
  if (!list->is_array() || list->size() > kEntriesMax)
    return wrong(fmt::format("{} is a list of at most {} texts", name, kEntriesMax));
  for (const Json& entry : *list) {
    if (!entry.is_string() || entry.get_ref<const std::string&>().size() > kEntryBytesMax)
      return wrong(fmt::format("{} has an entry that is no short text", name));
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

bool is_everything(const std::string& range) {
  return range == "0.0.0.0/0" || range == "::/0";
}

// "10.0.0.1/32" is the address itself; the policy knows rules by host, so a wider range has none.
Result<Json> allow_rule(std::string host) {
  if (const auto slash = host.find('/'); slash != std::string::npos) {
    const std::string_view size = std::string_view(host).substr(slash + 1);
    const bool one = size == (host.find(':') == std::string::npos ? "32" : "128");
    if (!one)
      return wrong(fmt::format("allowOut: {} is a range; name hosts or single addresses", host));
    host.resize(slash);
  }
  return Json{{"host", host}};
}

Result<Json> make_policy(const std::vector<std::string>& allow,
                         const std::vector<std::string>& deny, bool internet) {
  const bool closed = !internet || std::ranges::any_of(deny, is_everything);
  Json rules = Json::array();
  for (const std::string& host : allow)
    // Everything is what an open network allows anyway.
    if (!is_everything(host)) rules.push_back(TRY(allow_rule(host)));
  if (std::ranges::any_of(allow, is_everything) && closed)
    return wrong("allowOut of everything and denyOut of everything: leave both out");
  if (closed && rules.empty()) return Json{{"mode", "none"}};
  if (closed) return Json{{"mode", "list"}, {"allow", std::move(rules)}};
  Json policy{{"mode", "public"}};
  if (!deny.empty()) policy["deny"] = deny;
  if (!rules.empty()) policy["allow"] = std::move(rules);
  return policy;
}

Result<void> refuse_unsupported(const Json& options) {
  for (const char* name : {"rules", "egressProxy"}) {
    const auto found = options.find(name);
    if (found != options.end() && !found->is_null() && !found->empty())
      return wrong(fmt::format("network.{} is not offered by this server", name));
  }
  return {};
}

}  // namespace

Result<NetworkOptions> read_network(const Json& body, const Json& options) {
  if (!options.is_object()) return wrong("network is an object");
  TRY_VOID(refuse_unsupported(options));
  bool internet = true;
  Json shown = Json::object();
  if (const auto allowed = body.find("allow_internet_access");
      allowed != body.end() && !allowed->is_null()) {
    if (!allowed->is_boolean()) return wrong("allow_internet_access is true or false");
    internet = allowed->get<bool>();
    shown["allowInternetAccess"] = internet;
  }
  const auto allow = TRY(read_texts(options, "allowOut"));
  const auto deny = TRY(read_texts(options, "denyOut"));
  NetworkOptions network{
      .policy = dump_json(TRY(make_policy(allow, deny, internet))), .shown = {}, .mask_host = {}};
  Json known = Json::object();
  if (!allow.empty()) known["allowOut"] = allow;
  if (!deny.empty()) known["denyOut"] = deny;
  if (const auto open = options.find("allowPublicTraffic");
      open != options.end() && open->is_boolean()) {
    network.traffic_is_public = open->get<bool>();
    known["allowPublicTraffic"] = *open;
  }
  if (const auto mask = options.find("maskRequestHost"); mask != options.end()) {
    if (!mask->is_string() || mask->get_ref<const std::string&>().size() > kEntryBytesMax)
      return wrong("maskRequestHost is a short text");
    network.mask_host = mask->get<std::string>();
    known["maskRequestHost"] = *mask;
  }
  if (!known.empty()) shown["network"] = std::move(known);
  network.shown = dump_json(shown);
  return network;
}

}  // namespace pons::e2b
