#include "telemetry_settings.h"

#include <fmt/format.h>

#include "pons/gateway/otlp_headers.h"
#include "pons/gateway/settings.h"

namespace pons::cli {

namespace {

// NAME=VALUE,…; empty when there are none.
Result<Secret> read_headers(const config::TelemetryConfig& telemetry) {
  std::string text;
  if (!telemetry.otlp_headers_file.empty()) {
    text = TRY(config::read_substituted_file(telemetry.otlp_headers_file));
  } else if (!telemetry.otlp_headers_env.empty()) {
    auto value = config::read_environment(telemetry.otlp_headers_env);
    if (!value)
      return make_error(ErrorCode::kNotFound, "read OTLP headers",
                        fmt::format("telemetry.otlp_headers_env: the environment has no {}",
                                    telemetry.otlp_headers_env));
    text = std::move(*value);
  } else {
    return Secret();
  }
  Secret secret(std::move(text));
  TRY_VOID(gateway::read_otlp_headers(secret.reveal()));
  return secret;
}

}  // namespace

Result<void> check_telemetry(const config::LoadedConfig& loaded) {
  const std::string& endpoint = loaded.config.telemetry.otlp_endpoint;
  if (endpoint.empty()) return {};
  if (const auto url = gateway::ProviderUrl::parse(endpoint); !url)
    return make_error(
        ErrorCode::kInvalid, "check telemetry",
        fmt::format("{}: telemetry.otlp_endpoint: {}", loaded.file, url.error().message));
  return {};
}

Result<void> prepare_telemetry(const config::LoadedConfig& loaded,
                               supervisor::ForRoles& for_roles) {
  TRY_VOID(check_telemetry(loaded));
  if (loaded.config.telemetry.otlp_endpoint.empty()) return {};
  for_roles.otlp_headers = TRY(read_headers(loaded.config.telemetry));
  for_roles.gateway["otlp_endpoint"] = loaded.config.telemetry.otlp_endpoint;
  for_roles.brain["traces"] = "on";
  return {};
}

}  // namespace pons::cli
