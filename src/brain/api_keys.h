#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::brain {

// What a key opens. All but the last two unless told otherwise: "read" is for keys that change
// nothing, "admin" opens everything in a project, and the project's keys.
inline constexpr std::array<std::string_view, 7> kScopes = {
    "sandboxes", "agents", "sessions", "models", "mcp", "read", "admin"};
std::vector<std::string> default_scopes();
bool is_scope(std::string_view text);

// How many may be good at the same time, in all projects: the front holds them all.
inline constexpr std::size_t kActiveKeysMax = 10'000;

// The key itself is 40 hexadecimal digits behind a prefix that programs and scanners know. Only the
// SHA-256 of the digits is kept: 160 bits of randomness need no salt and no slow hash.
inline constexpr std::string_view kKeyPrefix = "pons_";

struct ApiKey {
  std::string id;
  std::string project_id;
  std::string name;
  std::string hash;  // 64 hexadecimal digits
  std::vector<std::string> scopes;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> revoked_ms;
  std::string session = {};  // "SESSION WORK": a worker's, for these alone; empty: anybody's
  bool operator==(const ApiKey&) const = default;
};

struct NewApiKey {
  ApiKey key;
  Secret text;  // shown once, known nowhere
};

class ApiKeys {
 public:
  ApiKeys(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  Task<Result<NewApiKey>> create(std::string project_id, std::string name,
                                 std::vector<std::string> scopes);
  // The newest first, revoked ones among them, up to what one read may give. Those of one project,
  // or of all.
  Task<Result<std::vector<ApiKey>>> list(std::optional<std::string> project_id = {});
  Task<Result<std::vector<ApiKey>>> active();
  // kNotFound when there is none, or it is none of that project's; revoking one twice changes
  // nothing.
  Task<Result<void>> revoke(std::string id, std::optional<std::string> project_id = {});

 private:
  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::brain
