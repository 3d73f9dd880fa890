#include "requests.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api_keys.h"
#include "pons/base/id.h"
#include "pons/base/json.h"

namespace pons::brain {

namespace {

constexpr std::size_t kProjectNameBytesMax = 64;
constexpr std::size_t kNameBytesMax = 100;
constexpr std::size_t kTextBytesMax = 256;
constexpr std::size_t kMetadataBytesMax = 64 * 1024;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read request", std::move(message));
}

Result<Json> parse_body(std::string_view body) {
  return parse_json(body, {.depth = 8, .bytes = kRequestBytesMax});
}

Result<void> check_keys(const Json& json, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) return wrong("an object is expected");
  for (const auto& [key, unused] : json.items())
    if (std::ranges::find(known, key) == known.end())
      return wrong(fmt::format("\"{}\" is not known here", key.substr(0, 64)));
  return {};
}

bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

// One line of text; empty when it may be missing and is.
Result<std::string> text(const Json& json, const char* name, std::size_t bytes_max) {
  const auto found = json.find(name);
  if (found == json.end()) return std::string();
  const auto* value = found->get_ptr<const std::string*>();
  if (value == nullptr || value->size() > bytes_max || !is_printable(*value))
    return wrong(fmt::format("\"{}\" is a line of at most {} bytes", name, bytes_max));
  return *value;
}

Result<std::string> id(const Json& json, const char* name) {
  std::string value = TRY(text(json, name, kTextBytesMax));
  if (!is_id_text(value))
    return wrong(fmt::format("\"{}\" is an id: letters, digits, - and _", name));
  return value;
}

Result<std::int64_t> time(const Json& json, std::int64_t otherwise) {
  const auto found = json.find("at_unix_ms");
  if (found == json.end()) return otherwise;
  constexpr std::uint64_t kYear9999 = 253'402'300'799'999;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kYear9999)
    return wrong("\"at_unix_ms\" counts milliseconds since 1970");
  return static_cast<std::int64_t>(found->get<std::uint64_t>());
}

Result<std::string> metadata(const Json& json) {
  const auto found = json.find("metadata");
  if (found == json.end()) return std::string("{}");
  if (!found->is_object()) return wrong("\"metadata\" is an object");
  std::string dumped = dump_json(*found);
  if (dumped.size() > kMetadataBytesMax)
    return wrong(fmt::format("\"metadata\" has at most {} bytes", kMetadataBytesMax));
  return dumped;
}

Result<SandboxRecord> record(const Json& json, std::int64_t now_ms) {
  TRY_VOID(
      check_keys(json, {"op", "id", "project", "template", "metadata", "reason", "at_unix_ms"}));
  SandboxRecord read;
  const std::string op = TRY(text(json, "op", kTextBytesMax));
  if (op != "create" && op != "end") return wrong("\"op\" is \"create\" or \"end\"");
  read.what = op == "create" ? SandboxRecord::What::kCreate : SandboxRecord::What::kEnd;
  read.id = TRY(id(json, "id"));
  read.project_id = TRY(id(json, "project"));
  read.at_ms = TRY(time(json, now_ms));
  read.sandbox_template = TRY(text(json, "template", kTextBytesMax));
  read.metadata = TRY(metadata(json));
  read.reason = TRY(text(json, "reason", kTextBytesMax));
  return read;
}

}  // namespace

Result<std::string> parse_new_project(std::string_view body) {
  const Json json = TRY(parse_body(body));
  TRY_VOID(check_keys(json, {"name"}));
  std::string name = TRY(text(json, "name", kProjectNameBytesMax));
  if (!is_id_text(name)) return wrong("a project's name has letters, digits, - and _");
  return name;
}

Result<LimitChanges> parse_limits(std::string_view body) {
  constexpr std::uint64_t kLimitMax = 1'000'000'000;
  const Json json = TRY(parse_body(body));
  TRY_VOID(check_keys(json, {"sandboxes", "sessions", "requests_per_second"}));
  const auto change = [&](const char* name) -> Result<std::optional<std::optional<std::int64_t>>> {
    const auto found = json.find(name);
    if (found == json.end()) return std::nullopt;
    if (found->is_null()) return std::optional<std::int64_t>();
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kLimitMax)
      return wrong(
          fmt::format("\"{}\" is a number up to {}, or null for no limit", name, kLimitMax));
    return std::optional(static_cast<std::int64_t>(found->get<std::uint64_t>()));
  };
  return LimitChanges{.sandboxes = TRY(change("sandboxes")),
                      .sessions = TRY(change("sessions")),
                      .requests_per_second = TRY(change("requests_per_second"))};
}

Result<NewKeyRequest> parse_new_key(std::string_view body) {
  const Json json = TRY(parse_body(body));
  TRY_VOID(check_keys(json, {"name", "project", "scopes"}));
  NewKeyRequest request{.name = TRY(text(json, "name", kNameBytesMax)),
                        .project = TRY(text(json, "project", kTextBytesMax)),
                        .scopes = {}};
  if (request.name.empty()) return wrong("a key has a name, by which people tell it from others");
  if (request.project.empty()) request.project = kDefaultProject;
  if (!json.contains("scopes")) {
    request.scopes = default_scopes();
    return request;
  }
  const Json& scopes = json["scopes"];
  if (!scopes.is_array() || scopes.empty() || scopes.size() > kScopes.size())
    return wrong("\"scopes\" is a list that is not empty");
  for (const Json& scope : scopes) {
    const auto* value = scope.get_ptr<const std::string*>();
    if (value == nullptr || !is_scope(*value))
      return wrong(fmt::format("a scope is one of: {}", fmt::join(kScopes, ", ")));
    if (std::ranges::find(request.scopes, *value) == request.scopes.end())
      request.scopes.push_back(*value);
  }
  return request;
}

Result<std::vector<SandboxRecord>> parse_sandbox_records(std::string_view body,
                                                         std::int64_t now_ms) {
  const Json json = TRY(parse_body(body));
  if (!json.is_array() || json.size() > kRecordsMax)
    return wrong(fmt::format("a list of at most {} records is expected", kRecordsMax));
  std::vector<SandboxRecord> records;
  for (const Json& item : json) records.push_back(TRY(record(item, now_ms)));
  return records;
}

}  // namespace pons::brain
