#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/result.h"

namespace pons::config {

// Everything an operator can set: one YAML file, every field with a default, so that Config{} is
// what an empty file means. The sentence, range and example of each field stand in fields.cc, from
// which loading, docs/use/configuration.md and docs/use/pons.schema.json are made.

// A numeric address and a port; port 0 asks the kernel for any free one.
struct ListenAddress {
  std::string address = "127.0.0.1";  // IPv6 without brackets
  std::uint16_t port = 7600;

  std::string text() const;  // "127.0.0.1:7600", "[::1]:7600"
  bool operator==(const ListenAddress&) const = default;
};

// kAuto is human text on a terminal and JSON anywhere else.
enum class LogFormatChoice : std::uint8_t { kAuto, kHuman, kJson };

// Which requests to the public listener get a line of log.
enum class LoggedRequests : std::uint8_t { kNone, kFailed, kAll };

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogFormatChoice format = LogFormatChoice::kAuto;
  LoggedRequests requests = LoggedRequests::kAll;
  bool operator==(const LogConfig&) const = default;
};

// TLS of the public listener: PEM files, both or none.
struct TlsConfig {
  std::string certificate;  // the whole chain; absolute path
  std::string key;
  std::uint32_t check_seconds = 60;  // how often the files are looked at for a renewal
  bool is_set() const { return !certificate.empty(); }
  bool operator==(const TlsConfig&) const = default;
};

// kAnywhere is the word that allows the public listener to be plain on the network.
enum class PlainHttpRule : std::uint8_t { kLoopback, kAnywhere };

// What clients of the public listener may use.
struct LimitsConfig {
  std::uint64_t header_bytes = 16'384;
  std::uint32_t header_count = 100;
  std::uint64_t body_bytes = 33'554'432;
  std::uint32_t connections = 1'024;
  std::uint32_t header_seconds = 10;
  std::uint32_t idle_seconds = 60;
  std::uint32_t body_idle_seconds = 30;
  bool operator==(const LimitsConfig&) const = default;
};

struct SupervisorConfig {
  std::uint32_t drain_seconds = 10;
  std::uint32_t restart_delay_ms = 100;
  std::uint32_t restart_delay_max_ms = 10'000;  // never below restart_delay_ms
  std::uint32_t start_attempts = 3;
  std::uint32_t ready_seconds = 30;
  bool operator==(const SupervisorConfig&) const = default;
};

// kBestEffort is the word that allows a kernel without Landlock.
enum class LandlockRule : std::uint8_t { kRequired, kBestEffort };

struct ConfinementConfig {
  LandlockRule landlock = LandlockRule::kRequired;
  bool operator==(const ConfinementConfig&) const = default;
};

// What sandboxes get, and how many wait ready.
struct SandboxConfig {
  std::uint32_t pool_memory_mb = 128;
  std::uint32_t warm_min = 2;
  std::uint32_t warm_max = 128;  // never below warm_min
  std::uint32_t sandboxes_max = 2'000;
  std::uint32_t memory_mb = 512;
  std::uint32_t cpu_percent = 100;
  std::uint32_t pids = 512;
  // Of a sandbox's disk, per second; 0: unlimited.
  std::uint32_t io_read_mb_per_second = 0;
  std::uint32_t io_write_mb_per_second = 0;
  std::uint32_t io_read_operations_per_second = 0;
  std::uint32_t io_write_operations_per_second = 0;
  bool operator==(const SandboxConfig&) const = default;
};

// What a call to a model costs that no price is known for.
enum class UnknownPrice : std::uint8_t { kRefused, kDearest };

struct GatewayConfig {
  std::string listen;  // "address:port" of a listener for trusted networks; empty: none
  std::string prices;  // a JSON file that adds to the built-in table; empty: none
  UnknownPrice unknown_price = UnknownPrice::kRefused;
  bool operator==(const GatewayConfig&) const = default;
};

// For programs that watch.
struct MetricsConfig {
  std::string listen;  // "address:port" on loopback; empty: none
  bool operator==(const MetricsConfig&) const = default;
};

// Where traces of agents go.
struct TelemetryConfig {
  std::string otlp_endpoint;      // a URL; empty: nowhere
  std::string otlp_headers_env;   // variable that holds NAME=VALUE,…; empty: none
  std::string otlp_headers_file;  // the same in a file
  bool operator==(const TelemetryConfig&) const = default;
};

