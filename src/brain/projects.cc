#include "projects.h"

#include <fmt/format.h>

#include "pons/base/id.h"

namespace pons::brain {

namespace {

struct ProjectTag {
  static constexpr std::string_view kPrefix = "prj";
};

constexpr std::string_view kColumns =
    "id, name, created, sandboxes_max, sessions_max, requests_per_second_max";

Result<Project> project_of(const store::Row& row) {
  return Project{.id = TRY(store::text_of(row, 0)),
                 .name = TRY(store::text_of(row, 1)),
                 .created_ms = TRY(store::integer_of(row, 2)),
                 .limits = {.sandboxes = TRY(store::optional_integer_of(row, 3)),
                            .sessions = TRY(store::optional_integer_of(row, 4)),
                            .requests_per_second = TRY(store::optional_integer_of(row, 5))}};
}

store::Value value_of(const std::optional<std::int64_t>& limit) {
  return limit ? store::Value(*limit) : store::Value(store::Null{});
}

}  // namespace

std::int64_t wall_ms(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall().time_since_epoch())
      .count();
}

Task<Result<void>> Projects::ensure_default() {
  const std::string name(kDefaultProject);
  CO_TRY_VOID(
      co_await store_.write({{.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $2, $3) "
                                     "ON CONFLICT (id) DO NOTHING",
                              .values = {name, name, wall_ms(clock_)}}}));
  co_return {};
}

Task<Result<Project>> Projects::create(std::string name) {
  Project made{.id = Id<ProjectTag>::generate().text(),
               .name = std::move(name),
               .created_ms = wall_ms(clock_)};
  // The number of rows is looked at in the same statement: two at once cannot pass the limit
  // together.
  auto written = co_await store_.write(
      {{.sql = "INSERT INTO projects (id, name, created) SELECT $1, $2, $3 "
               "WHERE (SELECT count(*) FROM projects) < $4",
        .values = {made.id, made.name, made.created_ms, static_cast<std::int64_t>(kProjectsMax)}}});
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kConflict, "create project",
                         fmt::format("there is a project \"{}\" already", made.name));
  if (!written) co_return written.error();
  if (written->front().changed == 0)
    co_return make_error(ErrorCode::kLimit, "create project",
                         fmt::format("there are {} projects, which is the most", kProjectsMax));
  co_return made;
}

Task<Result<std::vector<Project>>> Projects::list() {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM projects ORDER BY created, id", kColumns),
              .values = {}}));
  std::vector<Project> projects;
  for (const store::Row& row : rows) {
    CO_TRY(auto project, project_of(row));
    projects.push_back(std::move(project));
  }
  co_return projects;
}

Task<Result<Project>> Projects::find(std::string id_or_name) {
  // An id comes before a name: nobody can take over a project by naming another like it.
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM projects WHERE id = $1 OR "
                                                  "name = $1 ORDER BY id <> $1 LIMIT 1",
                                                  kColumns),
                               .values = {id_or_name}}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find project",
                         fmt::format("there is no project \"{}\"", id_or_name));
  co_return project_of(rows.front());
}

Task<Result<Project>> Projects::change_limits(std::string id_or_name, LimitChanges changes) {
  CO_TRY(auto project, co_await find(std::move(id_or_name)));
  ProjectLimits& limits = project.limits;
  limits.sandboxes = changes.sandboxes.value_or(limits.sandboxes);
  limits.sessions = changes.sessions.value_or(limits.sessions);
  limits.requests_per_second = changes.requests_per_second.value_or(limits.requests_per_second);
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE projects SET sandboxes_max = $2, sessions_max = $3, "
               "requests_per_second_max = $4 WHERE id = $1",
        .values = {project.id, value_of(limits.sandboxes), value_of(limits.sessions),
                   value_of(limits.requests_per_second)},
        .must_change = 1}}));
  co_return project;
}

}  // namespace pons::brain
