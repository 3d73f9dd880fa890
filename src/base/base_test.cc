#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <type_traits>

#include <nlohmann/json.hpp>

#include "pons/base/clock.h"
#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/base/text.h"
#include "pons/base/unique_handle.h"

namespace pons {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(ErrorCode::kInvalid, "halve", "the number is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  const int h = TRY(half(n));
  return TRY(half(h));
}

TEST(Result, TryReturnsTheFirstErrorToTheCaller) {
  EXPECT_EQ(quarter(8).value(), 2);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().describe(), "halve: the number is odd");
}

TEST(Result, OsErrorNamesStepReasonAndCode) {
  const Error error = os_error("open state directory", "run as its owner", EACCES);
  EXPECT_EQ(error.code, ErrorCode::kDenied);
  EXPECT_EQ(error.describe(), "open state directory: run as its owner (Permission denied)");
}

struct CountingTraits {
  using Value = int;
  static inline int closed = 0;
  static int empty() { return -1; }
  static void close(int) noexcept { ++closed; }
};
using Counting = UniqueHandle<CountingTraits>;

TEST(UniqueHandle, MoveAssignmentClosesTheOldResourceOnce) {
  CountingTraits::closed = 0;
  Counting a(1), b(2);
  a = std::move(b);
  EXPECT_EQ(CountingTraits::closed, 1);
  EXPECT_EQ(a.get(), 2);
  EXPECT_FALSE(
      b);  // NOLINT(bugprone-use-after-move): the state after a move is the promise under test
}

TEST(UniqueHandle, SelfMoveKeepsTheResource) {
  CountingTraits::closed = 0;
  Counting a(1);
  auto& alias = a;
  a = std::move(alias);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(CountingTraits::closed, 0);
}

TEST(UniqueHandle, ReleaseGivesUpOwnership) {
  CountingTraits::closed = 0;
  {
    EXPECT_EQ(Counting(7).release(), 7);
  }
  EXPECT_EQ(CountingTraits::closed, 0);
}

TEST(Secret, CannotBeCopiedPrintedOrLogged) {
  static_assert(!std::is_copy_constructible_v<Secret>);
  static_assert(!std::is_constructible_v<LogField, std::string_view, const Secret&>);
  static_assert(!std::is_convertible_v<Secret, std::string_view>);
}

TEST(Secret, WipesTheStringItWasMadeFrom) {
  std::string clear = "correct-horse-battery-staple";
  const char* bytes = clear.data();
  const Secret secret(std::move(clear));
  EXPECT_EQ(secret.reveal(), "correct-horse-battery-staple");
  EXPECT_THAT(std::string(bytes, 28), Not(HasSubstr("horse")));
}

TEST(Secret, ConstantTimeCompareAgreesWithEquality) {
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "abcd"));
}