enum class OtherBrains : std::uint8_t { kRefused, kShared };

// Where the brain keeps everything.
struct StoreConfig {
  std::string postgres;        // a URL without a password; empty: SQLite in the state directory
  std::string password_env;    // variable that holds the database's password; empty: none
  std::string password_file;   // the same in a file
  std::string authority_file;  // certificates that the database's must lead to; empty: the system's
  OtherBrains others = OtherBrains::kRefused;  // that use the same database
  bool operator==(const StoreConfig&) const = default;
};

// How the packages that environments of the API name are brought.
struct PackagesConfig {
  std::string network;  // one of `environments`; empty: the hosts of the machine's own managers
  bool operator==(const PackagesConfig&) const = default;
};

// Names where a credential may go. The credential itself is never part of the configuration.
struct CredentialConfig {
  std::string allowed_host;  // a lower-case DNS name; never empty once loaded
  bool operator==(const CredentialConfig&) const = default;
};

// "/var/lib/pons" for root, otherwise below $XDG_STATE_HOME or ~/.local/state.
std::string default_state_dir();

struct Config {
  ListenAddress listen;
  TlsConfig tls;
  PlainHttpRule plain_http = PlainHttpRule::kLoopback;
  std::string domain;                           // of sandboxes' ports; empty: none
  std::string allowed_origins;                  // of pages; separated by one space; empty: none
  std::string state_dir = default_state_dir();  // absolute, no trailing slash
  LogConfig log;
  LimitsConfig limits;
  SupervisorConfig supervisor;
  ConfinementConfig confinement;
  SandboxConfig sandbox;
  std::string harness = "native";  // or the name of one, also of `harnesses`
  GatewayConfig gateway;
  MetricsConfig metrics;
  TelemetryConfig telemetry;
  StoreConfig store;
  PackagesConfig packages;
  std::map<std::string, std::string> providers;     // of models: JSON text
  std::map<std::string, std::string> models;        // what answers to a name: JSON text
  std::map<std::string, std::string> agents;        // who may be talked to: JSON text
  std::map<std::string, std::string> harnesses;     // recipes: JSON text
  std::map<std::string, std::string> environments;  // network policies: JSON text
  std::map<std::string, CredentialConfig> credentials;
  bool operator==(const Config&) const = default;
};

// The gateway's own listener, if there is to be one.
std::optional<ListenAddress> listen_address_of(const GatewayConfig& gateway);
// Likewise, the one for programs that watch.
std::optional<ListenAddress> listen_address_of(const MetricsConfig& metrics);

// The error when keys and tokens would cross a network in the clear and nothing in the
// configuration allows it.
Result<void> check_exposure(const Config& config);

// One thing to say about one place of the file. Line and column count from 1, columns in bytes;
// both are 0 when the file could not be read at all.
struct ConfigIssue {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;  // what is wrong; what to do

  std::string describe() const;  // `pons.yaml:3:5: unknown key "lisen"; did you mean "listen"?`
  bool operator==(const ConfigIssue&) const = default;
};

// Sorted by position, at most kIssuesMax; the last one says how many more there are.
using ConfigErrors = std::vector<ConfigIssue>;
inline constexpr std::size_t kIssuesMax = 20;

struct LoadedConfig {
  Config config;
  std::string file;  // empty: defaults
  bool operator==(const LoadedConfig&) const = default;
};

std::optional<std::string> read_environment(const std::string& name);
// Regular files of at most 64 KiB. Never waits: a pipe or device is refused, not read.
Result<std::string> read_substituted_file(const std::string& path);

// Where ${env:NAME} and ${file:PATH} get their values from.
struct Substitution {
  std::function<std::optional<std::string>(const std::string& name)> environment = read_environment;
  std::function<Result<std::string>(const std::string& path)> file = read_substituted_file;
};

// All errors of the file at once. No message contains a value that came from a substitution.
std::expected<LoadedConfig, ConfigErrors> load_config_file(const std::string& path);

// `file_name` stands in messages, and relative ${file:} paths start in its directory.
std::expected<LoadedConfig, ConfigErrors> load_config_text(std::string_view yaml,
                                                           const std::string& file_name,
                                                           const Substitution& substitution = {});

std::string config_reference_markdown();
std::string config_json_schema();  // draft 2020-12

// The effective values, defaults included. No field holds a secret, so nothing is left out.
Json config_to_json(const Config& config);

}  // namespace pons::config
