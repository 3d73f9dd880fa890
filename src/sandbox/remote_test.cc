#include "pons/sandbox/remote.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "pons/http/server.h"
#include "pons/linux/unix_socket.h"
#include "pons/sandbox/wire.h"

namespace pons::sandbox {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

template <class T>
Task<> keep(Task<T> task, std::optional<T>& value, linux::Loop& loop) {
  value.emplace(co_await std::move(task));
  loop.stop();
}

// A server that notes each request and gives the answers it was told to give.
class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-remote-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    server_ = std::make_unique<http::Server>(
        *loop_, http::ServerLimits{}, [this](http::Exchange& exchange) { return note(exchange); });
    EXPECT_TRUE(server_->listen(std::move(*linux::listen_unix(socket_path(), 0600)), "test"));
    provider_ =
        std::make_unique<RemoteProvider>(*loop_, http::unix_connector(*loop_, socket_path()));
  }
  ~RemoteTest() override {
    provider_.reset();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::string socket_path() const { return directory_ + "/socket"; }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    linux::TaskGroup group(*loop_);
    // Runs to its end without waiting when everything is at hand: then there is nothing to run.
    group.spawn(keep(std::move(task), value, *loop_));
    loop_->run();
    return std::move(*value);
  }

  void answer(int status, std::string body) {
    answer_ = [status, body](http::Exchange& exchange) { return respond(exchange, status, body); };
  }
  // Pieces of a stream; then its proper end, or none.
  void stream(std::vector<std::string> pieces, bool whole = true) {
    answer_ = [pieces, whole](http::Exchange& exchange) { return pour(exchange, pieces, whole); };
  }

  std::unique_ptr<linux::Loop> loop_;
  std::string directory_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<RemoteProvider> provider_;
  std::function<Task<>(http::Exchange&)> answer_;
  std::string request_;  // "METHOD target"
  std::string body_;

 private:
  Task<> note(http::Exchange& exchange) {
    request_ =
        std::string(exchange.request().method) + " " + std::string(exchange.request().target);
    auto body = co_await exchange.read_whole_body(1 << 20);
    body_ = body ? std::move(*body) : "(cut)";
    co_await answer_(exchange);
  }
  static Task<> respond(http::Exchange& exchange, int status, std::string body) {
    exchange.respond({.status = status, .body = std::move(body)});
    co_return;
  }
  static Task<> pour(http::Exchange& exchange, std::vector<std::string> pieces, bool whole) {
    (void)co_await exchange.start({.content_type = "application/x-ndjson"});
    for (const std::string& piece : pieces) {
      (void)co_await exchange.write(piece);
      co_await exchange.loop().sleep_for(2ms);
    }
    if (whole) {
      (void)co_await exchange.finish();
    } else {
      exchange.abort();
    }
  }
};

const std::string kSandbox = R"({"id":"s-1","template":"host","state":"running"})";

