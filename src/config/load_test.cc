#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "pons/config/config.h"
#include "values.h"

namespace pons::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LoadedConfig loaded(std::string_view yaml) {
  auto result = load_config_text(yaml, "pons.yaml");
  EXPECT_TRUE(result) << (result ? "" : result.error().at(0).describe());
  return result ? *std::move(result) : LoadedConfig{};
}

// What a person sees: one line per error, or "accepted".
std::vector<std::string> errors(std::string_view yaml) {
  const auto result = load_config_text(yaml, "pons.yaml");
  if (result) return {"accepted"};
  std::vector<std::string> lines;
  for (const ConfigIssue& issue : result.error()) lines.push_back(issue.describe());
  return lines;
}

std::string first_error(std::string_view yaml) {
  return errors(yaml).at(0);
}

TEST(Config, EmptyFileMeansTheDefaults) {
  for (const char* text : {"", "# nothing\n", "{}", "log: {}\n", "credentials: {}\n"})
    EXPECT_EQ(loaded(text).config, Config{}) << text;
  EXPECT_EQ(loaded("").file, "pons.yaml");
}

TEST(Config, DefaultsAreTheDocumentedOnes) {
  const Config config;
  EXPECT_EQ(config.listen.text(), "127.0.0.1:7600");
  EXPECT_EQ(config.log.level, LogLevel::kInfo);
  EXPECT_EQ(config.log.format, LogFormatChoice::kAuto);
  EXPECT_EQ(config.limits.body_bytes, 33'554'432u);
  EXPECT_EQ(config.supervisor.drain_seconds, 10u);
  EXPECT_EQ(config.confinement.landlock, LandlockRule::kRequired);
  EXPECT_EQ(config.harness, "native");
  EXPECT_TRUE(config.credentials.empty());
}

