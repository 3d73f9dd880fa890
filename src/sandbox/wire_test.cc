#include "pons/sandbox/wire.h"

#include <gmock/gmock.h>

#include <random>

#include <nlohmann/json.hpp>

#include "pons/base/base64.h"
#include "pons/base/text.h"
#include "target.h"

namespace pons::sandbox {
namespace {

using ::testing::HasSubstr;

constexpr int kRounds = 300;

class Random {
 public:
  std::uint64_t number(std::uint64_t max) {
    return std::uniform_int_distribution<std::uint64_t>(0, max)(engine_);
  }
  template <class T>
  T any() {
    // Small ones and the largest are where mistakes are.
    const std::uint64_t pick = number(3);
    if (pick == 0) return std::numeric_limits<T>::max();
    if (pick == 1) return std::numeric_limits<T>::min();
    return static_cast<T>(number(static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
  }
  Milliseconds duration() { return Milliseconds(number(1'000'000'000'000)); }
  std::string bytes(std::size_t size_max = 40) {
    std::string text(number(size_max), '\0');
    for (char& c : text) c = static_cast<char>(number(255));
    return text;
  }
  std::string name() { return "n" + std::to_string(number(1'000'000)); }
  std::vector<std::string> list() {
    std::vector<std::string> values(number(4));
    for (std::string& value : values) value = bytes();
    return values;
  }
  std::map<std::string, std::string> map() {
    std::map<std::string, std::string> values;
    for (std::uint64_t i = number(4); i > 0; --i) values[name()] = bytes();
    return values;
  }
  Limits limits() {
    return {.memory_bytes = any<std::uint64_t>(),
            .swap_bytes = any<std::uint64_t>(),
            .cpu_percent = any<std::uint32_t>(),
            .pids = any<std::uint32_t>(),
            .disk_bytes = any<std::uint64_t>(),
            .disk_inodes = any<std::uint64_t>(),
            .disk_upper = number(1) == 1,
            .io_read_bytes_per_second = any<std::uint64_t>(),
            .io_write_bytes_per_second = any<std::uint64_t>(),
            .io_read_operations_per_second = any<std::uint32_t>(),
            .io_write_operations_per_second = any<std::uint32_t>(),
            .idle_max = duration(),
            .lifetime_max = duration(),
            .pause_at_end = number(1) == 1,
            .freeze_after = duration()};
  }

 private:
  std::mt19937_64 engine_{20'240'607};
};

// Written, sent as text, parsed and read again, a value is written the same: nothing got lost.
template <class T>
void expect_round_trip(const T& value) {
  const std::string text = dump_json(to_json(value));
  const auto json = parse_json(text);
  ASSERT_TRUE(json) << text;
  const auto again = from_json<T>(*json);
  ASSERT_TRUE(again) << again.error().describe() << "\n" << text;
  EXPECT_EQ(dump_json(to_json(*again)), text);
}

template <class T>
std::string problem_of(std::string_view text) {
  const auto json = parse_json(text);
  if (!json) return json.error().message;
  const auto value = from_json<T>(*json);
  if (value) return "";
  EXPECT_EQ(value.error().code, ErrorCode::kInvalid);
  return value.error().message;
}

TEST(WireTest, LimitsComeBackAsTheyWere) {
  Random random;
  for (int i = 0; i < kRounds; ++i) {
    const Limits limits = random.limits();
    expect_round_trip(limits);
    EXPECT_EQ(*from_json<Limits>(to_json(limits)), limits);
  }
}

TEST(WireTest, RequestsAndSandboxesComeBackAsTheyWere) {
  Random random;
  for (int i = 0; i < kRounds; ++i) {
    expect_round_trip(
        CreateRequest{.id = random.name(),
                      .template_name = random.bytes(),
                      .hostname = random.bytes(),
                      .environment = random.map(),
                      .labels = random.map(),
                      .limits = random.limits(),
                      .network = {.environment = random.bytes(), .policy = random.bytes()},
                      .login_shell = random.number(1) == 1,
                      .must_be_new = random.number(1) == 1,
                      .ephemeral = random.number(1) == 1});
    expect_round_trip(RunRequest{.sandbox = {.id = random.name(), .environment = random.map()},
                                 .job = {.argv = random.list(), .shell_line = random.bytes()},
                                 .keep = random.number(1) == 1});
    SandboxInfo info{.id = random.name(),
                     .template_name = random.name(),
                     .state = static_cast<State>(random.number(2)),
                     .warm = true,
                     .created_unix_ms = random.any<std::int64_t>(),
                     .used_unix_ms = random.any<std::int64_t>(),
                     .labels = random.map(),
                     .limits = random.limits(),
                     .checkpoints = random.list(),
                     .jobs_running = random.any<std::uint32_t>(),
                     .ended_by = random.bytes(),
                     .end_reason = random.bytes()};
    if (random.number(1) == 1) info.ends_unix_ms = random.any<std::int64_t>();
    expect_round_trip(info);
    expect_round_trip(TemplateInfo{.name = random.name(),
                                   .kind = "oci",
                                   .layers = random.list(),
                                   .user = random.bytes(),
                                   .directory = random.bytes(),
                                   .environment = random.map(),
                                   .weakening = {.allow_sudo = random.number(1) == 1},
                                   .bytes = random.any<std::uint64_t>(),
                                   .source = random.bytes()});
  }
}

TEST(WireTest, JobsAndTheirOutputComeBackAsTheyWere) {
  Random random;
  for (int i = 0; i < kRounds; ++i) {
    JobSpec spec{.id = random.name(),
                 .argv = random.list(),
                 .shell_line = random.bytes(),
                 .environment = random.map(),
                 .directory = random.bytes(),
                 .input = random.bytes(5000),
                 .input_open = random.number(1) == 1,
                 .timeout = random.duration(),
                 .output_bytes_max = random.any<std::uint64_t>(),
                 .transaction = static_cast<Transaction>(random.number(2))};
    if (random.number(1) == 1)
      spec.terminal = {random.any<std::uint16_t>(), random.any<std::uint16_t>()};
    expect_round_trip(spec);
    JobInfo info{.id = random.name(),
                 .outcome = static_cast<Outcome>(random.number(6)),
                 .code = random.any<int>(),
                 .duration = random.duration(),
                 .cpu_usec = random.any<std::uint64_t>(),
                 .rolled_back = true,
                 .note = random.bytes()};
    expect_round_trip(info);
    info.label = random.bytes();
    info.ended_ago = random.duration();
    expect_round_trip(JobEvent(info));
    expect_round_trip(JobEvent(JobStarted{.pid = random.any<std::uint32_t>()}));
    expect_round_trip(JobEvent(Output{.stream = static_cast<Output::Stream>(random.number(1)),
                                      .offset = 10 + random.number(1ULL << 60),
                                      .lost = random.number(10),
                                      .bytes = random.bytes(5000)}));
  }
}

TEST(WireTest, FilesAndFiguresComeBackAsTheyWere) {
  Random random;
  for (int i = 0; i < kRounds; ++i) {
    expect_round_trip(FileInfo{.path = "/" + random.bytes(),
                               .kind = static_cast<FileKind>(random.number(3)),
                               .mode = random.any<std::uint32_t>(),
                               .size = random.any<std::uint64_t>(),
                               .modified_ns = random.any<std::int64_t>(),
                               .link_target = random.bytes(),
                               .link_end = LinkEnd{.path = random.bytes(),
                                                   .kind = FileKind::kDirectory,
                                                   .mode = 0755,
                                                   .size = random.any<std::uint64_t>()}});
    expect_round_trip(FileChange{.kind = static_cast<FileChange::Kind>(random.number(4)),
                                 .path = random.bytes()});
    Metrics metrics{.memory_bytes_max = random.any<std::uint64_t>()};
    if (random.number(1) == 1) metrics.memory_cache_bytes = random.any<std::uint64_t>();
    if (random.number(1) == 1) metrics.cpu_usec = random.any<std::uint64_t>();
    if (random.number(1) == 1) metrics.io_pressure = 12.5;
    expect_round_trip(metrics);
  }
}

TEST(WireTest, BytesThatAreNoTextSurvive) {
  const std::string path("/tmp/\xFF\xFE\0x", 9);
  const Json json = to_json(FileInfo{.path = path});
  EXPECT_TRUE(json["path"].is_object());
  EXPECT_EQ(from_json<FileInfo>(json)->path, path);
  EXPECT_TRUE(to_json(FileInfo{.path = "/tmp/\xC3\xA4"})["path"].is_string());
}

TEST(WireTest, WhatIsLeftOutHasItsDefault) {
  EXPECT_EQ(*from_json<Limits>(Json::object()), Limits());
  EXPECT_EQ(from_json<CreateRequest>(Json::object())->template_name, "host");
  EXPECT_FALSE(from_json<JobSpec>(Json::object())->terminal);
}

TEST(WireTest, AnUnknownKeyIsRefusedWithTheNearestOne) {
  EXPECT_THAT(problem_of<Limits>(R"({"memory_byte":1})"),
              HasSubstr("did you mean \"memory_bytes\""));
  EXPECT_THAT(problem_of<CreateRequest>(R"({"limits":{"pid":1}})"), HasSubstr("\"pids\""));
  EXPECT_THAT(problem_of<JobSpec>(R"({"terminal":{"colums":1}})"), HasSubstr("\"columns\""));
  EXPECT_LT(problem_of<Limits>("{\"" + std::string(100'000, 'x') + "\":1}").size(), 200U);
}

TEST(WireTest, AWrongTypeOrRangeIsRefusedByName) {
  EXPECT_THAT(problem_of<Limits>(R"({"pids":-1})"), HasSubstr("\"pids\""));
  EXPECT_THAT(problem_of<Limits>(R"({"pids":4294967296})"), HasSubstr("\"pids\""));
  EXPECT_THAT(problem_of<Limits>(R"({"pids":1.5})"), HasSubstr("\"pids\""));
  EXPECT_THAT(problem_of<Limits>(R"({"pids":true})"), HasSubstr("\"pids\""));
  EXPECT_THAT(problem_of<Limits>(R"({"memory_bytes":18446744073709551616})"), HasSubstr("memory"));
  EXPECT_THAT(problem_of<Limits>(R"({"disk_upper":1})"), HasSubstr("\"disk_upper\""));
  EXPECT_THAT(problem_of<Limits>(R"({"idle_max_ms":-5})"), HasSubstr("\"idle_max_ms\""));
  EXPECT_THAT(problem_of<Limits>(R"({"idle_max_ms":9223372036854775807})"),
              HasSubstr("idle_max_ms"));
  EXPECT_THAT(problem_of<JobSpec>(R"({"argv":"ls"})"), HasSubstr("\"argv\""));
  EXPECT_THAT(problem_of<JobSpec>(R"({"argv":[1]})"), HasSubstr("\"argv\""));
  EXPECT_THAT(problem_of<JobSpec>(R"({"input":{"base64":"????"}})"), HasSubstr("base64"));
  EXPECT_THAT(problem_of<JobSpec>(R"({"input":{"base64":"","more":1}})"), HasSubstr("\"input\""));
  EXPECT_THAT(problem_of<JobSpec>(R"({"transaction":"maybe"})"), HasSubstr("rollback_always"));
  EXPECT_THAT(problem_of<SandboxInfo>(R"({"ends_unix_ms":null})"), HasSubstr("ends_unix_ms"));
  for (const char* text : {"[]", "null", "7", "\"text\""}) {
    EXPECT_NE(problem_of<Limits>(text), "");
    EXPECT_NE(problem_of<JobEvent>(text), "");
  }
}

TEST(WireTest, HostileSizesAreRefused) {
  std::string list = "[\"\"";
  for (int i = 0; i < 70'000; ++i) list += ",\"\"";
  EXPECT_THAT(problem_of<JobSpec>("{\"argv\":" + list + "]}"), HasSubstr("\"argv\""));
  std::string map = "{\"a\":\"\"";
  for (int i = 0; i < 5000; ++i) map += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_THAT(problem_of<JobSpec>("{\"environment\":" + map + "}}"), HasSubstr("\"environment\""));
}

TEST(WireTest, AnEventIsOneThingAndNotTwo) {
  EXPECT_NE(problem_of<JobEvent>("{}"), "");
  EXPECT_NE(problem_of<JobEvent>(R"({"output":{},"ended":{}})"), "");
  EXPECT_NE(problem_of<JobEvent>(R"({"started":{"pid":-1}})"), "");
  EXPECT_NE(problem_of<JobEvent>(R"({"output":{"offset":1,"lost":2}})"), "");
  EXPECT_NE(problem_of<JobEvent>(R"({"output":{"offset":18446744073709551615,"bytes":"xx"}})"), "");
}

TEST(Base64Test, OneTextForEachSequenceOfBytes) {
  Random random;
  for (int i = 0; i < kRounds; ++i) {
    const std::string bytes = random.bytes();
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
  }
  for (const char* text :
       {"A", "AA", "AAA", "A===", "====", "AA=A", "AB==", "AAB=", "AA\n=", "AA--"})
    EXPECT_FALSE(base64_decode(text)) << text;
  EXPECT_EQ(base64_decode(""), "");
}

TEST(TargetTest, NoByteOfAValueCanLeaveItsPlace) {
  EXPECT_EQ(
      Target({"sandboxes", "a/b?c#d e%"}).with("path", "/x&y=z+\r\n\xFF").with("size", 7U).text(),
      "/sandboxes/a%2Fb%3Fc%23d%20e%25?path=/x%26y%3Dz%2B%0D%0A%FF&size=7");
  EXPECT_EQ(Target({"jobs", "session:12"}).text(), "/jobs/session:12");
}

}  // namespace
}  // namespace pons::sandbox
