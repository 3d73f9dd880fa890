#pragma once

#include <string_view>

#include "pons/schedule/deployment.h"
#include "pons/schedule/run.h"
#include "pons/store/store.h"

// Rows of the tables as values, and back.

namespace pons::schedule {

inline store::Value or_null(const std::optional<std::string>& text) {
  return text ? store::Value(*text) : store::Value(store::Null());
}
inline store::Value or_null(const std::optional<std::int64_t>& number) {
  return number ? store::Value(*number) : store::Value(store::Null());
}
Result<std::optional<std::string>> optional_text_of(const store::Row& row, std::size_t column);

std::string_view name_of(Missed missed);

// A deployment, and what only the scheduler knows.
struct StoredDeployment {
  Deployment shown;
  std::optional<std::int64_t> next_ms = std::nullopt;
  std::optional<std::int64_t> due_ms = std::nullopt;
  std::int64_t revision =
      1;  // every change makes another: nobody writes over what they did not see
};

extern const std::string_view kDeploymentColumns;
extern const std::string_view kTickColumns;  // without what only a session is made of
Result<StoredDeployment> deployment_of(const store::Row& row);
store::Statement insert_deployment(const StoredDeployment& stored, const std::string& agent_id,
                                   std::int64_t most_of_project);
// All that may change; refused as kConflict when it is not of `stored.revision` any more.
store::Statement update_deployment(const StoredDeployment& stored, const std::string& agent_id);

extern const std::string_view kRunColumns;
Result<Run> run_of(const store::Row& row);

}  // namespace pons::schedule