TEST_F(RemoteTest, EveryCallAsksWhatTheWireSays) {
  answer(201, kSandbox);
  EXPECT_EQ(run(provider_->create({.id = "s-1"}))->id, "s-1");
  EXPECT_EQ(request_, "POST /sandboxes");
  EXPECT_EQ(from_json<CreateRequest>(*parse_json(body_))->id, "s-1");
  EXPECT_TRUE(run(provider_->inspect("s-1")));
  EXPECT_EQ(request_, "GET /sandboxes/s-1");
  EXPECT_TRUE(run(provider_->pause("s-1")));
  EXPECT_EQ(request_, "POST /sandboxes/s-1/pause");
  EXPECT_TRUE(run(provider_->resume("s-1")));
  EXPECT_EQ(request_, "POST /sandboxes/s-1/resume");
  EXPECT_TRUE(run(provider_->set_limits("s-1", {})));
  EXPECT_EQ(request_, "PUT /sandboxes/s-1/limits");
  EXPECT_TRUE(run(provider_->set_lifetime("s-1", Milliseconds(7), true)));
  EXPECT_EQ(request_, "PUT /sandboxes/s-1/lifetime");
  EXPECT_EQ(body_, R"({"from_now_ms":7,"pause_at_end":true})");
  EXPECT_TRUE(run(provider_->set_label("s-1", "n", "v")));
  EXPECT_EQ(request_, "PUT /sandboxes/s-1/labels");
  EXPECT_EQ(body_, R"({"n":"v"})");
  EXPECT_TRUE(run(provider_->fork("s-1", {.id = "s-2"})));
  EXPECT_EQ(request_, "POST /sandboxes/s-1/fork");
  answer(200, "{\"sandboxes\":[" + kSandbox + "]}");
  EXPECT_EQ(run(provider_->list())->size(), 1U);
  answer(200, R"({"templates":[{"name":"host"}]})");
  EXPECT_EQ(run(provider_->list_templates())->at(0).name, "host");
  answer(200, R"({"unreferenced_layers":["ab"]})");
  EXPECT_EQ(run(provider_->remove_template("x"))->at(0), "ab");
  EXPECT_EQ(request_, "DELETE /templates/x");
  answer(200, R"({"memory_bytes":7})");
  EXPECT_EQ(run(provider_->metrics("s-1"))->memory_bytes, 7U);
  answer(201, R"({"name":"cp-1"})");
  EXPECT_EQ(*run(provider_->checkpoint("s-1", "")), "cp-1");
  answer(201, R"({"name":"t"})");
  EXPECT_EQ(run(provider_->snapshot("s-1", "t"))->name, "t");
  EXPECT_EQ(body_, R"({"template":"t"})");
  answer(200, R"({"jobs":[{"id":"j"}]})");
  EXPECT_EQ(run(provider_->list_jobs("s-1"))->at(0).id, "j");
}

TEST_F(RemoteTest, CallsWithoutAnAnswerAskWhatTheWireSays) {
  answer(204, "");
  const auto asked = [this](Task<Result<void>> task) {
    const auto done = run(std::move(task));
    return done ? request_ : done.error().describe();
  };
  EXPECT_EQ(asked(provider_->destroy("s-1")), "DELETE /sandboxes/s-1");
  EXPECT_EQ(asked(provider_->put_template({.name = "t"})), "PUT /templates/t");
  EXPECT_EQ(asked(provider_->write_input("s-1", "j", "in")), "POST /sandboxes/s-1/jobs/j/input");
  EXPECT_EQ(body_, "in");
  EXPECT_EQ(asked(provider_->close_input("s-1", "j")), "DELETE /sandboxes/s-1/jobs/j/input");
  EXPECT_EQ(asked(provider_->signal("s-1", "j", 15)), "POST /sandboxes/s-1/jobs/j/signal");
  EXPECT_EQ(body_, R"({"signal":15})");
  EXPECT_EQ(asked(provider_->kill("s-1", "j")), "POST /sandboxes/s-1/jobs/j/kill");
  EXPECT_EQ(asked(provider_->resize("s-1", "j", {24, 80})), "POST /sandboxes/s-1/jobs/j/resize");
  EXPECT_EQ(body_, R"({"rows":24,"columns":80})");
  EXPECT_EQ(asked(provider_->rollback("s-1", "c")), "POST /sandboxes/s-1/checkpoints/c/rollback");
  EXPECT_EQ(asked(provider_->commit("s-1", "c")), "POST /sandboxes/s-1/checkpoints/c/commit");
  EXPECT_EQ(asked(provider_->remove_file("s-1", "/a b", "root")),
            "DELETE /sandboxes/s-1/file?path=/a%20b&user=root");
}

class TwoPieces final : public ByteSource {
 public:
  explicit TwoPieces(bool fails) : fails_(fails) {}
  Task<Result<std::string>> next() override {
    if (++count_ <= 2) co_return "piece" + std::to_string(count_);
    if (fails_) co_return make_error(ErrorCode::kIo, "read source", "disk on fire");
    co_return "";
  }

 private:
  bool fails_;
  int count_ = 0;
};

