#include "access_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "pons/base/log.h"
#include "pons/linux/fd.h"

namespace pons::front {
namespace {

// What is written to the log while it lives.
class LogPipe {
 public:
  LogPipe() : pipe_(std::move(*linux::create_pipe())), before_(log_settings()) {
    EXPECT_TRUE(linux::set_nonblocking(pipe_.read_end.get()));
    configure_log({.format = LogFormat::kJson, .descriptor = pipe_.write_end.get()});
  }
  ~LogPipe() { configure_log(before_); }
  LogPipe(const LogPipe&) = delete;
  LogPipe& operator=(const LogPipe&) = delete;
  std::string take() {
    std::string text(64 * 1024, '\0');
    const ssize_t got = read(pipe_.read_end.get(), text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  linux::Pipe pipe_;
  LogSettings before_;
};

std::string line_of(const char* which, LoggedRequest request) {
  LogPipe pipe;
  AccessLog(which).write(request);
  return pipe.take();
}

TEST(AccessLog, SaysWhoAskedForWhatAndHowItEnded) {
  const std::string line = line_of("all", {.id = "req_1",
                                           .key = "key_2",
                                           .from = "10.0.0.1",
                                           .method = "GET",
                                           .path = "/sandboxes/*",
                                           .status = 200,
                                           .bytes = 7});
  EXPECT_TRUE(line.contains(R"("level":"info")")) << line;
  EXPECT_TRUE(line.contains(
      R"("key":"key_2","from":"10.0.0.1","method":"GET","path":"/sandboxes/*","status":200)"))
      << line;
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
}

TEST(AccessLog, WritesWhatWasAskedForOnly) {
  const LoggedRequest good{.path = "/x", .status = 200};
  const LoggedRequest bad{.path = "/x", .status = 500};
  const LoggedRequest cut{.path = "/x", .status = 200, .cut = true};
  const LoggedRequest health{.path = "/healthz", .status = 200};
  EXPECT_EQ(line_of("none", bad), "");
  EXPECT_EQ(line_of("failed", good), "");
  EXPECT_NE(line_of("failed", bad), "");
  EXPECT_NE(line_of("failed", cut), "");
  EXPECT_NE(line_of("all", good), "");
  EXPECT_EQ(line_of("all", health), "");
}

std::int64_t test_clock_ms = 0;

TEST(AccessLog, ManyLinesASecondAreWrittenAndAFloodIsCounted) {
  LogPipe pipe;
  AccessLog log("all", [] { return test_clock_ms; });
  constexpr std::uint32_t kTooMany = 5;
  std::size_t lines = 0;
  for (std::uint32_t i = 0; i < AccessLog::kLinesPerSecond + kTooMany; ++i) {
    log.write({.path = "/x", .status = 200});
    lines += static_cast<std::size_t>(std::ranges::count(pipe.take(), '\n'));
  }
  EXPECT_EQ(lines, AccessLog::kLinesPerSecond);
  test_clock_ms = 1000;
  log.write({.path = "/x", .status = 200});
  const std::string next = pipe.take();
  EXPECT_TRUE(next.contains(R"("msg":"lines about requests were left out","count":5)")) << next;
  EXPECT_TRUE(next.contains(R"("msg":"request")")) << next;
}

}  // namespace
}  // namespace pons::front