TEST(Text, NearestMatchSuggestsOnlyWhatIsClose) {
  constexpr std::string_view kKeys[] = {"listen", "state_dir", "harness"};
  EXPECT_EQ(nearest_match("lisen", kKeys), "listen");
  EXPECT_EQ(nearest_match("statedir", kKeys), "state_dir");
  EXPECT_EQ(nearest_match("zebra", kKeys), std::nullopt);
  EXPECT_EQ(nearest_match(std::string(100'000, 'l'), kKeys), std::nullopt);
}

TEST(Text, DecimalRefusesSignsSpacesAndOverflow) {
  EXPECT_EQ(parse_decimal("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "+1", "-1", " 1", "1 ", "0x1", "18446744073709551616", "1e3"})
    EXPECT_EQ(parse_decimal(bad), std::nullopt) << bad;
}

TEST(Text, Utf8RefusesOverlongSurrogateAndCutSequences) {
  EXPECT_TRUE(is_valid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  for (const char* bad :
       {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\xFF", "\x80"})
    EXPECT_FALSE(is_valid_utf8(bad));
}

TEST(Text, Utf8InPiecesIsJudgedAsTheWhole) {
  const std::string_view text = "plain ascii \xC3\xA9\xE2\x82\xAC\xED\x9F\xBF\xF4\x8F\xBF\xBF end";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Validator validator;
    EXPECT_TRUE(validator.feed(text.substr(0, cut)) && validator.feed(text.substr(cut))) << cut;
    EXPECT_TRUE(validator.complete()) << cut;
    validator = {};
    EXPECT_TRUE(validator.feed(text.substr(0, cut)));
    EXPECT_EQ(validator.complete(), is_valid_utf8(text.substr(0, cut))) << cut;
  }
}

TEST(Text, Utf8IsRefusedAtTheFirstByteThatCannotBe) {
  for (const std::string_view bad : {"\xF4\x90", "\xE0\x9F", "\xED\xA0", "\xF0\x8F", "\xC3(",
                                     "\xE2\x82(", "\xC1", "\xF5", "a\x80"}) {
    Utf8Validator validator;
    EXPECT_TRUE(validator.feed(bad.substr(0, bad.size() - 1)));
    EXPECT_FALSE(validator.feed(bad.substr(bad.size() - 1)));
    EXPECT_FALSE(validator.feed("good again"));
    EXPECT_FALSE(validator.complete());
  }
}

TEST(Text, HashesAndEncodingsMatchKnownVectors) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_encode(""), "");
}

TEST(Text, PeopleReadDurationsAndSizes) {
  EXPECT_EQ(human_duration(999), "999 ms");
  EXPECT_EQ(human_duration(200'000), "3 m 20 s");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
}

struct Tag {
  static constexpr std::string_view kPrefix = "sbx";
};

TEST(Id, GeneratedIdsAreDistinctAndParseBack) {
  const auto a = Id<Tag>::generate();
  EXPECT_NE(a, Id<Tag>::generate());
  EXPECT_EQ(Id<Tag>::parse(a.text()), a);
}

TEST(Id, HostileTextIsNotAnId) {
  for (const char* bad : {"", "../x", "a b", "a\n", "a/b", "\xC3\xA9"})
    EXPECT_FALSE(is_id_text(bad));
  EXPECT_FALSE(is_id_text(std::string(129, 'a')));
}

TEST(Json, RefusesWhatNlohmannWouldLetThrough) {
  EXPECT_EQ((*parse_json(R"({"a":[1,2]})"))["a"][1], 2);
  EXPECT_THAT(parse_json(R"({"a":1,"a":2})").error().message, HasSubstr("twice"));
  EXPECT_THAT(parse_json(std::string(100, '[')).error().message, HasSubstr("deeper"));
  for (const char* bad : {"", "{", "1 2", "nul", "\"\xFF\"", "{\"a\":}"})
    EXPECT_FALSE(parse_json(bad));
  EXPECT_EQ(parse_json("[1]", {.bytes = 2}).error().code, ErrorCode::kLimit);
}

TEST(Json, DumpNeverThrowsOnBadUtf8) {
  EXPECT_EQ(dump_json(Json("a\xFF")), "\"a\xEF\xBF\xBD\"");
}

TEST(Log, JsonLineSurvivesHostileText) {
  const LogSettings settings{.format = LogFormat::kJson, .process = "front"};
  const std::string line = format_log_line(settings, 0, LogLevel::kWarn, "bad\n\x1b[2J",
                                           {{"path", "\"}\n{\xFF"}, {"n", 3}, {"ok", true}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  const auto parsed = parse_json(line.substr(0, line.size() - 1));
  ASSERT_TRUE(parsed) << line;
  EXPECT_EQ((*parsed)["process"], "front");
  EXPECT_EQ((*parsed)["n"], 3);
}

TEST(Log, HumanLineQuotesWhatIsNotAWord) {
  const LogSettings settings{.format = LogFormat::kHuman, .process = "brain"};
  EXPECT_EQ(format_log_line(settings, 1, LogLevel::kInfo, "hi", {{"a", "b"}, {"c", "d e"}}),
            "00:00:00.001 info  brain      hi a=b c=\"d e\"\n");
}

TEST(Log, EachSiteIsRateLimitedAndSaysWhatItLeftOut) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const LogSettings before = log_settings();
  configure_log({.format = LogFormat::kJson, .descriptor = ends[1]});
  LogSite site;
  for (int i = 0; i < 500; ++i) log_line(site, LogLevel::kInfo, "again", {});
  configure_log(before);
  std::string out(65536, '\0');
  out.resize(static_cast<std::size_t>(read(ends[0], out.data(), out.size())));
  close(ends[0]);
  close(ends[1]);
  // The loop may straddle one second boundary.
  EXPECT_LE(std::ranges::count(out, '\n'), 2 * kLogLinesPerSecondPerSite + 1);
  EXPECT_GT(site.suppressed.load() + 0U, 400U - kLogLinesPerSecondPerSite);
}

// A blocking pipe that nobody reads: a log that waited for it would stop the process.
TEST(Log, AReaderThatStopsReadingStopsNobody) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const LogSettings before = log_settings();
  configure_log({.format = LogFormat::kJson, .descriptor = ends[1]});
  const std::string line(8000, 'x');
  for (int i = 0; i < 50; ++i) relay_log_line(line);  // six times what the pipe holds
  std::string out(1 << 20, '\0');
  out.resize(static_cast<std::size_t>(read(ends[0], out.data(), out.size())));
  EXPECT_GT(out.size(), 8000U);
  relay_log_line("the reader is back");
  char tail[64];
  EXPECT_EQ(read(ends[0], tail, sizeof tail), 19);
  configure_log(before);
  close(ends[0]);
  close(ends[1]);
}

Task<int> answer() {
  co_return 42;
}
Task<int> failing() {
  throw std::runtime_error("library");
  co_return 0;
}

struct Probe {
  int* live;
  explicit Probe(int* l) : live(l) { ++*live; }
  Probe(const Probe& other) : live(other.live) { ++*live; }
  ~Probe() { --*live; }
};
Task<int> holds(Probe probe) {
  co_return *probe.live;
}
Task<> hangs(Probe, bool* resumed) {
  co_await std::suspend_always();
  *resumed = true;
}

// Runs a coroutine to its first suspension, as a loop's spawn would.
struct Runner {
  struct promise_type {
    Runner get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};
Runner collect(Task<int> task, int* out) {
  try {
    *out = co_await std::move(task);
  } catch (const std::runtime_error&) {
    *out = -1;
  }
}

TEST(Task, ValueAndExceptionReachTheAwaiter) {
  int out = 0;
  collect(answer(), &out);
  EXPECT_EQ(out, 42);
  collect(failing(), &out);
  EXPECT_EQ(out, -1);
}

TEST(Task, ArgumentsAreDestroyedExactlyOnce) {
  int live = 0, out = 0;
  collect(holds(Probe(&live)), &out);
  EXPECT_GE(out, 1);
  EXPECT_EQ(live, 0);
}

TEST(Task, DestroyingASuspendedTaskReleasesWhatItHolds) {
  int live = 0;
  bool resumed = false;
  {
    Task<> unstarted = hangs(Probe(&live), &resumed);
  }
  EXPECT_EQ(live, 0);
  EXPECT_FALSE(resumed);
}

}  // namespace
}  // namespace pons