TEST(Config, EveryFieldReachesItsMember) {
  const Config config = loaded(R"(
listen: "[::1]:0"
state_dir: /srv//pons/
log: {level: debug, format: json, requests: failed}
tls: {certificate: /a//c.pem, key: /a/k.pem, check_seconds: 9}
plain_http: anywhere
limits:
  header_bytes: 2048
  header_count: 11
  body_bytes: 4096
  connections: 12
  header_seconds: 13
  idle_seconds: 14
  body_idle_seconds: 15
supervisor:
  drain_seconds: 16
  restart_delay_ms: 17
  restart_delay_max_ms: 18
  start_attempts: 19
  ready_seconds: 20
confinement: {landlock: best_effort}
sandbox: {pool_memory_mb: 21, warm_min: 22, warm_max: 23, sandboxes_max: 24, memory_mb: 125, cpu_percent: 26, pids: 27,
  io_read_mb_per_second: 28, io_write_mb_per_second: 29, io_read_operations_per_second: 30, io_write_operations_per_second: 31}
harness: claude-code
domain: sbx.example:8443
allowed_origins: https://app.example.com http://localhost:3000
credentials:
  GITHUB_TOKEN: {allowed_host: api.github.com}
  _X9: {allowed_host: a.b-c.example}
)")
                            .config;
  const Config expected{
      .listen = {"::1", 0},
      .tls = {"/a/c.pem", "/a/k.pem", 9},
      .plain_http = PlainHttpRule::kAnywhere,
      .domain = "sbx.example:8443",
      .allowed_origins = "https://app.example.com http://localhost:3000",
      .state_dir = "/srv/pons",
      .log = {LogLevel::kDebug, LogFormatChoice::kJson, LoggedRequests::kFailed},
      .limits = {2048, 11, 4096, 12, 13, 14, 15},
      .supervisor = {16, 17, 18, 19, 20},
      .confinement = {LandlockRule::kBestEffort},
      .sandbox = {21, 22, 23, 24, 125, 26, 27, 28, 29, 30, 31},
      .harness = "claude-code",
      .credentials = {{"GITHUB_TOKEN", {"api.github.com"}}, {"_X9", {"a.b-c.example"}}}};
  EXPECT_EQ(config, expected);
}

TEST(Config, EveryWordMeansItsEnumerator) {
  EXPECT_EQ(loaded("log: {level: info, format: auto}").config.log, LogConfig{});
  EXPECT_EQ(loaded("log: {level: warn}").config.log.level, LogLevel::kWarn);
  EXPECT_EQ(loaded("log: {level: error}").config.log.level, LogLevel::kError);
  EXPECT_EQ(loaded("log: {format: human}").config.log.format, LogFormatChoice::kHuman);
  EXPECT_EQ(loaded("confinement: {landlock: required}").config.confinement.landlock,
            LandlockRule::kRequired);
}

TEST(Config, CertificateAndKeyComeTogether) {
  EXPECT_THAT(first_error("tls: {key: /k}"), HasSubstr("tls.key must be given together"));
  EXPECT_THAT(first_error("tls: {certificate: /c}"), HasSubstr("tls.key must be given together"));
  EXPECT_THAT(first_error("tls: {certificate: c, key: /k}"), HasSubstr("start the path with /"));
  EXPECT_FALSE(loaded("").config.tls.is_set());
}

TEST(Config, ADiskThatOnlySeemsToHangIsNoLimit) {
  EXPECT_THAT(first_error("sandbox: {io_read_operations_per_second: 15}"),
              HasSubstr("io_read_operations_per_second must be 0 or at least 16"));
  EXPECT_THAT(first_error("sandbox: {io_write_operations_per_second: 1}"),
              HasSubstr("io_write_operations_per_second must be 0 or at least 16"));
  EXPECT_EQ(loaded("sandbox: {io_read_operations_per_second: 16}")
                .config.sandbox.io_read_operations_per_second,
            16U);
}

TEST(Config, PlainHttpStaysOnLoopbackUnlessTheWordIsThere) {
  const auto is_allowed = [](const char* yaml) {
    return check_exposure(loaded(yaml).config).has_value();
  };
  EXPECT_TRUE(is_allowed(""));
  EXPECT_TRUE(is_allowed("listen: 127.9.9.9:1"));
  EXPECT_TRUE(is_allowed("listen: '[::1]:1'"));
  for (const char* yaml : {"listen: 0.0.0.0:1", "listen: 10.0.0.1:1", "listen: '[::]:1'",
                           "listen: '[::ffff:127.0.0.1]:1'", "listen: 128.0.0.1:1"})
    EXPECT_FALSE(is_allowed(yaml)) << yaml;
  EXPECT_TRUE(is_allowed("{listen: 0.0.0.0:1, plain_http: anywhere}"));
  EXPECT_TRUE(is_allowed("{listen: 0.0.0.0:1, tls: {certificate: /c, key: /k}}"));
}

TEST(Config, FiguresAreShownOnLoopbackOnly) {
  EXPECT_EQ(loaded("metrics: {listen: 127.0.0.1:9760}").config.metrics.listen, "127.0.0.1:9760");
  EXPECT_EQ(loaded("metrics: {listen: '[::1]:0'}").config.metrics.listen, "[::1]:0");
  for (const char* address : {"0.0.0.0:1", "10.0.0.1:1", "'[::]:1'", "128.0.0.1:1"})
    EXPECT_FALSE(load_config_text(fmt::format("metrics: {{listen: {}}}", address), "pons.yaml"))
        << address;
}

TEST(Config, TracesGoToAPlainUrl) {
  EXPECT_EQ(loaded("telemetry: {otlp_endpoint: 'http://127.0.0.1:4318/x'}")
                .config.telemetry.otlp_endpoint,
            "http://127.0.0.1:4318/x");
  for (const char* url : {"ftp://x", "http://", "http:///x", "https://user:pw@x.example",
                          "https://x.example/?key=1", "https://x.example/a b"})
    EXPECT_FALSE(
        load_config_text(fmt::format("telemetry: {{otlp_endpoint: '{}'}}", url), "pons.yaml"))
        << url;
}

TEST(Config, HarnessSnippetLoadsAsItStands) {
  const LoadedConfig result = loaded("harness: opencode");
  EXPECT_EQ(result.config.harness, "opencode");
  EXPECT_EQ(loaded("harness: mine").config.harness, "mine");
}

TEST(Config, CredentialsSnippetLoadsAsItStands) {
  const LoadedConfig result = loaded("credentials: {GITHUB_TOKEN: {allowed_host: api.github.com}}");
  EXPECT_EQ(result.config.credentials.at("GITHUB_TOKEN").allowed_host, "api.github.com");
}

TEST(Config, EnvironmentsAreKeptAsDocuments) {
  const LoadedConfig result = loaded(
      "environments: {web: {mode: list, allow: [{host: a.example, ports: [443], inspect: true}]}}");
  EXPECT_EQ(result.config.environments.at("web"),
            R"({"mode":"list","allow":[{"host":"a.example","ports":[443],"inspect":true}]})");
  EXPECT_FALSE(load_config_text("environments: {Web: {mode: none}}", "pons.yaml"));
  EXPECT_FALSE(load_config_text("environments: {web: none}", "pons.yaml"));
}

TEST(Config, UnknownKeyIsAnErrorWithTheNearestKeyOfItsLevel) {
  EXPECT_EQ(first_error("\nlisen: 127.0.0.1:1\n"),
            "pons.yaml:2:1: unknown key \"lisen\"; did you mean \"listen\"?");
  EXPECT_EQ(first_error("log:\n  levl: info\n"),
            "pons.yaml:2:3: unknown key \"levl\" in log; did you mean \"level\"?");
  EXPECT_EQ(first_error("confinement: {listen: x}"),
            "pons.yaml:1:15: unknown key \"listen\" in confinement; the keys here are landlock");
  EXPECT_THAT(errors("credentials: {A: {allowed_hosts: a.b}}"),
              ElementsAre(HasSubstr("credentials.A needs allowed_host"),
                          HasSubstr("unknown key \"allowed_hosts\" in credentials.A; did you mean "
                                    "\"allowed_host\"?")));
  EXPECT_THAT(first_error("<<: {listen: x}"), HasSubstr("unknown key \"<<\""));
}

TEST(Config, AllErrorsAreReportedInTheOrderOfTheFile) {
  EXPECT_THAT(errors("log: {level: loud}\n"
                     "listen: 5\n"
                     "log: {}\n"
                     "limits:\n"
                     "  connections: 0\n"
                     "  nonsense_here: 1\n"),
              ElementsAre(HasSubstr("pons.yaml:1:14: log.level: expected one of"),
                          HasSubstr("pons.yaml:2:9: listen: expected"),
                          HasSubstr("pons.yaml:3:1: key \"log\" stands here and at 1:1"),
                          HasSubstr("pons.yaml:5:16: limits.connections: expected"),
                          HasSubstr("pons.yaml:6:3: unknown key \"nonsense_here\" in limits")));
}

TEST(Config, AtMostTwentyErrorsAreReportedAndTheRestCounted) {
  std::string yaml;
  for (int i = 100; i < 125; ++i) yaml += "unknown_" + std::to_string(i) + ": 1\n";
  const auto lines = errors(yaml);
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_THAT(lines.front(), HasSubstr("pons.yaml:1:1:"));
  EXPECT_THAT(lines.back(), HasSubstr("pons.yaml:20:1:"));
  EXPECT_THAT(lines.back(), HasSubstr("(and 5 more not shown)"));
}

TEST(Config, OnlyPlainDecimalDigitsAreANumber) {
  EXPECT_EQ(first_error("limits:\n  connections: \"7600\"\n"),
            "pons.yaml:2:16: limits.connections: expected a whole number from 1 to 100000, found "
            "the quoted text \"7600\"; remove the quotes");
  for (const char* text : {"1e3", "0x10", "010", "1_000", "+5", "-5", "5.0", "0o7", "yes", "on",
                           "true", "5s", "1,000", "0b1", ".5", "00", "99999999999999999999"}) {
    EXPECT_EQ(first_error(std::string("limits:\n  connections: ") + text),
              std::string("pons.yaml:2:16: limits.connections: expected a whole number from 1 to "
                          "100000, found \"") +
                  text +
                  "\"; write decimal digits only, without sign, leading zero, point, exponent, "
                  "unit or underscore");
  }
  EXPECT_THAT(first_error("limits: {connections: [5]}"), HasSubstr("found a list"));
  EXPECT_THAT(first_error("limits: {connections: {a: 5}}"), HasSubstr("found a mapping"));
  EXPECT_THAT(first_error("limits:\n  connections: ${env:PATH}\n"),
              HasSubstr("substitutions work in text only"));
}

TEST(Config, RangesHoldAtBothEnds) {
  EXPECT_EQ(loaded("supervisor: {drain_seconds: 1}").config.supervisor.drain_seconds, 1u);
  EXPECT_EQ(loaded("supervisor: {drain_seconds: 60}").config.supervisor.drain_seconds, 60u);
  EXPECT_EQ(first_error("supervisor: {drain_seconds: 61}"),
            "pons.yaml:1:29: supervisor.drain_seconds: expected a whole number from 1 to 60, "
            "found \"61\"");
  EXPECT_THAT(first_error("supervisor: {drain_seconds: 0}"), HasSubstr("from 1 to 60"));
  EXPECT_THAT(first_error("limits: {connections: 4294967297}"), HasSubstr("from 1 to 100000"));
}

TEST(Config, RestartDelayMayNotPassItsMaximum) {
  EXPECT_EQ(first_error("supervisor:\n  restart_delay_max_ms: 50\n"),
            "pons.yaml:2:25: supervisor.restart_delay_max_ms must not be less than "
            "restart_delay_ms; change one of the two");
  EXPECT_THAT(first_error("\nsupervisor: {restart_delay_ms: 20000}"), HasSubstr("pons.yaml:2:1:"));
  EXPECT_EQ(loaded("supervisor: {restart_delay_ms: 50, restart_delay_max_ms: 50}")
                .config.supervisor.restart_delay_max_ms,
            50u);
}

TEST(Config, KeyWithoutValueIsRefusedRatherThanDefaulted) {
  EXPECT_EQ(first_error("confinement:\n  landlock:\n"),
            "pons.yaml:2:3: confinement.landlock: expected one of required, best_effort, found "
            "nothing; give it a value or remove the key");
  for (const char* yaml : {"listen:", "listen: ~", "log:", "limits: null", "credentials:",
                           "credentials: {A: }", "limits: {connections: }", "state_dir:"})
    EXPECT_THAT(first_error(yaml), HasSubstr("found nothing; give it a value or remove the key"))
        << yaml;
}

TEST(Config, ListsAndEmptyTextAreRefusedWhereTheyMeanNothing) {
  for (const char* yaml :
       {"credentials: []", "log: []", "limits: []", "listen: []", "harness: []", "state_dir: []"})
    EXPECT_THAT(first_error(yaml), HasSubstr("found a list")) << yaml;
  for (const char* yaml : {"listen: ''", "state_dir: ''", "harness: ''", "log: ''",
                           "credentials: {A: {allowed_host: ''}}"})
    EXPECT_NE(first_error(yaml), "accepted") << yaml;
}

TEST(Config, FileThatIsNoMappingIsRefused) {
  EXPECT_EQ(first_error("just words"),
            "pons.yaml:1:1: the file: expected a mapping of keys to values, found text");
  EXPECT_THAT(first_error("- listen"), HasSubstr("found a list"));
}

TEST(Config, WrongWordGetsASuggestion) {
  EXPECT_EQ(
      first_error("log: {level: inf}"),
      "pons.yaml:1:14: log.level: expected one of debug, info, warn, error, found \"inf\"; did "
      "you mean \"info\"?");
  EXPECT_THAT(first_error("harness: claude_code"), HasSubstr("use lower-case letters"));
  EXPECT_THAT(first_error("log: {level: INFO}"), HasSubstr("expected one of"));
  EXPECT_THAT(first_error("confinement: {landlock: no}"), HasSubstr("expected one of"));
}

TEST(Config, ListenTakesOnlyNumericAddressesWithAPort) {
  EXPECT_EQ(loaded("listen: 0.0.0.0:0").config.listen, (ListenAddress{"0.0.0.0", 0}));
  EXPECT_EQ(loaded("listen: '[0:0::1]:65535'").config.listen, (ListenAddress{"::1", 65535}));
  EXPECT_EQ(loaded("listen: '[::1]:80'").config.listen.text(), "[::1]:80");
  EXPECT_EQ(first_error("listen: localhost:7600"),
            "pons.yaml:1:9: listen: expected a numeric address and a port such as 127.0.0.1:7600, "
            "found \"localhost:7600\"; the address must be numeric, names are not looked up");
  EXPECT_THAT(first_error("listen: '::1:80'"), HasSubstr("put the IPv6 address in brackets"));
  EXPECT_THAT(first_error("listen: 7600"), HasSubstr("with a colon between"));
  for (const char* text : {"127.0.0.1:65536", "127.0.0.1:", "127.0.0.1:080", "127.0.0.1:-1",
                           "127.0.0.1: 80", "127.1:80", "[127.0.0.1]:80", "[]:80", ":80",
                           "[::1%lo]:80", "0x7f.0.0.1:80", "1.2.3.4:80:90", "127.0.0.1\\0:80"})
    EXPECT_THAT(first_error(std::string("listen: \"") + text + "\""), HasSubstr("listen: expected"))
        << text;
}

TEST(Config, StateDirIsAnAbsolutePathBelowTheRoot) {
  for (const char* text : {"pons", "./pons", "~/pons", "/", "//", "/srv/../etc", "/srv/./x",
                           "/srv/a\\nb", "/srv/\\x7f"})
    EXPECT_THAT(first_error(std::string("state_dir: \"") + text + "\""),
                HasSubstr("state_dir: expected an absolute path"))
        << text;
  EXPECT_THAT(first_error("state_dir: /" + std::string(1024, 'x')), HasSubstr("at most 1024"));
}

TEST(Config, DefaultStateDirFollowsTheUser) {
  EXPECT_EQ(state_dir_for(0, "/x", "/root"), "/var/lib/pons");
  EXPECT_EQ(state_dir_for(1000, "/x/state", "/home/a"), "/x/state/pons");
  EXPECT_EQ(state_dir_for(1000, "", "/home/a"), "/home/a/.local/state/pons");
  EXPECT_EQ(state_dir_for(1000, "relative", "/home/a/"), "/home/a/.local/state/pons");
  EXPECT_EQ(state_dir_for(1000, "", ""), "/var/lib/pons");
}

TEST(Config, CredentialIsAllowedForOneNamedHostOnly) {
  const auto with_host = [](std::string_view host) {
    return first_error("credentials: {A: {allowed_host: \"" + std::string(host) + "\"}}");
  };
  EXPECT_EQ(with_host("*.github.com"),
            "pons.yaml:1:33: credentials.A.allowed_host: expected a lower-case host name such as "
            "api.github.com, found \"*.github.com\"; wildcards are not supported in this release, "
            "name one host");
  EXPECT_THAT(with_host("https://api.github.com"), HasSubstr("leave out the scheme"));
  EXPECT_THAT(with_host("api.github.com:443"), HasSubstr("leave out the port"));
  EXPECT_THAT(with_host("api.github.com/v3"), HasSubstr("leave out the path"));
  EXPECT_THAT(with_host("API.github.com"), HasSubstr("lower case"));
  EXPECT_THAT(with_host("localhost"), HasSubstr("a name without a dot"));
  EXPECT_THAT(with_host("bücher.example"), HasSubstr("xn--"));
  EXPECT_THAT(with_host("api.github.com."), HasSubstr("leave out the dot"));
  for (const char* address : {"127.0.0.1", "0x7f.1", "1.0x7f", "[::1]", "::1", "10.1"})
    EXPECT_THAT(with_host(address), HasSubstr("an address is not allowed")) << address;
  for (const char* host : {"-a.b", "a-.b", "a..b", ".a.b", "a_b.c", "a b.c", "*", "a.*.b", "*.*.b",
                           "user@a.b", "a.b?c", "", "a.b\\0.c", "a.b\\n"})
    EXPECT_THAT(with_host(host), HasSubstr("allowed_host: expected")) << host;
  const std::string label(63, 'a');
  EXPECT_EQ(with_host(label + ".example"), "accepted");
  EXPECT_NE(with_host(label + "a.example"), "accepted");
  const std::string long_name = label + "." + label + "." + label + "." + std::string(61, 'a');
  EXPECT_EQ(with_host(long_name), "accepted");
  EXPECT_THAT(with_host("a" + long_name.substr(0, 63) + long_name.substr(63)), HasSubstr("253"));
}

TEST(Config, CredentialWithoutHostIsRefused) {
  EXPECT_EQ(first_error("credentials:\n  GITHUB_TOKEN: {}\n"),
            "pons.yaml:2:3: credentials.GITHUB_TOKEN needs allowed_host; add it, with a lower-case "
            "host name such as api.github.com");
  EXPECT_THAT(
      first_error("credentials: {GITHUB_TOKEN: ghp_secret}"),
      HasSubstr("credentials.GITHUB_TOKEN: expected a mapping of keys to values, found text"));
}

TEST(Config, CredentialWrittenIntoTheFileIsNotRepeated) {
  for (const char* yaml : {"credentials: {GITHUB_TOKEN: ghp_x}", "credentials: ghp_x",
                           "credentials: {GITHUB_TOKEN: 'ghp_x'}", "ghp_x"})
    EXPECT_THAT(first_error(yaml), AllOf(HasSubstr("found text"), Not(HasSubstr("ghp_x")))) << yaml;
}

TEST(Config, CredentialNamesAreEnvironmentVariableNames) {
  EXPECT_EQ(first_error("credentials: {github-token: {allowed_host: a.b}}"),
            "pons.yaml:1:15: credentials: \"github-token\" is not a usable name; write capital "
            "letters, digits and underscores, not beginning with a digit, such as GITHUB_TOKEN");
  for (const std::string& name :
       {std::string("9A"), std::string("a"), std::string("'A B'"), std::string("''"),
        std::string("'${env:X}'"), std::string("Ä"), std::string(129, 'A')})
    EXPECT_THAT(first_error("credentials: {" + name + ": {allowed_host: a.b}}"),
                HasSubstr("is not a usable name"))
        << name;
}

TEST(Config, MessagesDoNotObeyControlCharactersOfTheFile) {
  EXPECT_THAT(first_error("\"\\e[31m\": 1"), HasSubstr("unknown key \"\\x1b[31m\""));
}

}  // namespace
}  // namespace pons::config
