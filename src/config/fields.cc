#include <fmt/format.h>
#include <fmt/ranges.h>

#include "table.h"

namespace pons::config {

namespace {

constexpr TextRule kListenRule = {
    .what = "a numeric address and a port",
    .example = "127.0.0.1:7600",
    .pattern = R"(^(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]):\d{1,5}$)"};

constexpr TextRule kHarnessRule = {.what = "`native` or the name of a harness",
                                   .example = "opencode",
                                   .pattern = "^[a-z][a-z0-9-]{0,63}$"};
constexpr TextRule kStateDirRule = {
    .what = "an absolute path", .example = "/var/lib/pons", .pattern = "^/+[^/]"};

constexpr TextRule kFileRule = {.what = "an absolute path",
                                .example = "/etc/letsencrypt/live/pons.example.com/fullchain.pem",
                                .pattern = "^$|^/+[^/]"};

constexpr TextRule kHostRule = {
    .what = "a lower-case host name",
    .example = "api.github.com",
    .pattern = R"(^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$)"};

constexpr TextRule kDomainRule = {
    .what = "a lower-case host name, with a port if need be",
    .example = "sandboxes.example.com",
    .pattern =
        R"(^$|^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?(:\d{1,5})?$)"};

constexpr TextRule kOriginsRule = {
    .what = "origins, separated by one space",
    .example = "https://app.example.com http://localhost:3000",
    .pattern = R"(^$|^https?://[a-z0-9.:\[\]-]+( https?://[a-z0-9.:\[\]-]+)*$)"};

constexpr TextRule kEnvironmentNameRule = {
    .what = "lower-case letters, digits and hyphens, beginning with a letter",
    .example = "build",
    .pattern = "^[a-z][a-z0-9-]{0,63}$"};

constexpr TextRule kOptionalNameRule = {
    .what = kEnvironmentNameRule.what, .example = "build", .pattern = "^$|^[a-z][a-z0-9-]{0,63}$"};

constexpr TextRule kCredentialNameRule = {
    .what = "capital letters, digits and underscores, not beginning with a digit",
    .example = "GITHUB_TOKEN",
    .pattern = "^[A-Z_][A-Z0-9_]{0,127}$"};

constexpr TextRule kModelNameRule = {.what = "letters, digits and the signs - . _ : /",
                                     .example = "smart",
                                     .pattern = "^[A-Za-z0-9._:/-]{1,128}$"};

constexpr TextRule kOptionalListenRule = {
    .what = "a numeric address and a port",
    .example = "10.0.0.5:7601",
    .pattern = R"(^$|^(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]):\d{1,5}$)"};

constexpr TextRule kLoopbackRule = {
    .what = "a loopback address and a port",
    .example = "127.0.0.1:9760",
    .pattern = R"(^$|^(127(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]):\d{1,5}$)"};

constexpr TextRule kUrlRule = {.what = "a URL",
                               .example = "https://otlp.example.com",
                               .pattern = R"(^$|^https?://[^/?#@\s][^?#@\s]*$)"};

constexpr TextRule kDatabaseRule = {.what = "the URL of a database",
                                    .example = "postgres://pons@db.example.com/pons",
                                    .pattern = R"(^$|^postgres(ql)?://[^\s]+$)"};

constexpr TextRule kVariableRule = {.what = "the name of an environment variable",
                                    .example = "OTEL_EXPORTER_OTLP_HEADERS",
                                    .pattern = "^$|^[A-Za-z_][A-Za-z0-9_]{0,127}$"};

const Table& log_table() {
  using S = LogConfig;
  static const Table kTable{{
      choice("level", &S::level, {"debug", "info", "warn", "error"},
             "Lines less severe than this are not written."),
      choice("format", &S::format, {"auto", "human", "json"},
             "How a line looks; auto is human text on a terminal and JSON anywhere else."),
      choice("requests", &S::requests, {"none", "failed", "all"},
             "Which requests to the public listener get a line, at level info: never with a key, a "
             "token, a header or a query."),
  }};
  return kTable;
}

const Table& tls_table() {
  using S = TlsConfig;
  static const Table kTable{
      {
          text("certificate", &S::certificate, kFileRule, parse_file_path,
               "A PEM file with the certificate of the public listener and those between it and "
               "its authority.",
               {.default_text = "none: plain HTTP"}),
          text("key", &S::key, kFileRule, parse_file_path,
               "A PEM file with the private key of that certificate, without a passphrase.",
               {.default_text = "none: plain HTTP"}),
          integer("check_seconds", &S::check_seconds, {1, 86'400},
                  "Seconds between two looks at both files; what has been renewed is used from "
                  "then on, without losing a connection."),
      },
      {
          rule<S>("key", "must be given together with certificate",
                  [](const S& s) { return s.certificate.empty() == s.key.empty(); }),
      }};
  return kTable;
}

const Table& limits_table() {
  using S = LimitsConfig;
  static const Table kTable{{
      integer("header_bytes", &S::header_bytes, {1'024, 1'048'576},
              "Bytes the request line and all headers of one request may have together."),
      integer("header_count", &S::header_count, {8, 1'000}, "Headers one request may have."),
      integer("body_bytes", &S::body_bytes, {1'024, 1'073'741'824},
              "Bytes the body of one request may have; files that go into a sandbox are limited by "
              "its disk."),
      integer("connections", &S::connections, {1, 100'000},
              "Connections that may be open at the same time."),
      integer("header_seconds", &S::header_seconds, {1, 300},
              "Seconds a client has to send all headers of a request."),
      integer("idle_seconds", &S::idle_seconds, {1, 3'600},
              "Seconds a connection may stay open between two requests."),
      integer("body_idle_seconds", &S::body_idle_seconds, {1, 3'600},
              "Seconds a client may pause while it sends a body; into a sandbox, an hour."),
  }};
  return kTable;
}

const Table& supervisor_table() {
  using S = SupervisorConfig;
  static const Table kTable{
      {
          integer("drain_seconds", &S::drain_seconds, {1, 60},
                  "Seconds running work gets to finish when Pons stops; then it is ended."),
          integer("restart_delay_ms", &S::restart_delay_ms, {1, 60'000},
                  "Milliseconds before a process that ended is started again; grows with each "
                  "failure."),
          integer("restart_delay_max_ms", &S::restart_delay_max_ms, {1, 600'000},
                  "Milliseconds the growing restart delay never exceeds."),
          integer("start_attempts", &S::start_attempts, {1, 100},
                  "Failed starts in a row after which Pons gives up and stops."),
          integer("ready_seconds", &S::ready_seconds, {1, 600},
                  "Seconds a started process has to report that it is ready."),
      },
      {
          rule<S>("restart_delay_max_ms", "must not be less than restart_delay_ms",
                  [](const S& s) { return s.restart_delay_max_ms >= s.restart_delay_ms; }),
      }};
  return kTable;
}

const Table& confinement_table() {
  using S = ConfinementConfig;
  static const Table kTable{{
      choice("landlock", &S::landlock, {"required", "best_effort"},
             "Whether Pons refuses to start on a kernel without Landlock; best_effort starts with "
             "less protection."),
  }};
  return kTable;
}

// Slower, a disk only seems to hang.
constexpr const char* kOperationsRule = "must be 0 or at least 16";
bool is_rate(std::uint32_t operations) {
  return operations == 0 || operations >= 16;
}

const Table& sandbox_table() {
  using S = SandboxConfig;
  static const Table kTable{
      {
          integer("pool_memory_mb", &S::pool_memory_mb, {0, 65'536},
                  "Megabytes that sandboxes waiting ready may use together."),
          integer("warm_min", &S::warm_min, {0, 1'000},
                  "Sandboxes of each template in use that wait ready even when few are asked for."),
          integer("warm_max", &S::warm_max, {0, 1'000},
                  "Sandboxes of one template that wait ready at most."),
          integer("sandboxes_max", &S::sandboxes_max, {1, 100'000},
                  "Sandboxes that may exist at the same time."),
          integer("memory_mb", &S::memory_mb, {64, 16'777'216},
                  "Megabytes of memory of a sandbox that asks for 0."),
          integer("cpu_percent", &S::cpu_percent, {1, 100'000},
                  "Processor time of a sandbox that asks for 0; 100 is one processor."),
          integer("pids", &S::pids, {8, 1'000'000},
                  "Processes and threads of a sandbox that asks for 0."),
          integer("io_read_mb_per_second", &S::io_read_mb_per_second, {0, 1'000'000},
                  "Megabytes per second read from the disk of a sandbox that asks for 0; 0 here is "
                  "unlimited. On a host that cannot limit it, sandboxes with a disk are refused."),
          integer("io_write_mb_per_second", &S::io_write_mb_per_second, {0, 1'000'000},
                  "Likewise, written to it."),
          integer("io_read_operations_per_second", &S::io_read_operations_per_second,
                  {0, 1'000'000'000}, "Likewise, reads of it."),
          integer("io_write_operations_per_second", &S::io_write_operations_per_second,
                  {0, 1'000'000'000}, "Likewise, writes to it."),
      },
      {
          rule<S>("io_read_operations_per_second", kOperationsRule,
                  [](const S& s) { return is_rate(s.io_read_operations_per_second); }),
          rule<S>("io_write_operations_per_second", kOperationsRule,
                  [](const S& s) { return is_rate(s.io_write_operations_per_second); }),
          rule<S>("warm_max", "must not be less than warm_min",
                  [](const S& s) { return s.warm_max >= s.warm_min; }),
      }};
  return kTable;
}

const Table& gateway_table() {
  using S = GatewayConfig;
  static const Table kTable{{
      text("listen", &S::listen, kOptionalListenRule, parse_optional_listen_address,
           "A second listener, for trusted networks only: plain HTTP, the model endpoints and "
           "nothing else, with keys of `pons keys`.",
           {.default_text = "none"}),
      text("prices", &S::prices, kFileRule, parse_file_path,
           "A JSON file with prices that add to the built-in table or replace entries of it.",
           {.default_text = "none"}),
      choice("unknown_price", &S::unknown_price, {"refused", "dearest"},
             "What becomes of a call to a model without a known price: refused, or counted at the "
             "price of the dearest model known; never free."),
  }};
  return kTable;
}

const Table& metrics_table() {
  using S = MetricsConfig;
  static const Table kTable{{
      text("listen", &S::listen, kLoopbackRule, parse_optional_loopback_address,
           "A listener for Prometheus: plain HTTP, GET /metrics and nothing else, without a key; "
           "on loopback only.",
           {.default_text = "none"}),
  }};
  return kTable;
}

const Table& telemetry_table() {
  using S = TelemetryConfig;
  static const Table kTable{{
      text("otlp_endpoint", &S::otlp_endpoint, kUrlRule, parse_optional_url,
           "Where traces of agents go, one for each turn: a collector that takes OTLP as JSON over "
           "HTTP; /v1/traces is put behind it.",
           {.default_text = "none"}),
      text("otlp_headers_env", &S::otlp_headers_env, kVariableRule, parse_optional_variable,
           "The variable, in the environment of `pons up`, that holds header fields for the "
           "collector as NAME=VALUE,NAME=VALUE.",
           {.default_text = "none"}),
      text("otlp_headers_file", &S::otlp_headers_file, kFileRule, parse_file_path,
           "A file that holds the same.", {.default_text = "none"}),
  }};
  return kTable;
}

const Table& store_table() {
  using S = StoreConfig;
  static const Table kTable{{
      text("postgres", &S::postgres, kDatabaseRule, parse_optional_database,
           "The PostgreSQL database that holds projects, keys, records and sessions; without a "
           "password. TLS is verified unless the URL says otherwise or names this machine.",
           {.default_text = "none: a SQLite file in the state directory"}),
      text("password_env", &S::password_env, kVariableRule, parse_optional_variable,
           "The variable, in the environment of `pons up`, that holds the password for it.",
           {.default_text = "none"}),
      text("password_file", &S::password_file, kFileRule, parse_file_path,
           "A file that holds the same.", {.default_text = "none"}),
      text("authority_file", &S::authority_file, kFileRule, parse_file_path,
           "Certificates, as PEM, one of which the database's certificate must lead to.",
           {.default_text = "those of the system"}),
      choice(
          "others", &S::others, {"refused", "shared"},
          "Other installations of Pons on the same database: refused, or, where each of them says "
          "so, shared with. Sharing is new; docs/operate/postgresql.md says what it does not do "
          "yet."),
  }};
  return kTable;
}

const Table& packages_table() {
  using S = PackagesConfig;
  static const Table kTable{{
      text("network", &S::network, kOptionalNameRule, parse_optional_name,
           "What may be reached while packages of the API's environments are installed: one of "
           "`environments`.",
           {.default_text = "the hosts that this machine's own package managers name"}),
  }};
  return kTable;
}

const Table& credential_table() {
  using S = CredentialConfig;
  static const Table kTable{{
      text("allowed_host", &S::allowed_host, kHostRule, parse_host_name,
           "The only host this credential may be sent to.", {.presence = Presence::kRequired}),
  }};
  return kTable;
}

}  // namespace

const Table& config_table() {
  using S = Config;
  static const Table kTable{{
      text("listen", &S::listen, kListenRule, parse_listen_address,
           "Where the public HTTP listener accepts connections; IPv6 goes in brackets, and port 0 "
           "takes any free one."),
      section("tls", &S::tls, tls_table(), "HTTPS on the public listener."),
      choice("plain_http", &S::plain_http, {"loopback", "anywhere"},
             "Where the public listener may speak HTTP without TLS; any other address than a "
             "loopback one is refused unless this is anywhere, which is meant for a proxy of your "
             "own that ends TLS."),
      text("domain", &S::domain, kDomainRule, parse_domain,
           "What stands behind PORT-ID in the names of sandboxes' ports; its wildcard record leads "
           "to the public listener.",
           {.default_text = "none: any name that leads here will do"}),
      text("allowed_origins", &S::allowed_origins, kOriginsRule, parse_origins,
           "Whose pages a browser may let use the public listener (CORS). They need a key or token "
           "like everybody else. Ports of sandboxes answer for themselves.",
           {.default_text = "none"}),
      text("state_dir", &S::state_dir, kStateDirRule, parse_state_dir,
           "The directory that holds everything Pons keeps.",
           {.default_text = "/var/lib/pons as root, otherwise $XDG_STATE_HOME/pons, or "
                            "~/.local/state/pons where that is not set"}),
      section("log", &S::log, log_table(), "What is written about the running program."),
      section("limits", &S::limits, limits_table(), "What clients of the public listener may use."),
      section("supervisor", &S::supervisor, supervisor_table(),
              "How the processes of Pons are started, restarted and stopped."),
      section("confinement", &S::confinement, confinement_table(),
              "How the processes of Pons are locked in."),
      section("sandbox", &S::sandbox, sandbox_table(),
              "What sandboxes may use, and how many wait ready."),
      text("harness", &S::harness, kHarnessRule, parse_name,
           "The program that drives agents which name none: `native` is Pons itself, `opencode`, "
           "`claude-code`, `codex` and `pi` are brought by `pons harness install`, and `harnesses` "
           "names others."),
      section("gateway", &S::gateway, gateway_table(),
              "How calls to models are taken and counted."),
      section("metrics", &S::metrics, metrics_table(), "Figures for programs that watch."),
      section("telemetry", &S::telemetry, telemetry_table(), "Traces of what agents do."),
      section("store", &S::store, store_table(), "Where everything is kept."),
      section("packages", &S::packages, packages_table(),
              "How packages of the API's environments are installed."),
      named_documents("providers", &S::providers, kEnvironmentNameRule, is_environment_name,
                      "models.md", "Who answers calls to models, by a name of your own."),
      named_documents("models", &S::models, kModelNameRule, is_model_name, "models.md",
                      "What clients may ask for, and which models of which providers are tried."),
      named_documents("agents", &S::agents, kEnvironmentNameRule, is_environment_name, "agents.md",
                      "Who can be given tasks, by name; `default` is there without being named."),
      named_documents("harnesses", &S::harnesses, kEnvironmentNameRule, is_environment_name,
                      "harnesses.md",
                      "Programs of your own that drive agents, by name: how they are started."),
      named_documents("environments", &S::environments, kEnvironmentNameRule, is_environment_name,
                      "network.md",
                      "What sandboxes may reach, by a name that they are created with."),
      named_sections("credentials", &S::credentials, kCredentialNameRule, is_credential_name,
                     credential_table(),
                     "Credentials of agents by the name of their environment variable; the value "
                     "itself never stands here, `pons vault set` takes it."),
  }};
  return kTable;
}

std::string expected_value(const Field& field) {
  struct Describe {
    std::string operator()(const IntegerType& type) const {
      return fmt::format("a whole number from {} to {}", type.range.min, type.range.max);
    }
    std::string operator()(const ChoiceType& type) const {
      return fmt::format("one of {}", fmt::join(type.words, ", "));
    }
    std::string operator()(const TextType& type) const {
      return fmt::format("{} such as {}", type.rule.what, type.rule.example);
    }
    std::string operator()(const SectionType&) const { return "a mapping of keys to values"; }
    std::string operator()(const NamedSectionsType& type) const {
      return fmt::format("a mapping of names such as {} to values", type.name_rule.example);
    }
    std::string operator()(const NamedDocumentsType& type) const {
      return fmt::format("a mapping of names such as {} to mappings", type.name_rule.example);
    }
  };
  return std::visit(Describe{}, field.type);
}

}  // namespace pons::config
