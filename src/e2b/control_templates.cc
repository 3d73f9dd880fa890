// Templates and snapshots as the SDKs name them: "name" or "name:tag", of the caller's project or
// everyone's.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "control_request.h"
#include "listing.h"
#include "pons/base/id.h"
#include "pons/http/query.h"
#include "shapes.h"

namespace pons::e2b {

namespace {

constexpr std::string_view kTag = ":default";
constexpr std::string_view kDefaultTemplate = "base";
constexpr std::string_view kHostTemplate = "host";
constexpr Duration kTemplatesKept = std::chrono::seconds(1);

// In the warden's names another tag than the usual one stands behind this.
constexpr std::string_view kTagMark = "..";

// The warden's name for what a caller calls NAME, NAME:TAG or PROJECT/NAME:TAG, in any case.
std::string inner_name(std::string_view said, std::string_view project) {
  std::string name(said);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (name.ends_with(kTag)) name.resize(name.size() - kTag.size());
  if (const auto slash = name.find('/');
      slash != std::string::npos && name.substr(0, slash) == project)
    name.erase(0, slash + 1);
  if (const auto colon = name.find(':'); colon != std::string::npos)
    name.replace(colon, 1, kTagMark);
  return name;
}

std::string outer_name(std::string_view inner) {
  const auto mark = inner.find(kTagMark);
  if (mark == std::string_view::npos) return fmt::format("{}{}", inner, kTag);
  return fmt::format("{}:{}", inner.substr(0, mark), inner.substr(mark + kTagMark.size()));
}

// A project's own templates stand beside everyone's under its name.
std::string own_prefix(const Caller& caller) {
  return fmt::format("own.{}.", caller.project);
}

Error no_template(std::string_view name) {
  return make_error(ErrorCode::kNotFound, "find template",
                    fmt::format("template \"{}\" not found", name));
}

}  // namespace

Task<Result<Json>> ControlPlane::Request::read_json() {
  constexpr std::size_t kBodyBytesMax = 1 << 20;
  auto text = co_await exchange.read_whole_body(kBodyBytesMax);
  // Not a limit that one could wait for.
  if (!text && text.error().code == ErrorCode::kLimit) text.error().code = ErrorCode::kInvalid;
  if (!text) co_return std::move(text).error();
  if (text->empty()) co_return Json::object();
  CO_TRY(auto json, parse_json(*text, {.depth = 16, .bytes = kBodyBytesMax}));
  if (!json.is_object())
    co_return make_error(ErrorCode::kInvalid, "read request", "the body is no JSON object");
  co_return std::move(json);
}

Task<Result<void>> ControlPlane::learn_templates() {
  CO_TRY(templates_, co_await provider_.list_templates());
  templates_until_ = loop_.now() + kTemplatesKept;
  co_return {};
}

bool ControlPlane::has_template(std::string_view name) const {
  return std::ranges::find(templates_, name, &sandbox::TemplateInfo::name) != templates_.end();
}

Task<Result<std::string>> ControlPlane::resolve_template(const Caller& caller,
                                                         std::string_view wanted) {
  const std::string name = inner_name(wanted, caller.project);
  // The prefix is not for callers to say: it would open another project's.
  if (name.starts_with("own.")) co_return no_template(wanted);
  const std::string own = own_prefix(caller) + name;
  const bool fresh = loop_.now() < templates_until_;
  const auto known = [&] { return has_template(name) || has_template(own); };
  if (!fresh || (!known() && name != kDefaultTemplate)) {
    CO_TRY_VOID(co_await learn_templates());
  }
  // What a project made under a name is what it means by it, whatever else is called so.
  if (known()) co_return has_template(own) ? own : name;
  // Where nothing was built, the machine's own programs are what there is.
  if (name == kDefaultTemplate) co_return std::string(kHostTemplate);
  co_return no_template(wanted);
}

Task<Result<http::Response>> ControlPlane::snapshot(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  std::string name = "snap-" + random_text(12);
  if (const auto wanted = body.find("name"); wanted != body.end() && wanted->is_string())
    name = inner_name(wanted->get<std::string>(), request.caller.project);
  if (name == kDefaultTemplate || name == kHostTemplate)
    co_return make_error(ErrorCode::kConflict, "snapshot",
                         fmt::format("\"{}\" is a template of this server: choose another name, or "
                                     "a tag of it like {}:mine",
                                     name, name));
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  CO_TRY_VOID(co_await provider_.snapshot(info.id, own_prefix(request.caller) + name));
  templates_until_ = {};
  const std::string id = outer_name(name);
  co_return json_response(201, {{"snapshotID", id}, {"names", Json::array({id})}});
}

Task<Result<http::Response>> ControlPlane::list_snapshots(Request request) {
  const std::string_view query = request.exchange.request().query();
  CO_TRY(const auto of_sandbox, http::find_query(query, "sandboxID"));
  CO_TRY(const auto named, http::find_query(query, "name"));
  CO_TRY_VOID(co_await learn_templates());
  const std::string prefix = own_prefix(request.caller);
  std::map<Place, Json, std::greater<>> listed;
  for (const sandbox::TemplateInfo& info : templates_) {
    if (!info.name.starts_with(prefix)) continue;
    const std::string name = info.name.substr(prefix.size());
    // As the warden says where one comes from.
    if (of_sandbox && info.source != "snapshot of " + *of_sandbox) continue;
    if (named && name != inner_name(*named, request.caller.project)) continue;
    const std::string id = outer_name(name);
    listed.emplace(Place{.created_unix_ms = info.created_unix_ms, .id = name},
                   Json{{"snapshotID", id},
                        {"names", Json::array({id})},
                        {"createdAt", rfc3339(info.created_unix_ms)}});
  }
  co_return page_response(std::move(listed), query);
}

Task<Result<http::Response>> ControlPlane::find_alias(Request request) {
  const auto name = http::percent_decode(request.word);
  if (!name) co_return no_template(request.word);
  CO_TRY(const auto found, co_await resolve_template(request.caller, *name));
  co_return json_response(200, {{"templateID", *name}, {"public", !found.starts_with("own.")}});
}

Task<Result<http::Response>> ControlPlane::remove_template(Request request) {
  const auto decoded = http::percent_decode(request.word);
  if (!decoded) co_return no_template(request.word);
  const std::string own = own_prefix(request.caller) + inner_name(*decoded, request.caller.project);
  CO_TRY_VOID(co_await learn_templates());
  if (!has_template(own)) co_return no_template(*decoded);
  CO_TRY_VOID(co_await provider_.remove_template(own));
  templates_until_ = {};
  co_return empty_response();
}

}  // namespace pons::e2b
