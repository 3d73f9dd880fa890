#include <nlohmann/json.hpp>

#include "document_json.h"
#include "environment_shape.h"
#include "pons/managed/package_uses.h"
#include "routes.h"

namespace pons::managed {

namespace {

Reply<Json> show(const Document& environment) {
  Json shown = TRY(show_document(environment, "environment"));
  return shown;
}

// Sets of packages are templates, and there is room for so many.
Task<Reply<void>> check_packages(Objects& objects, std::string project, std::string environment,
                                 const Json& said) {
  const auto set = package_set_of(said);
  if (!set) co_return {};
  const auto checked =
      co_await objects.packages.check_room(std::move(project), std::move(environment), *set);
  if (!checked && checked.error().code == ErrorCode::kLimit)
    co_return bad_request(checked.error().message);
  if (!checked) co_return checked.error();
  co_return {};
}

// By a code of its own, which the SDKs make an exception of.
Reply<void> check_metadata(const Json& before, const Json& body) {
  const auto patched =
      patch_metadata(before, {.value = body, .pointer = {}}, "metadata", EmptyValue::kDeletes);
  if (patched) return {};
  Refusal refusal(patched.error());
  refusal.code = "invalid_metadata";
  return refusal;
}

Task<Reply<Json>> create(Objects& objects, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY_VOID(check_metadata(Json::object(), body));
  CO_TRY(const auto environment, read_new_environment(body));
  CO_TRY_VOID(co_await check_packages(objects, call.caller.project, "", environment));
  CO_TRY(const auto made,
         co_await objects.environments.create(call.caller.project, dump_json(environment),
                                              PackageUses::of_environment));
  if (objects.on_packages) objects.on_packages();
  co_return show(made);
}

Task<Reply<Json>> get(Objects& objects, Call& call) {
  CO_TRY(const auto found, co_await objects.environments.find(call.caller.project, call.ids[0]));
  co_return show(found);
}

bool changes_type(const Json& before, const Json& body) {
  const auto config = body.find("config");
  if (config == body.end() || !config->is_object() || !config->contains("type")) return false;
  return (*config)["type"] != before.at("config").at("type");
}

Task<Reply<Json>> update(Objects& objects, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(const auto before, co_await objects.environments.find(call.caller.project, call.ids[0]));
  if (before.archived_ms) {
    Refusal refusal = is_archived("environment");
    refusal.code = "environment_archived";
    co_return refusal;
  }
  CO_TRY(const auto said, parse_json(before.text));
  if (changes_type(said, body)) {
    Refusal refusal = bad_request("an environment keeps the type that it was made with");
    refusal.code = "invalid_config_type_change";
    co_return refusal;
  }
  CO_TRY_VOID(check_metadata(said.at("metadata"), body));
  CO_TRY(const auto changed, read_changed_environment(said, body));
  if (changed == said) co_return show(before);
  CO_TRY_VOID(co_await check_packages(objects, call.caller.project, call.ids[0], changed));
  CO_TRY(const auto after, co_await objects.environments.replace(before, dump_json(changed),
                                                                 PackageUses::of_environment));
  if (objects.on_packages) objects.on_packages();
  co_return show(after);
}

Task<Reply<Json>> remove(Objects& objects, Call& call) {
  CO_TRY_VOID(co_await objects.environments.remove(call.caller.project, call.ids[0]));
  co_return Json{{"id", call.ids[0]}, {"type", "environment_deleted"}};
}

}  // namespace

std::vector<http::Route> environment_routes(Objects& objects) {
  const auto with = [&objects](auto work) {
    return answering([&objects, work](Call& call) { return work(objects, call); });
  };
  return {{"POST", "/v1/environments", with(create)},
          {"GET", "/v1/environments",
           with([](Objects& o, Call& call) { return list_documents(o.environments, call, show); })},
          {"GET", "/v1/environments/{id}", with(get)},
          {"POST", "/v1/environments/{id}", with(update)},
          {"DELETE", "/v1/environments/{id}", with(remove)},
          {"POST", "/v1/environments/{id}/archive", with([](Objects& o, Call& call) {
             return archive_document(o.environments, call, show);
           })}};
}

}  // namespace pons::managed