TEST_F(RemoteTest, FilesTravelInPiecesBothWays) {
  answer(200, R"({"path":"/f","kind":"file","size":12})");
  const auto written = run(provider_->write_file("s-1", "/f", {.mode = 0600, .append = true},
                                                 std::make_unique<TwoPieces>(false)));
  EXPECT_EQ(written->size, 12U);
  EXPECT_EQ(request_,
            "PUT /sandboxes/s-1/file?path=/f&user=&mode=0600&parents=1&append=1&exclusive=0");
  EXPECT_EQ(body_, "piece1piece2");
  EXPECT_TRUE(run(provider_->stat_file("s-1", "/f", "")));
  EXPECT_TRUE(run(provider_->make_directory("s-1", "/f", "", "")));
  EXPECT_TRUE(run(provider_->rename_file("s-1", "/f", "/g", "")));
  EXPECT_EQ(request_, "POST /sandboxes/s-1/rename?from=/f&to=/g&user=");
  answer(200, R"({"files":[{"path":"/d/a"},{"path":{"base64":"/w=="}}]})");
  EXPECT_EQ(run(provider_->list_files("s-1", "/d", "", 2))->at(1).path, "\xFF");

  stream({"abc", "def"});
  auto bytes = run(provider_->read_file("s-1", "/f", "", 3, 9));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(request_, "GET /sandboxes/s-1/file?path=/f&user=&offset=3&size=9");
  std::string all;
  for (;;) {
    const auto piece = run((*bytes)->next());
    ASSERT_TRUE(piece);
    if (piece->empty()) break;
    all += *piece;
  }
  EXPECT_EQ(all, "abcdef");
}

TEST_F(RemoteTest, ASourceThatFailsNeverMakesAWholeFile) {
  answer(200, R"({"path":"/f"})");
  const auto written =
      run(provider_->write_file("s-1", "/f", {}, std::make_unique<TwoPieces>(true)));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "disk on fire");
  EXPECT_NE(body_, "piece1piece2");
}

TEST_F(RemoteTest, AFileThatIsCutIsAnErrorAndNotAnEnd) {
  stream({"abc"}, false);
  auto bytes = run(provider_->read_file("s-1", "/f", "", 0, 0));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*run((*bytes)->next()), "abc");
  EXPECT_FALSE(run((*bytes)->next()));
}

TEST_F(RemoteTest, AnErrorIsTheSameErrorHere) {
  answer(409, R"({"error":{"type":"conflict","message":"busy_writers: pid 7 writes /x"}})");
  const auto refused = run(provider_->checkpoint("s-1", ""));
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(refused.error().message, "busy_writers: pid 7 writes /x");
  answer(500, R"({"error":{"type":"io","message":"m"}})");
  EXPECT_EQ(run(provider_->destroy("x")).error().code, ErrorCode::kIo);
  for (const char* body : {"", "not json", "[]", R"({"error":7})", R"({"error":{"type":[]}})"}) {
    answer(404, body);
    EXPECT_EQ(run(provider_->inspect("s-1")).error().code, ErrorCode::kNotFound) << body;
  }
}

TEST_F(RemoteTest, AnswersOfTheWrongShapeAreRefused) {
  for (const char* body : {"", "null", "[]", "{\"sandboxes\":{}}", "{\"sandboxes\":[1]}",
                           "{\"id\":7}", "{\"idd\":\"x\"}", "{\"sandboxes\":[],\"more\":1}"}) {
    answer(200, body);
    EXPECT_FALSE(run(provider_->list())) << body;
    EXPECT_FALSE(run(provider_->inspect("s-1"))) << body;
    EXPECT_FALSE(run(provider_->checkpoint("s-1", ""))) << body;
  }
}

TEST_F(RemoteTest, NobodyThereIsSaidWithTheKernelsWord) {
  RemoteProvider lost(*loop_, http::unix_connector(*loop_, directory_ + "/none"));
  const auto sandboxes = run(lost.list());
  EXPECT_EQ(sandboxes.error().os_error, ENOENT);
}

// ---- jobs

