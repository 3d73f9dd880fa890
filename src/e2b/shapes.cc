#include "shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pons/http/error_status.h"

namespace pons::e2b {

namespace {

constexpr const char* kTemplate = "e2b.template";
constexpr const char* kMetadata = "e2b.metadata";
constexpr const char* kNetwork = "e2b.network";
constexpr const char* kCold = "e2b.cold";

std::string label(const sandbox::SandboxInfo& info, const char* name, std::string otherwise) {
  const auto found = info.labels.find(name);
  if (found != info.labels.end()) return found->second;
  return otherwise;
}

Json object_of(const std::string& text) {
  auto json = parse_json(text);
  return json && json->is_object() ? *std::move(json) : Json::object();
}

Json text_or_null(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Templates have no id but their name; what a caller said may carry a tag.
std::string_view name_of(std::string_view template_id) {
  return template_id.substr(0, template_id.rfind(':'));
}

// A sandbox without an end has one in the eyes of the SDKs: they want a time.
std::int64_t ends_at(const sandbox::SandboxInfo& info) {
  constexpr std::int64_t kLongMs = 30LL * 24 * 3600 * 1000;
  if (info.state == sandbox::State::kPaused) return info.used_unix_ms;
  return info.ends_unix_ms.value_or(info.created_unix_ms + kLongMs);
}

std::uint64_t disk_bytes(const sandbox::SandboxInfo& info) {
  return info.limits.disk_bytes > 0 ? info.limits.disk_bytes : info.limits.memory_bytes;
}

}  // namespace

http::Response refusal(int status, std::string_view message) {
  return {.status = status, .body = dump_json({{"code", status}, {"message", message}}) + "\n"};
}

http::Response refusal(const Error& error) {
  http::Response response =
      refusal(http::status_of(error.code), error.message.empty() ? error.step : error.message);
  // The SDKs wait and ask again when they are told so.
  if (error.code == ErrorCode::kLimit || error.code == ErrorCode::kUnavailable)
    response.fields = {{"Retry-After", "1"}};
  return response;
}

http::Response json_response(int status, const Json& body) {
  return {.status = status, .body = dump_json(body) + "\n"};
}

http::Response empty_response() {
  return {.status = 204, .content_type = "", .body = ""};
}

void put_labels(const Particulars& particulars, std::map<std::string, std::string>& labels) {
  labels[kTemplate] = particulars.template_id;
  labels[kMetadata] = particulars.metadata;
  labels[kNetwork] = particulars.network;
  if (particulars.is_cold_after_pause) labels[kCold] = "yes";
}

Particulars read_particulars(const sandbox::SandboxInfo& info) {
  return {.template_id = label(info, kTemplate, info.template_name),
          .metadata = label(info, kMetadata, "{}"),
          .network = label(info, kNetwork, "{}"),
          .is_cold_after_pause = info.labels.contains(kCold)};
}

Json sandbox_json(const sandbox::SandboxInfo& info, std::string_view domain) {
  const Access access = read_labels(info).value_or(Access{});
  Json json{{"sandboxID", info.id},
            {"templateID", read_particulars(info).template_id},
            {"alias", name_of(read_particulars(info).template_id)},
            {"clientID", kClientId},
            {"envdVersion", kEnvdVersion},
            {"domain", text_or_null(domain)}};
  if (!access.access_token.empty()) json["envdAccessToken"] = access.access_token;
  if (!access.traffic_token.empty()) json["trafficAccessToken"] = access.traffic_token;
  return json;
}

Json listed_json(const sandbox::SandboxInfo& info) {
  const Particulars particulars = read_particulars(info);
  return {{"sandboxID", info.id},
          {"templateID", particulars.template_id},
          {"alias", name_of(particulars.template_id)},
          {"clientID", kClientId},
          {"envdVersion", kEnvdVersion},
          {"state", info.state == sandbox::State::kPaused ? "paused" : "running"},
          {"startedAt", rfc3339(info.created_unix_ms)},
          {"endAt", rfc3339(ends_at(info))},
          {"cpuCount", std::max<std::uint32_t>(1, info.limits.cpu_percent / 100)},
          {"memoryMB", info.limits.memory_bytes >> 20},
          {"diskSizeMB", disk_bytes(info) >> 20},
          {"metadata", object_of(particulars.metadata)},
          {"volumeMounts", Json::array()}};
}

Json detail_json(const sandbox::SandboxInfo& info, std::string_view domain, const Json& outward) {
  Json json = sandbox_json(info, domain);
  json.update(listed_json(info));
  if (const auto allowed = outward.find("allowInternetAccess"); allowed != outward.end())
    json["allowInternetAccess"] = *allowed;
  Json network = outward.value("network", Json::object());
  network.update(object_of(read_particulars(info).network));
  if (!network.empty()) json["network"] = std::move(network);
  const Access access = read_labels(info).value_or(Access{});
  json["lifecycle"] = {{"onTimeout", info.limits.pause_at_end ? "pause" : "kill"},
                       {"autoResume", access.auto_resume}};
  return json;
}

}  // namespace pons::e2b
