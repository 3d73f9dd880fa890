#include "pons/schedule/run.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::schedule {

namespace {

constexpr std::array<std::string_view, 14> kLasting = {
    "environment_archived_error",
    "environment_not_found_error",
    "agent_archived_error",
    "vault_not_found_error",
    "vault_archived_error",
    "file_not_found_error",
    "memory_store_archived_error",
    "skill_not_found_error",
    "session_resource_not_found_error",
    "workspace_archived_error",
    "organization_disabled_error",
    "self_hosted_resources_unsupported_error",
    "mcp_egress_blocked_error",
    "unknown_error",
};
constexpr std::array<std::string_view, 2> kPassing = {"session_rate_limited_error",
                                                      "session_creation_rejected_error"};

}  // namespace

bool pauses_schedule(std::string_view type) {
  return std::ranges::find(kLasting, type) != kLasting.end();
}

bool is_run_error(std::string_view type) {
  return pauses_schedule(type) || std::ranges::find(kPassing, type) != kPassing.end();
}

SessionId session_id_for(std::string_view run) {
  constexpr std::size_t kDigits = 32;
  const std::string digest = sha256_hex(fmt::format("session of {}", run));
  auto id = SessionId::parse(fmt::format("{}_{}", SessionTag::kPrefix, digest.substr(0, kDigits)));
  CHECK(id.has_value());
  return *std::move(id);
}

}  // namespace pons::schedule