TEST_F(RemoteTest, AJobIsFollowedHoweverItsLinesAreCut) {
  stream({"{\"jo", "b\":\"j-1\"}\n\n\n{\"output\":{\"bytes\":\"he",
          "llo\"}}\n{\"output\":{\"stream\":", "\"error\",\"bytes\":{\"base64\":\"/w==\"}}}\r\n",
          "\n", "{\"ended\":{\"id\":\"j-1\",", "\"outcome\":\"exit\",\"code\":3}}\n"});
  auto job = run(provider_->execute("s-1", {.argv = {"x"}}));
  ASSERT_TRUE(job) << job.error().describe();
  EXPECT_EQ((*job)->job_id(), "j-1");
  EXPECT_EQ(request_, "POST /sandboxes/s-1/jobs");
  const auto first = run((*job)->next(kNever));
  EXPECT_EQ(std::get<Output>(**first).bytes, "hello");
  const auto second = run((*job)->next(kNever));
  EXPECT_EQ(std::get<Output>(**second).bytes, "\xFF");
  EXPECT_EQ(std::get<Output>(**second).stream, Output::Stream::kError);
  const auto end = run((*job)->next(kNever));
  EXPECT_EQ(std::get<JobInfo>(**end).code, 3);
  EXPECT_FALSE(run((*job)->next(kNever)).value());
  EXPECT_FALSE(run((*job)->next(kNever)).value());
}

TEST_F(RemoteTest, ABeginningComesBeforeTheOutput) {
  stream({"{\"job\":\"j\"}\n{\"started\":{\"pid\":42}}\n", "{\"output\":{\"bytes\":\"x\"}}\n"});
  auto job = run(provider_->execute("s-1", {.argv = {"x"}, .announce_start = true, .label = "l"}));
  ASSERT_TRUE(job);
  const auto asked = from_json<JobSpec>(*parse_json(body_));
  EXPECT_TRUE(asked->announce_start);
  EXPECT_EQ(asked->label, "l");
  const auto first = run((*job)->next(kNever));
  EXPECT_EQ(std::get<JobStarted>(**first).pid, 42U);
  const auto second = run((*job)->next(kNever));
  EXPECT_EQ(std::get<Output>(**second).bytes, "x");
}

TEST_F(RemoteTest, ADeadlineThatPassesLosesNothing) {
  std::vector<std::string> pieces = {"{\"job\":\"j\"}\n"};
  const std::string line = R"({"output":{"bytes":"0123456789"}})";
  for (const char c : line) pieces.emplace_back(1, c);
  pieces.emplace_back("\n{\"ended\":{}}\n");
  stream(pieces);
  auto job = run(provider_->execute("s-1", {}));
  ASSERT_TRUE(job);
  int timeouts = 0;
  for (;;) {
    const auto event = run((*job)->next(loop_->now() + 1ms));
    if (!event) {
      ASSERT_EQ(event.error().code, ErrorCode::kTimeout);
      ++timeouts;
      continue;
    }
    EXPECT_EQ(std::get<Output>(**event).bytes, "0123456789");
    break;
  }
  EXPECT_GT(timeouts, 0);
}

TEST_F(RemoteTest, AStreamThatIsCutNamesTheOffsetsToGoOnFrom) {
  for (const bool whole : {false, true}) {
    stream({"{\"job\":\"j\"}\n{\"output\":{\"offset\":5,\"lost\":5,\"bytes\":\"abc\"}}\n"}, whole);
    auto job = run(provider_->attach("s-1", "j", {.output = 0, .error = 11}));
    ASSERT_TRUE(job);
    EXPECT_EQ(request_, "GET /sandboxes/s-1/jobs/j?output=0&error=11");
    EXPECT_TRUE(run((*job)->next(kNever)));
    const auto cut = run((*job)->next(kNever));
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(cut.error().message, AllOf(HasSubstr("output=8"), HasSubstr("error=11")));
  }
}

