#include <nlohmann/json.hpp>

#include "caller_project.h"
#include "package_builds.h"
#include "pons/http/error_status.h"
#include "pons/managed/documents.h"
#include "pons/managed/query.h"
#include "pons/session/tool_text.h"
#include "routes.h"

// How far the packages of an environment are. The API's own shape of environments has no place for
// it.

namespace pons::brain {

namespace {

using managed::Document;

Json time_or_null(std::int64_t ms) {
  return ms == 0 ? Json(nullptr) : Json(managed::write_time(ms));
}

Json describe(const PackageBuilds& builds, const Document& environment,
              const std::optional<managed::PackageSet>& set) {
  if (!set) return {{"environment_id", environment.id}, {"state", "none"}};
  const std::string digest = set->digest();
  const PackageBuilds::Progress progress = builds.progress_of(digest);
  return {{"environment_id", environment.id},
          {"state", name_of(progress.state)},
          {"template", managed::package_template(digest)},
          {"base_template", set->base},
          {"step", progress.step.empty() ? Json(nullptr) : Json(progress.step)},
          {"steps_done", progress.steps_done},
          {"steps", progress.steps},
          {"began_at", time_or_null(progress.began_ms)},
          {"ended_at", time_or_null(progress.ended_ms)},
          {"error", progress.error.empty() ? Json(nullptr) : Json(progress.error)},
          {"output", session::printable(progress.output)}};
}

enum class Work : std::uint8_t { kShow, kBegin };

Task<Result<Json>> do_work(Work work, managed::Documents& environments, PackageBuilds& builds,
                           http::Exchange& exchange, std::string id) {
  CO_TRY(auto project, project_of(exchange));
  const auto environment = co_await environments.find(std::move(project), std::move(id));
  if (!environment && environment.error().status == 404)
    co_return make_error(ErrorCode::kNotFound, "find environment", environment.error().message);
  if (!environment)
    co_return make_error(ErrorCode::kUnavailable, "find environment", environment.error().message);
  CO_TRY(const auto said, parse_json(environment->text));
  const auto set = managed::package_set_of(said);
  if (work == Work::kBegin && environment->archived_ms)
    co_return make_error(ErrorCode::kConflict, "build packages", "the environment is archived");
  if (work == Work::kBegin && set) builds.begin(*set);
  co_return describe(builds, *environment, set);
}

Task<> answer(Work work, managed::Documents& environments, PackageBuilds& builds,
              http::Exchange& exchange, std::string id) {
  const auto done = co_await do_work(work, environments, builds, exchange, std::move(id));
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> package_routes(managed::Documents& environments, PackageBuilds& builds) {
  const auto with = [&environments, &builds](Work work) {
    return
        [&environments, &builds, work](http::Exchange& exchange, const http::PathValues& values) {
          return answer(work, environments, builds, exchange, std::string(values.at(0)));
        };
  };
  return {{"GET", "/environments/{id}/build", with(Work::kShow)},
          {"POST", "/environments/{id}/build", with(Work::kBegin)}};
}

}  // namespace pons::brain