TEST_F(RemoteTest, HostileLinesAreRefused) {
  const std::string begin = "{\"job\":\"j\"}\n";
  for (const std::string& line :
       {std::string("not json\n"), std::string("[]\n"), std::string("{\"output\":7}\n"),
        std::string("{\"ended\":{\"code\":\"x\"}}\n"), std::string(5 << 20, 'x'),
        std::string("{\"output\":{\"offset\":18446744073709551615,\"bytes\":\"ab\"}}\n")}) {
    stream({begin, line});
    auto job = run(provider_->execute("s-1", {}));
    ASSERT_TRUE(job);
    const auto event = run((*job)->next(kNever));
    ASSERT_FALSE(event) << line.substr(0, 100);
    EXPECT_TRUE(event.error().code == ErrorCode::kInvalid ||
                event.error().code == ErrorCode::kLimit);
  }
  for (const char* first :
       {"{}\n", "{\"job\":7}\n", "{\"job\":\"\"}\n", "\n", "{\"ended\":{}}\n"}) {
    stream({first});
    EXPECT_FALSE(run(provider_->execute("s-1", {}))) << first;
  }
}

TEST_F(RemoteTest, OutputNeverGoesBack) {
  stream({"{\"job\":\"j\"}\n", "{\"output\":{\"offset\":0,\"bytes\":\"abc\"}}\n",
          "{\"output\":{\"offset\":2,\"bytes\":\"c\"}}\n"});
  auto job = run(provider_->execute("s-1", {}));
  EXPECT_TRUE(run((*job)->next(kNever)));
  EXPECT_EQ(run((*job)->next(kNever)).error().code, ErrorCode::kInvalid);
}

TEST_F(RemoteTest, ANameThatJsonCannotWriteIsRefusedAndNotChanged) {
  answer(201, kSandbox);
  EXPECT_EQ(run(provider_->create({.environment = {{"A\xFF", "1"}}})).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(run(provider_->execute("s", {.environment = {{"A\xFF", "1"}}})).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(request_, "");
}

TEST_F(RemoteTest, ChangesAreFollowedLineByLine) {
  stream({"\n{\"kind\":\"write\",\"path\":\"/a\"}\n", "{\"kind\":\"explode\"}\n"});
  auto changes = run(provider_->watch_files("s-1", "/", "", true));
  ASSERT_TRUE(changes);
  EXPECT_EQ(request_, "GET /sandboxes/s-1/changes?path=/&user=&recursive=1");
  EXPECT_EQ(run((*changes)->next(kNever))->path, "/a");
  EXPECT_FALSE(run((*changes)->next(kNever)));
}

// ---- ports

Task<> echo(http::Exchange& exchange) {
  auto socket = co_await exchange.accept_websocket();
  if (!socket) co_return;
  for (;;) {
    const auto message = co_await (*socket)->receive(kNever);
    if (!message || !*message) co_return;
    (void)co_await (*socket)->send_binary((*message)->payload);
  }
}

Task<Result<std::string>> talk(RemoteProvider& provider, linux::Loop& loop, std::string words) {
  CO_TRY(auto descriptor, co_await provider.dial("s-1", 8080));
  CO_TRY(auto end, http::create_plain_transport(loop, std::move(descriptor)));
  iovec span = http::to_iovec(words);
  CO_TRY_VOID(co_await http::write_all(*end, {&span, 1}, 5s));
  end->shut_down_writing();
  std::string heard;
  std::string piece(4096, '\0');
  for (;;) {
    CO_TRY(const std::size_t got, co_await http::read_some(*end, piece, loop.now() + 10s));
    if (got == 0) co_return heard;
    heard += piece.substr(0, got);
  }
}

TEST_F(RemoteTest, ADialledPortCarriesBytesAndEnds) {
  answer_ = [](http::Exchange& exchange) { return echo(exchange); };
  const auto heard = run(talk(*provider_, *loop_, "hello port"));
  ASSERT_TRUE(heard) << heard.error().describe();
  EXPECT_EQ(*heard, "hello port");
  EXPECT_EQ(request_, "GET /sandboxes/s-1/dial/8080");
}

TEST_F(RemoteTest, APortThatRefusesIsAnError) {
  answer(503, R"({"error":{"type":"unavailable","message":"nobody listens"}})");
  EXPECT_FALSE(run(provider_->dial("s-1", 1)));
}

}  // namespace
}  // namespace pons::sandbox
