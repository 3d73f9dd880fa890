#include "pons/guest/guests.h"

#include <algorithm>
#include <csignal>
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/harness/installation.h"
#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/sandbox/refusing_provider.h"

namespace pons::guest {
namespace {

using namespace sandbox;
using session::Answer;
using session::NoAnswer;
using session::Question;
using session::Trouble;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A sandbox in which one codex runs: its lines are what the test says.
class Cell final : public RefusingProvider {
 public:
  explicit Cell(linux::Loop& loop) : more_(loop) {}

  std::vector<CreateRequest> created;
  std::vector<JobSpec> jobs;
  std::map<std::string, std::string> files;
  std::vector<Json> heard;  // lines to the harness
  std::vector<int> signals;
  std::vector<std::string> destroyed;
  std::vector<TemplateInfo> templates;
  std::vector<SandboxInfo> sandboxes;  // that are there
  int pauses = 0, resumes = 0, kills = 0;
  bool is_gone = false;  // until it is made again
  bool is_installed = true;
  bool ignores_interrupts = false;
  bool is_silent = false;  // it answers nothing
  bool dies_at_its_start = false;
  // What the harness does on being sent a message; empty: it says nothing.
  std::function<void(const std::string& text)> on_turn;

  void say(const Json& line) {
    said_ += dump_json(line) + "\n";
    more_.set();
  }
  void say_raw(const std::string& line) {
    said_ += line + "\n";
    more_.set();
  }
  void own_begins(const std::string& id) {
    tell("item/started",
         {{"item", {{"type", "commandExecution"}, {"id", id}, {"command", "make"}}}});
  }
  void own_ends(const std::string& id, const std::string& output) {
    tell("item/completed",
         {{"item", {{"type", "commandExecution"}, {"id", id}, {"aggregatedOutput", output}}}});
  }
  int count_of(const std::string& method) const {
    return static_cast<int>(std::ranges::count_if(
        heard, [&](const Json& line) { return line.value("method", "") == method; }));
  }
  void die() {
    dead_ = true;
    more_.set();
  }
  void tell(const std::string& method, Json params) {
    say({{"method", method}, {"params", std::move(params)}});
  }
  void text(const std::string& words) {
    tell("item/agentMessage/delta", {{"delta", words}});
    tell("item/completed", {{"item", {{"type", "agentMessage"}, {"text", words}}}});
  }
  void end_turn(const char* status = "completed") {
    tell("turn/completed", {{"turn", {{"id", "t"}, {"status", status}}}});
  }
  void want(int id, const std::string& tool, Json arguments) {
    say({{"id", id},
         {"method", "item/tool/call"},
         {"params", {{"tool", tool}, {"arguments", std::move(arguments)}}}});
  }

  Task<Result<SandboxInfo>> create(CreateRequest request) override {
    created.push_back(request);
    is_gone = false;
    co_await more_.wait(TimePoint{});  // others have their turn meanwhile
    if (!is_installed) co_return make_error(ErrorCode::kNotFound, "create", "no such template");
    co_return SandboxInfo{.id = request.id, .template_name = request.template_name};
  }
  Task<Result<std::vector<JobInfo>>> list_jobs(std::string) override {
    co_return std::vector<JobInfo>();
  }
  Task<Result<SandboxInfo>> pause(std::string) override {
    ++pauses;
    co_return SandboxInfo{};
  }
  Task<Result<SandboxInfo>> resume(std::string) override {
    ++resumes;
    if (is_gone) co_return make_error(ErrorCode::kNotFound, "find sandbox", "there is none");
    co_return SandboxInfo{};
  }
  Task<Result<void>> destroy(std::string id) override {
    destroyed.push_back(std::move(id));
    co_return {};
  }
  Task<Result<std::vector<SandboxInfo>>> list() override { co_return sandboxes; }
  Task<Result<std::vector<TemplateInfo>>> list_templates() override { co_return templates; }
  Task<Result<FileInfo>> write_file(std::string, std::string path, WriteOptions,
                                    std::unique_ptr<ByteSource> bytes) override {
    files[path].clear();
    for (;;) {
      CO_TRY(const auto piece, co_await bytes->next());
      if (piece.empty()) break;
      files[path] += piece;
    }
    co_return FileInfo{};
  }
  Task<Result<std::unique_ptr<ByteSource>>> read_file(std::string, std::string path, std::string,
                                                      std::uint64_t, std::uint64_t) override {
    const auto found = files.find(path);
    if (found == files.end()) co_return make_error(ErrorCode::kNotFound, "read", "no such file");
    struct Whole final : ByteSource {
      explicit Whole(std::string text) : bytes(std::move(text)) {}
      Task<Result<std::string>> next() override { co_return std::exchange(bytes, {}); }
      std::string bytes;
    };
    co_return std::unique_ptr<ByteSource>(std::make_unique<Whole>(found->second));
  }
  Task<Result<void>> remove_file(std::string, std::string path, std::string) override {
    if (files.erase(path) == 0)
      co_return make_error(ErrorCode::kNotFound, "remove", "no such file");
    co_return {};
  }
  Task<Result<std::unique_ptr<JobStream>>> execute(std::string, JobSpec job) override {
    said_.clear();
    read_ = 0;
    dead_ = false;
    jobs.push_back(std::move(job));
    if (dies_at_its_start) die();
    co_return std::unique_ptr<JobStream>(std::make_unique<Stream>(*this));
  }
  Task<Result<void>> signal(std::string, std::string, int number) override {
    signals.push_back(number);
    die();
    co_return {};
  }
  Task<Result<void>> kill(std::string id, std::string job) override {
    ++kills;
    co_return co_await signal(std::move(id), std::move(job), SIGKILL);
  }
  Task<Result<void>> write_input(std::string, std::string, std::string bytes) override {
    unread_ += bytes;
    for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
      const Json line = *parse_json(unread_.substr(0, end));
      unread_.erase(0, end + 1);
      heard.push_back(line);
      if (!is_silent) answer(line);
    }
    co_return {};
  }

 private:
  struct Stream final : JobStream {
    explicit Stream(Cell& cell) : cell_(cell) {}
    const std::string& job_id() const override { return id_; }
    Task<Result<std::optional<JobEvent>>> next(TimePoint deadline) override {
      for (;;) {
        if (cell_.read_ < cell_.said_.size()) {
          const std::size_t at = std::exchange(cell_.read_, cell_.said_.size());
          co_return JobEvent(Output{.offset = at, .bytes = cell_.said_.substr(at)});
        }
        if (cell_.dead_) co_return JobEvent(JobInfo{.outcome = Outcome::kSignal, .code = 9});
        cell_.more_.reset();
        if (co_await cell_.more_.wait(deadline) == linux::Wait::kTimeout)
          co_return make_error(ErrorCode::kTimeout, "follow", "");
      }
    }
    Cell& cell_;
    std::string id_ = "j";
  };

  void answer(const Json& line) {
    const std::string method = line.value("method", "");
    if (!line.contains("id")) return;
    const auto reply = [&](Json result) {
      say({{"id", line["id"]}, {"result", std::move(result)}});
    };
    if (method == "initialize") reply(Json::object());
    if (method == "thread/start") reply({{"thread", {{"id", "thread-1"}}}});
    if (method == "thread/resume") reply({{"thread", {{"id", line["params"]["threadId"]}}}});
    if (method == "turn/interrupt" && !ignores_interrupts) end_turn("interrupted");
    if (method == "session/new") reply({{"sessionId", "acp-1"}});
    if (method == "session/prompt" && on_turn) on_turn(dump_json(line["id"]));
    if (method != "turn/start") return;
    reply({{"turn", {{"id", "t"}}}});
    if (on_turn) on_turn(line["params"]["input"][0]["text"].get<std::string>());
  }

  linux::Event more_;
  std::string said_;
  std::size_t read_ = 0;
  bool dead_ = false;
  std::string unread_;
};

class OwnModel final : public session::Model {
 public:
  int asked = 0;
  Task<std::variant<Answer, NoAnswer>> ask(Question, const session::Listener&) override {
    ++asked;
    co_return Answer{.content = "[]"};
  }
};

class NoHands final : public session::Hands {
 public:
  std::vector<session::ProvisionOrder> orders;
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override {
    orders.push_back(std::move(order));
    co_return session::ProvisionReport{};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return refusal(); }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder) override {
    co_return refusal();
  }
  Task<Result<void>> stop(std::string, std::string) override { co_return refusal(); }
  Task<Result<void>> destroy(std::string) override { co_return refusal(); }

 private:
  static Error refusal() { return make_error(ErrorCode::kUnsupported, "use hands", "none"); }
};

class Desk final : public KeyDesk {
 public:
  std::vector<KeyWish> opened;
  std::vector<std::string> closed;
  session::Usage usage;
  Task<Result<ModelKey>> open(KeyWish wish) override {
    opened.push_back(std::move(wish));
    co_return ModelKey{.id = "k" + std::to_string(opened.size()), .text = "ponsm_secret"};
  }
  Task<Result<session::Usage>> used(std::string) override { co_return usage; }
  Task<Result<void>> close(std::string id) override {
    closed.push_back(std::move(id));
    co_return {};
  }
};

class GuestsTest : public ::testing::Test {
 protected:
  using Reply = std::variant<Answer, NoAnswer>;

  Question question(Json messages, std::string harness = "codex") const {
    return {.session = "ses_1",
            .project = "p",
            .agent = "default",
            .request = dump_json({{"model", "m"},
                                  {"system", system_},
                                  {"tools", tools_},
                                  {"messages", std::move(messages)}}),
            .harness = std::move(harness)};
  }
  // Of one that lives in its session's machine.
  Question inside(Json messages) const {
    Question wish = question(std::move(messages));
    wish.in_machine = true;
    wish.machine = {.sandbox = "sx-1", .sandbox_template = "base+harness-codex-packages"};
    return wish;
  }
  static Json tool(const std::string& name) {
    return {{"name", name}, {"description", "does"}, {"input_schema", {{"type", "object"}}}};
  }
  static NoAnswer no_answer(const Reply& reply) {
    EXPECT_TRUE(std::holds_alternative<NoAnswer>(reply)) << std::get<Answer>(reply).content;
    return std::holds_alternative<NoAnswer>(reply) ? std::get<NoAnswer>(reply) : NoAnswer{};
  }
  static Answer answer_of(const Reply& reply) {
    EXPECT_TRUE(std::holds_alternative<Answer>(reply)) << std::get<NoAnswer>(reply).message;
    return std::holds_alternative<Answer>(reply) ? std::get<Answer>(reply)
                                                 : Answer{.content = "[]"};
  }
  // The turn of a harness that always says ok.
  void say_ok() {
    cell_.on_turn = [this](const std::string& text) {
      turns_.push_back(text);
      cell_.text("ok");
      cell_.end_turn();
    };
  }
  static Json user(const std::string& text) {
    return {{"role", "user"}, {"content", Json::array({{{"type", "text"}, {"text", text}}})}};
  }
  static Json said(const Answer& answer) {
    return {{"role", "assistant"}, {"content", *parse_json(answer.content)}};
  }
  static Json result(const Json& call, const std::string& text) {
    return {
        {"role", "user"},
        {"content",
         Json::array({{{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", text}}})}};
  }
  Reply ask(Question wish) {
    return linux::run_to_end(
        *loop_,
        guests_->ask(std::move(wish), {.on_text = [&](std::string_view text) { deltas_ += text; },
                                       .on_tool = [](std::int64_t, std::string_view) {}}));
  }
  Answer answer(Json messages) {
    auto reply = ask(question(std::move(messages)));
    EXPECT_TRUE(std::holds_alternative<Answer>(reply)) << std::get<NoAnswer>(reply).message;
    return std::holds_alternative<Answer>(reply) ? std::get<Answer>(reply) : Answer{};
  }
  void make(GuestLimits limits = {}) {
    guests_ = std::make_unique<Guests>(*loop_, cell_, hands_, own_, desk_, harness::known_recipes(),
                                       limits);
  }
  void SetUp() override { make(); }
  void settle(Duration time) {
    linux::run_to_end(*loop_, [](linux::Loop& loop, Duration wait) -> Task<bool> {
      co_await loop.sleep_for(wait);
      co_return true;
    }(*loop_, time));
  }
  std::size_t starts() const { return cell_.jobs.size(); }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  Cell cell_{*loop_};
  OwnModel own_;
  NoHands hands_;
  Desk desk_;
  std::string system_ = "Be brief.";
  Json tools_ = Json::array({tool("sandbox_execute"), tool("look_up")});
  std::string deltas_;
  std::vector<std::string> turns_;
  std::unique_ptr<Guests> guests_;
};

TEST_F(GuestsTest, WhoHasNoHarnessIsAnsweredByTheModel) {
  ask(question(Json::array({user("hi")}), ""));
  EXPECT_EQ(own_.asked, 1);
  EXPECT_TRUE(cell_.created.empty());
}

TEST_F(GuestsTest, AGuestAnswersInAnEmptyCellWithTwoNames) {
  cell_.on_turn = [&](const std::string& text) {
    cell_.text("You said: " + text.substr(text.size() - 2));
    cell_.end_turn();
  };
  desk_.usage = {.input = 10, .output = 3, .cost_nano = 7};
  const Answer reply = answer(Json::array({user("hi")}));
  EXPECT_EQ(reply.content, R"([{"type":"text","text":"You said: hi"}])");
  EXPECT_EQ(reply.stop_reason, "end_turn");
  EXPECT_EQ(reply.usage, desk_.usage);
  EXPECT_EQ(deltas_, "You said: hi");
  ASSERT_EQ(cell_.created.size(), 1U);
  EXPECT_EQ(cell_.created[0].template_name, "harness-codex");
  EXPECT_EQ(cell_.created[0].network.policy, R"({"mode":"none"})");
  ASSERT_EQ(starts(), 1U);
  EXPECT_EQ(cell_.jobs[0].environment.at("PATH"), "/nonexistent");
  EXPECT_EQ(cell_.jobs[0].user, "user");
  ASSERT_EQ(desk_.opened.size(), 1U);
  EXPECT_EQ(desk_.opened[0].model, "m");
  EXPECT_EQ(desk_.opened[0].sandbox, cell_.created[0].id);
}

TEST_F(GuestsTest, TheToolsThatItWantsAreTheSessionsToUse) {
  cell_.on_turn = [&](const std::string&) {
    cell_.text("I look.");
    cell_.want(7, "sandbox_execute", {{"command", "ls"}});
  };
  Json messages = Json::array({user("look")});
  const Answer wants = answer(messages);
  EXPECT_EQ(wants.stop_reason, "tool_use");
  const Json blocks = *parse_json(wants.content);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[1]["name"], "sandbox_execute");
  EXPECT_EQ(blocks[1]["input"], Json({{"command", "ls"}}));

  messages.push_back(said(wants));
  messages.push_back(result(blocks[1], "a b"));
  linux::TaskGroup later(*loop_);
  later.spawn([](Cell& cell, linux::Loop& loop) -> Task<> {
    while (cell.heard.empty() || !cell.heard.back().contains("result"))
      co_await loop.sleep_for(std::chrono::milliseconds(1));
    cell.text("There are a and b.");
    cell.end_turn();
  }(cell_, *loop_));
  const Answer done = answer(messages);
  EXPECT_EQ(done.content, R"([{"type":"text","text":"There are a and b."}])");
  EXPECT_EQ(cell_.heard.back()["id"], 7);
  EXPECT_THAT(dump_json(cell_.heard.back()), HasSubstr("a b"));
  EXPECT_EQ(starts(), 1U);
}

TEST_F(GuestsTest, ASecondTurnIsOnlyWhatIsNew) {
  std::vector<std::string> turns;
  cell_.on_turn = [&](const std::string& text) {
    turns.push_back(text);
    cell_.text("ok");
    cell_.end_turn();
  };
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  messages.push_back(user("second"));
  answer(messages);
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_EQ(turns[1], "second");
  EXPECT_EQ(starts(), 1U);
}

TEST_F(GuestsTest, ANewProcessGoesOnWithWhatTheOldOneHeard) {
  std::vector<std::string> turns;
  cell_.on_turn = [&](const std::string& text) {
    turns.push_back(text);
    cell_.text("ok");
    cell_.end_turn();
  };
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  messages.push_back(user("second"));
  make();  // another brain
  answer(messages);
  EXPECT_EQ(starts(), 2U);
  EXPECT_EQ(turns.back(), "second");
  bool resumed = false;
  for (const Json& line : cell_.heard) resumed |= line.value("method", "") == "thread/resume";
  EXPECT_TRUE(resumed);
}

TEST_F(GuestsTest, AProcessThatDiedInATurnIsFollowedByOneThatIsToldEverything) {
  cell_.on_turn = [&](const std::string&) { cell_.die(); };
  Json messages = Json::array({user("first")});
  const auto failed = ask(question(messages));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(failed));
  EXPECT_EQ(std::get<NoAnswer>(failed).trouble, Trouble::kPassing);
  EXPECT_THAT(std::get<NoAnswer>(failed).message, HasSubstr("codex"));
  std::string told;
  cell_.on_turn = [&](const std::string& text) {
    told = text;
    cell_.text("ok");
    cell_.end_turn();
  };
  answer(messages);
  EXPECT_EQ(starts(), 2U);
  EXPECT_THAT(told, HasSubstr("Be brief."));
  EXPECT_THAT(desk_.closed, ElementsAre("k1"));
}

// Codex tells of a command when it is at work already.
TEST_F(GuestsTest, WhoFollowsOneThatDiedAmongToolsOfItsOwnIsToldToLook) {
  say_ok();
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer_of(ask(inside(messages)))));
  EXPECT_THAT(turns_.back(), Not(HasSubstr("cut off")));
  messages.push_back(user("second"));
  cell_.on_turn = [&](const std::string&) { cell_.die(); };
  no_answer(ask(inside(messages)));
  EXPECT_EQ(starts(), 1U) << "it was sent the message, and nobody is sent it as it is once more";
  say_ok();
  make();  // also where another brain asks
  messages.push_back(said(answer_of(ask(inside(messages)))));
  EXPECT_THAT(turns_.back(), HasSubstr("look whether it is done"));
  EXPECT_THAT(turns_.back(), HasSubstr("second"));
  // That holds until a turn has ended well.
  make();
  messages.push_back(user("third"));
  answer_of(ask(inside(messages)));
  EXPECT_EQ(turns_.back(), "third");
}

TEST_F(GuestsTest, WhoFollowsSomebodyThatWasCutOffAndOneThatNeverBeganIsToldToLook) {
  say_ok();
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer_of(ask(inside(messages)))));
  messages.push_back(user("second"));
  cell_.on_turn = [&](const std::string&) { cell_.die(); };
  no_answer(ask(inside(messages)));
  cell_.dies_at_its_start = true;
  no_answer(ask(inside(messages)));
  cell_.dies_at_its_start = false;
  say_ok();
  answer_of(ask(inside(messages)));
  EXPECT_THAT(turns_.back(), HasSubstr("look whether it is done"));
}

TEST_F(GuestsTest, WhoFollowsOneThatFailedAndSaidSoHasNothingToLookFor) {
  cell_.on_turn = [&](const std::string&) { cell_.end_turn("failed"); };
  no_answer(ask(inside(Json::array({user("first")}))));
  say_ok();
  answer_of(ask(inside(Json::array({user("first")}))));
  EXPECT_EQ(starts(), 2U);
  EXPECT_THAT(turns_.back(), Not(HasSubstr("cut off")));
}

// A call that was begun is in the log; whoever comes after is told, and nothing runs again.
TEST_F(GuestsTest, AResultThatNobodyWaitsForIsToldInWords) {
  cell_.on_turn = [&](const std::string&) {
    cell_.want(7, "sandbox_execute", {{"command", "ls"}});
  };
  Json messages = Json::array({user("look")});
  const Answer wants = answer(messages);
  messages.push_back(said(wants));
  messages.push_back(result((*parse_json(wants.content))[0], "a b"));
  make();
  std::string told;
  cell_.on_turn = [&](const std::string& text) {
    told = text;
    cell_.text("ok");
    cell_.end_turn();
  };
  EXPECT_EQ(answer(messages).stop_reason, "end_turn");
  EXPECT_THAT(told, HasSubstr("[It answered: a b]"));
}

TEST_F(GuestsTest, OneThatDidNotWaitForItsToolHearsOfItInWords) {
  std::vector<std::string> turns;
  cell_.on_turn = [&](const std::string& text) {
    turns.push_back(text);
    if (turns.size() == 1) {
      cell_.want(7, "sandbox_execute", {{"command", "ls"}});
      return;
    }
    cell_.text("ok");
    cell_.end_turn();
  };
  Json messages = Json::array({user("look")});
  const Answer wants = answer(messages);
  cell_.end_turn("interrupted");
  settle(std::chrono::milliseconds(20));
  messages.push_back(said(wants));
  messages.push_back(result((*parse_json(wants.content))[0], "a b"));
  EXPECT_EQ(answer(messages).stop_reason, "end_turn");
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_THAT(turns[1], HasSubstr("a b"));
  EXPECT_EQ(starts(), 1U);
}

TEST_F(GuestsTest, WhatPeopleSayMeanwhileComesWithTheResult) {
  cell_.on_turn = [&](const std::string&) {
    cell_.want(7, "sandbox_execute", {{"command", "ls"}});
  };
  Json messages = Json::array({user("look")});
  const Answer wants = answer(messages);
  messages.push_back(said(wants));
  Json both = result((*parse_json(wants.content))[0], "a b");
  both["content"].push_back({{"type", "text"}, {"text", "and hurry"}});
  messages.push_back(both);
  linux::TaskGroup later(*loop_);
  later.spawn([](Cell& cell, linux::Loop& loop) -> Task<> {
    while (!cell.heard.back().contains("result"))
      co_await loop.sleep_for(std::chrono::milliseconds(1));
    cell.text("ok");
    cell.end_turn();
  }(cell_, *loop_));
  answer(messages);
  EXPECT_THAT(dump_json(cell_.heard.back()), HasSubstr("and hurry"));
}

// What it was to be sent first holds the instructions, and must not be lost.
TEST_F(GuestsTest, OneThatIsInterruptedBeforeItIsReadyIsToldEverythingAfterwards) {
  cell_.is_silent = true;
  {
    linux::TaskGroup asking(*loop_);
    asking.spawn([](Guests& guests, Question wish) -> Task<> {
      co_await guests.ask(std::move(wish), {.on_text = [](std::string_view) {}, .on_tool = {}});
    }(*guests_, question(Json::array({user("first")}))));
    while (cell_.heard.empty()) settle(std::chrono::milliseconds(5));
  }
  while (cell_.kills == 0) settle(std::chrono::milliseconds(5));  // it may hang
  cell_.is_silent = false;
  std::string told;
  cell_.on_turn = [&](const std::string& text) {
    told = text;
    cell_.text("ok");
    cell_.end_turn();
  };
  answer(Json::array({user("first"), user("second")}));
  EXPECT_THAT(told, HasSubstr("Be brief."));
  EXPECT_THAT(told, HasSubstr("first"));
}

TEST_F(GuestsTest, AnAnswerHasALimit) {
  cell_.on_turn = [&](const std::string&) {
    for (int i = 0; i < 6; ++i) cell_.text(std::string(1 << 20, 'x'));
  };
  const auto reply = ask(question(Json::array({user("talk")})));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(reply));
  EXPECT_THAT(std::get<NoAnswer>(reply).message, HasSubstr("more than an answer may hold"));
}

TEST_F(GuestsTest, WhatWasUsedIsToldOnceWhateverHappens) {
  cell_.on_turn = [&](const std::string&) { cell_.die(); };
  desk_.usage = {.input = 10, .output = 3, .cost_nano = 7};
  const auto failed = ask(question(Json::array({user("first")})));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(failed));
  EXPECT_EQ(std::get<NoAnswer>(failed).usage, desk_.usage);
  cell_.on_turn = [&](const std::string&) {
    cell_.text("ok");
    cell_.end_turn();
  };
  desk_.usage = {.input = 1, .output = 1, .cost_nano = 1};  // of the next key
  const Answer reply = answer(Json::array({user("first")}));
  EXPECT_EQ(reply.usage, desk_.usage);
}

TEST_F(GuestsTest, WhatIsNotInstalledSaysHow) {
  cell_.is_installed = false;
  const auto reply = ask(question(Json::array({user("hi")})));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(reply));
  EXPECT_EQ(std::get<NoAnswer>(reply).trouble, Trouble::kLasting);
  EXPECT_THAT(std::get<NoAnswer>(reply).message, HasSubstr("pons harness install codex"));
}

TEST_F(GuestsTest, InTheSessionsMachineItLiesOnTopOfWhatIsThere) {
  cell_.on_turn = [&](const std::string&) {
    cell_.tell("item/started",
               {{"item", {{"type", "commandExecution"}, {"id", "i1"}, {"command", "ls"}}}});
    cell_.tell(
        "item/completed",
        {{"item", {{"type", "commandExecution"}, {"id", "i1"}, {"aggregatedOutput", "a b"}}}});
    cell_.text("There are a and b.");
    cell_.end_turn();
  };
  Question wish = question(Json::array({user("look")}));
  wish.in_machine = true;
  wish.machine = {.sandbox = "sx-1", .sandbox_template = "base+harness-codex-packages"};
  const auto reply = ask(wish);
  ASSERT_TRUE(std::holds_alternative<Answer>(reply)) << std::get<NoAnswer>(reply).message;
  ASSERT_EQ(hands_.orders.size(), 1U);
  EXPECT_EQ(hands_.orders[0].sandbox_template, "base+harness-codex-packages");
  EXPECT_FALSE(cell_.jobs[0].environment.contains("PATH"));
  const Json blocks = *parse_json(std::get<Answer>(reply).content);
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0]["name"], "codex_commandExecution");
  const auto done =
      linux::run_to_end(*loop_, guests_->own_result("ses_1", blocks[0]["id"].get<std::string>()));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->text, "a b");
  Json messages =
      Json::array({user("look"), said(std::get<Answer>(reply)), result(blocks[0], "a b")});
  Question next = question(messages);
  next.in_machine = true;
  next.machine = wish.machine;
  const auto last = ask(next);
  ASSERT_TRUE(std::holds_alternative<Answer>(last));
  EXPECT_EQ(std::get<Answer>(last).content, R"([{"type":"text","text":"There are a and b."}])");
}

TEST_F(GuestsTest, AnUnknownHarnessIsNoMystery) {
  const auto reply = ask(question(Json::array({user("hi")}), "nobody"));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(reply));
  EXPECT_EQ(std::get<NoAnswer>(reply).trouble, Trouble::kLasting);
}

TEST_F(GuestsTest, OneThatSaysNothingAtItsStartIsEnded) {
  make({.start_time = std::chrono::milliseconds(50)});
  cell_.on_turn = nullptr;
  Question wish = question(Json::array({user("hi")}), "pi");  // which codex' words do not greet
  const auto reply = ask(std::move(wish));
  ASSERT_TRUE(std::holds_alternative<NoAnswer>(reply));
  EXPECT_THAT(std::get<NoAnswer>(reply).message, HasSubstr("said nothing"));
  EXPECT_THAT(cell_.signals, ElementsAre(SIGKILL));
}

TEST_F(GuestsTest, WhoIsNotWaitedForAnyMoreIsInterruptedAndUsableAfterwards) {
  cell_.on_turn = [](const std::string&) {};
  {
    linux::TaskGroup asking(*loop_);
    asking.spawn([](Guests& guests, Question wish) -> Task<> {
      co_await guests.ask(std::move(wish), {.on_text = [](std::string_view) {}, .on_tool = {}});
    }(*guests_, question(Json::array({user("work")}))));
    settle(std::chrono::milliseconds(50));
  }
  settle(std::chrono::milliseconds(50));
  EXPECT_EQ(cell_.heard.back().value("method", ""), "turn/interrupt");
  cell_.on_turn = [&](const std::string& text) {
    cell_.text(text);
    cell_.end_turn();
  };
  EXPECT_EQ(answer(Json::array({user("work"), user("stop that")})).content,
            R"([{"type":"text","text":"stop that"}])");
  EXPECT_EQ(starts(), 1U);
}

TEST_F(GuestsTest, OneThatDoesNotStopIsKilled) {
  make({.interrupt_time = std::chrono::milliseconds(30)});
  cell_.ignores_interrupts = true;
  bool has_begun = false;
  cell_.on_turn = [&](const std::string&) { has_begun = true; };
  {
    linux::TaskGroup asking(*loop_);
    asking.spawn([](Guests& guests, Question wish) -> Task<> {
      co_await guests.ask(std::move(wish), {.on_text = [](std::string_view) {}, .on_tool = {}});
    }(*guests_, question(Json::array({user("work")}))));
    while (!has_begun) settle(std::chrono::milliseconds(5));
    settle(std::chrono::milliseconds(20));
  }
  settle(std::chrono::milliseconds(200));
  EXPECT_THAT(cell_.signals, ElementsAre(SIGKILL));
}

TEST_F(GuestsTest, IdleOnesAreFrozenAndThawForTheNextMessage) {
  make({.pause_after = std::chrono::milliseconds(10)});
  linux::TaskGroup work(*loop_);
  work.spawn(guests_->keep_tidy());
  cell_.on_turn = [&](const std::string&) {
    cell_.text("ok");
    cell_.end_turn();
  };
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  settle(std::chrono::milliseconds(1'200));
  EXPECT_EQ(cell_.pauses, 1);
  messages.push_back(user("second"));
  answer(messages);
  EXPECT_EQ(cell_.resumes, 1);
  EXPECT_EQ(starts(), 1U);
}

TEST_F(GuestsTest, TheLastOneToBeUsedMakesRoom) {
  make({.processes = 1});
  cell_.on_turn = [&](const std::string&) {
    cell_.text("ok");
    cell_.end_turn();
  };
  answer(Json::array({user("first")}));
  Question other = question(Json::array({user("hi")}));
  other.session = "ses_2";
  EXPECT_TRUE(std::holds_alternative<Answer>(ask(std::move(other))));
  EXPECT_EQ(guests_->running(), 1U);
}

TEST_F(GuestsTest, ItsToolsAreListedForItsSandboxAndForNobodyElse) {
  cell_.on_turn = [&](const std::string&) {
    cell_.text("ok");
    cell_.end_turn();
  };
  answer(Json::array({user("first")}));
  EXPECT_THAT(guests_->list(cell_.created[0].id), HasSubstr(R"("name":"sandbox_execute")"));
  EXPECT_THAT(guests_->list(cell_.created[0].id), HasSubstr(R"("inputSchema":{"type":"object"})"));
  EXPECT_EQ(guests_->list("another"), "[]");
  const auto called = linux::run_to_end(
      *loop_, guests_->call({.project = "another", .id = "1", .name = "sandbox_execute"}));
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, ErrorCode::kNotFound);
}

// ---- what is gone, silent or endless

TEST_F(GuestsTest, AGuestWhoseCellWasEndedBySomebodyIsFollowedByANewOne) {
  make({.pause_after = std::chrono::milliseconds(10)});
  linux::TaskGroup work(*loop_);
  work.spawn(guests_->keep_tidy());
  say_ok();
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  settle(std::chrono::milliseconds(1'200));
  ASSERT_EQ(cell_.pauses, 1);
  cell_.is_gone = true;
  cell_.files.clear();
  messages.push_back(user("second"));
  EXPECT_EQ(answer(messages).stop_reason, "end_turn");
  EXPECT_EQ(starts(), 2U);
  EXPECT_THAT(turns_.back(), HasSubstr("first"));
}

TEST_F(GuestsTest, WhoSaysNothingTwiceIsNotAskedAThirdTime) {
  make({.start_time = std::chrono::milliseconds(30)});
  cell_.is_silent = true;
  const Question wish = question(Json::array({user("hi")}));
  EXPECT_EQ(no_answer(ask(wish)).trouble, Trouble::kPassing);
  EXPECT_EQ(no_answer(ask(wish)).trouble, Trouble::kLasting);
  // The next message is a new beginning.
  EXPECT_EQ(no_answer(ask(wish)).trouble, Trouble::kPassing);
}

TEST_F(GuestsTest, WarningsAreNoSignOfLife) {
  make({.start_time = std::chrono::milliseconds(100)});
  cell_.is_silent = true;
  linux::TaskGroup later(*loop_);
  later.spawn([](Cell& cell, linux::Loop& loop) -> Task<> {
    for (int i = 0; i < 40; ++i) {
      cell.say_raw("warning: still starting");
      co_await loop.sleep_for(std::chrono::milliseconds(50));
    }
    cell.die();
  }(cell_, *loop_));
  const NoAnswer none = no_answer(ask(question(Json::array({user("hi")}))));
  EXPECT_THAT(none.message, HasSubstr("said nothing"));
  EXPECT_THAT(none.message, HasSubstr("warning: still starting"));
}

TEST_F(GuestsTest, ATurnThatNeverEndsIsEnded) {
  make({.turn_time = std::chrono::milliseconds(100)});
  cell_.on_turn = [](const std::string&) {};
  linux::TaskGroup later(*loop_);
  later.spawn([](Cell& cell, linux::Loop& loop) -> Task<> {
    for (int i = 0; i < 60; ++i) {
      cell.tell("item/agentMessage/delta", {{"delta", "and "}});
      co_await loop.sleep_for(std::chrono::milliseconds(30));
    }
    cell.end_turn();
  }(cell_, *loop_));
  const NoAnswer none = no_answer(ask(question(Json::array({user("hi")}))));
  EXPECT_EQ(none.trouble, Trouble::kLasting);
  EXPECT_THAT(none.message, HasSubstr("which is the most"));
  EXPECT_EQ(cell_.kills, 1);
}

TEST_F(GuestsTest, WhoIsInterruptedIsToldOnceAndHasOneDeadline) {
  make({.interrupt_time = std::chrono::milliseconds(300)});
  cell_.ignores_interrupts = true;
  bool has_begun = false;
  cell_.on_turn = [&](const std::string&) { has_begun = true; };
  {
    linux::TaskGroup asking(*loop_);
    asking.spawn([](Guests& guests, Question wish) -> Task<> {
      co_await guests.ask(std::move(wish), {.on_text = [](std::string_view) {}, .on_tool = {}});
    }(*guests_, question(Json::array({user("work")}))));
    while (!has_begun) settle(std::chrono::milliseconds(5));
  }
  settle(std::chrono::milliseconds(20));
  EXPECT_EQ(cell_.count_of("turn/interrupt"), 1);
  say_ok();
  EXPECT_EQ(answer(Json::array({user("work"), user("stop that")})).stop_reason, "end_turn");
  EXPECT_EQ(cell_.count_of("turn/interrupt"), 1);
  EXPECT_EQ(cell_.kills, 1);
  // The deadline of that turn is nobody else's.
  settle(std::chrono::milliseconds(400));
  EXPECT_EQ(cell_.kills, 1);
}

// ---- tools of its own beside ours

TEST_F(GuestsTest, OursMayBeCalledWhenItsOwnHasEndedAndNobodyHasHeardOfThat) {
  cell_.on_turn = [&](const std::string&) { cell_.own_begins("i1"); };
  Json messages = Json::array({user("work")});
  const Answer own = answer_of(ask(inside(messages)));
  const Json block = (*parse_json(own.content))[0];
  ASSERT_EQ(block["name"], "codex_commandExecution");
  std::optional<Result<mcp::ToolResult>> called;
  linux::TaskGroup calling(*loop_);
  calling.spawn([](Guests& guests, std::optional<Result<mcp::ToolResult>>& into) -> Task<> {
    into = co_await guests.call(
        {.project = "sx-1", .id = "1", .name = "look_up", .arguments = "{\"a\":1}"});
  }(*guests_, called));
  settle(std::chrono::milliseconds(10));
  cell_.own_ends("i1", "made");
  settle(std::chrono::milliseconds(20));
  EXPECT_FALSE(called);  // neither refused nor answered
  const auto done = linux::run_to_end(*loop_, guests_->own_result("ses_1", block["id"]));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->text, "made");
  messages.push_back(said(own));
  messages.push_back(result(block, "made"));
  const Answer ours = answer_of(ask(inside(messages)));
  const Json wanted = (*parse_json(ours.content))[0];
  EXPECT_EQ(wanted["name"], "look_up");
  messages.push_back(said(ours));
  messages.push_back(result(wanted, "found"));
  cell_.text("ok");
  cell_.end_turn();
  EXPECT_EQ(answer_of(ask(inside(messages))).stop_reason, "end_turn");
  ASSERT_TRUE(called && *called);
  EXPECT_EQ((*called)->text, "found");
  EXPECT_FALSE((*called)->is_error);
}

TEST_F(GuestsTest, OursIsRefusedWhileItsOwnIsAtWork) {
  cell_.on_turn = [&](const std::string&) { cell_.own_begins("i1"); };
  answer_of(ask(inside(Json::array({user("work")}))));
  const auto called = linux::run_to_end(
      *loop_, guests_->call({.project = "sx-1", .id = "1", .name = "look_up", .arguments = "{}"}));
  ASSERT_TRUE(called);
  EXPECT_TRUE(called->is_error);
  EXPECT_THAT(called->text, HasSubstr("by itself"));
}

// In one answer each would wait for the other.
TEST_F(GuestsTest, OursAndItsOwnAreTwoAnswers) {
  cell_.on_turn = [&](const std::string&) {
    cell_.want(7, "look_up", {{"a", 1}});
    cell_.own_begins("i1");
  };
  Json messages = Json::array({user("work")});
  const Answer first = answer_of(ask(inside(messages)));
  const Json ours = *parse_json(first.content);
  ASSERT_EQ(ours.size(), 1U);
  EXPECT_EQ(ours[0]["name"], "look_up");
  messages.push_back(said(first));
  messages.push_back(result(ours[0], "found"));
  const Json own = *parse_json(answer_of(ask(inside(messages))).content);
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0]["name"], "codex_commandExecution");
}

TEST_F(GuestsTest, AToolOfItsOwnHasTimesOfItsOwn) {
  make({.wait_time = std::chrono::milliseconds(50)});
  linux::TaskGroup work(*loop_);
  work.spawn(guests_->keep_tidy());
  cell_.on_turn = [&](const std::string&) { cell_.own_begins("i1"); };
  const Answer own = answer_of(ask(inside(Json::array({user("work")}))));
  linux::TaskGroup hearing(*loop_);
  std::optional<Result<session::OwnReport>> done;
  hearing.spawn([](Guests& guests, std::string call,
                   std::optional<Result<session::OwnReport>>& into) -> Task<> {
    into = co_await guests.own_result("ses_1", std::move(call));
  }(*guests_, (*parse_json(own.content))[0]["id"], done));
  settle(std::chrono::milliseconds(2'200));
  EXPECT_EQ(cell_.kills, 0);
  cell_.own_ends("i1", "made");
  settle(std::chrono::milliseconds(50));
  ASSERT_TRUE(done && *done);
  EXPECT_EQ((*done)->text, "made");
}

// ---- what it was told when it began

TEST_F(GuestsTest, WhoHasOtherToolsBeginsAnewAndIsToldEverything) {
  say_ok();
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  messages.push_back(user("second"));
  tools_.push_back(tool("write_down"));
  messages.push_back(said(answer(messages)));
  EXPECT_EQ(starts(), 2U);
  EXPECT_THAT(turns_.back(), HasSubstr("first"));
  EXPECT_THAT(dump_json(cell_.heard), HasSubstr("write_down"));
  EXPECT_EQ(cell_.count_of("thread/resume"), 0);
  // Also where another brain finds what it had heard.
  make();
  tools_.erase(tools_.size() - 1);
  messages.push_back(user("third"));
  answer(messages);
  EXPECT_EQ(cell_.count_of("thread/resume"), 0);
  EXPECT_THAT(turns_.back(), HasSubstr("first"));
}

TEST_F(GuestsTest, WhoHasOtherInstructionsIsToldThem) {
  say_ok();
  Json messages = Json::array({user("first")});
  messages.push_back(said(answer(messages)));
  messages.push_back(user("second"));
  system_ = "Be thorough.";
  messages.push_back(said(answer(messages)));
  EXPECT_EQ(starts(), 1U);
  EXPECT_THAT(turns_.back(), HasSubstr("Be thorough."));
  EXPECT_THAT(turns_.back(), HasSubstr("second"));
  messages.push_back(user("third"));
  answer(messages);
  EXPECT_EQ(turns_.back(), "third");
}

TEST_F(GuestsTest, AnotherVersionThanTheOneThatWasTestedIsNamedWhereItFails) {
  cell_.templates = {{.name = "harness-codex", .source = "codex 0.1 from npm: @openai/codex@0.1"}};
  cell_.on_turn = [&](const std::string&) { cell_.die(); };
  EXPECT_THAT(no_answer(ask(question(Json::array({user("hi")})))).message,
              HasSubstr("codex 0.1 is installed"));
  make();
  cell_.templates[0].source = harness::describe_installation(harness::known_recipes()[1]);
  ASSERT_EQ(harness::known_recipes()[1].name, "codex");
  EXPECT_THAT(no_answer(ask(question(Json::array({user("hi")})))).message,
              ::testing::Not(HasSubstr("is installed")));
}

TEST_F(GuestsTest, WhereARecipeHasNoPlaceItDoesNotLive) {
  std::vector<harness::Recipe> recipes = harness::known_recipes();
  for (harness::Recipe& recipe : recipes) recipe.placements = {harness::Placement::kBrain};
  guests_ = std::make_unique<Guests>(*loop_, cell_, hands_, own_, desk_, recipes, GuestLimits{});
  const NoAnswer none = no_answer(ask(inside(Json::array({user("hi")}))));
  EXPECT_EQ(none.trouble, Trouble::kLasting);
  EXPECT_THAT(none.message, HasSubstr("placement sandbox"));
  EXPECT_EQ(starts(), 0U);
}

TEST_F(GuestsTest, WhatItWouldObeyIsRemovedBeforeItStarts) {
  std::vector<harness::Recipe> recipes = harness::known_recipes();
  for (harness::Recipe& recipe : recipes) recipe.always.removes = {"{home}/orders", "{home}/none"};
  guests_ = std::make_unique<Guests>(*loop_, cell_, hands_, own_, desk_, recipes, GuestLimits{});
  cell_.files["/home/user/orders"] = "run this";
  cell_.files["/home/user/work"] = "of a person";
  say_ok();
  answer(Json::array({user("hi")}));
  EXPECT_EQ(starts(), 1U);
  EXPECT_FALSE(cell_.files.contains("/home/user/orders"));
  EXPECT_TRUE(cell_.files.contains("/home/user/work"));
}

// ---- what it says

TEST_F(GuestsTest, WhatItThinksIsKept) {
  cell_.on_turn = [&](const std::string&) {
    cell_.tell("item/reasoning/textDelta", {{"delta", "Let me "}});
    cell_.tell("item/reasoning/textDelta", {{"delta", "see."}});
    cell_.text("ok");
    cell_.end_turn();
  };
  Json messages = Json::array({user("first")});
  const Answer reply = answer(messages);
  EXPECT_EQ(reply.content,
            R"([{"type":"thinking","thinking":"Let me see."},{"type":"text","text":"ok"}])");
  EXPECT_EQ(deltas_, "ok");
  // It is no news, and nobody's to be told.
  say_ok();
  messages.push_back(said(reply));
  messages.push_back(user("second"));
  answer(messages);
  EXPECT_EQ(turns_.back(), "second");
}

TEST_F(GuestsTest, AnAnswerThatBeginsAnewIsHeardOnce) {
  cell_.on_turn = [&](const std::string&) {
    cell_.tell("item/agentMessage/delta", {{"delta", "I lo"}});
    cell_.tell("error", {{"error", {{"message", "disconnected"}}}, {"willRetry", true}});
    cell_.tell("item/agentMessage/delta", {{"delta", "I look."}});
    cell_.want(7, "look_up", {{"a", 1}});
  };
  const Json blocks = *parse_json(answer(Json::array({user("look")})).content);
  EXPECT_EQ(deltas_, "I lo");
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0]["text"], "I look.");
}

TEST_F(GuestsTest, WhatComesInPiecesAndWholeCountsOnce) {
  const std::string most(9 << 18, 'x');
  cell_.on_turn = [&](const std::string&) {
    cell_.text(most);
    cell_.end_turn();
  };
  EXPECT_EQ(answer(Json::array({user("talk")})).stop_reason, "end_turn");
}

TEST_F(GuestsTest, WhyAModelDidNotAnswerIsNamed) {
  cell_.on_turn = [&](const std::string&) {
    cell_.tell("error",
               {{"error", {{"message", "slow down"}, {"codexErrorInfo", "rateLimitExceeded"}}},
                {"willRetry", false}});
    cell_.end_turn("failed");
  };
  EXPECT_THAT(no_answer(ask(question(Json::array({user("hi")})))).message,
              HasSubstr("slow down (rate_limit)"));
}

TEST_F(GuestsTest, AnAgentBehindAcpMayUseOurToolsAndNoOthers) {
  std::string prompt;
  cell_.on_turn = [&](const std::string& id) {
    prompt = id;
    const auto asks = [&](int question, const char* title) {
      cell_.say({{"id", question},
                 {"method", "session/request_permission"},
                 {"params",
                  {{"toolCall", {{"title", title}}},
                   {"options", Json::array({{{"optionId", "yes"}, {"kind", "allow_once"}},
                                            {{"optionId", "no"}, {"kind", "reject_once"}}})}}}});
    };
    asks(71, "pons_look_up");
    asks(72, "bash");
    asks(73, "pons_format_disk");
  };
  std::map<int, std::string> chosen;
  linux::TaskGroup later(*loop_);
  later.spawn([](Cell& cell, linux::Loop& loop, std::map<int, std::string>& into,
                 const std::string& id) -> Task<> {
    while (into.size() < 3) {
      co_await loop.sleep_for(std::chrono::milliseconds(1));
      for (const Json& line : cell.heard)
        if (line.contains("result")) into[line["id"]] = line["result"]["outcome"]["optionId"];
    }
    cell.say({{"id", std::stoi(id)}, {"result", {{"stopReason", "end_turn"}}}});
  }(cell_, *loop_, chosen, prompt));
  answer_of(ask(question(Json::array({user("look")}), "opencode")));
  EXPECT_EQ(chosen, (std::map<int, std::string>{{71, "yes"}, {72, "no"}, {73, "no"}}));
}

// ---- room, and what is left behind

TEST_F(GuestsTest, ThoseThatAreOnTheirWayTakeRoom) {
  make({.processes = 1});
  cell_.on_turn = [](const std::string&) {};
  std::vector<std::string> refusals;
  linux::TaskGroup asking(*loop_);
  for (const char* session : {"ses_1", "ses_2"}) {
    Question wish = question(Json::array({user("hi")}));
    wish.session = session;
    asking.spawn([](Guests& guests, Question one, std::vector<std::string>& into) -> Task<> {
      const auto reply =
          co_await guests.ask(std::move(one), {.on_text = [](std::string_view) {}, .on_tool = {}});
      if (const auto* none = std::get_if<NoAnswer>(&reply)) into.push_back(none->message);
    }(*guests_, std::move(wish), refusals));
  }
  settle(std::chrono::milliseconds(50));
  EXPECT_EQ(starts(), 1U);
  EXPECT_THAT(refusals, ElementsAre(HasSubstr("1 harnesses are at work")));
}

TEST_F(GuestsTest, ASessionThatIsArchivedLeavesNothing) {
  say_ok();
  answer(Json::array({user("first")}));
  const std::string cell = cell_.created.at(0).id;
  ASSERT_TRUE(guests_->has_guest_in(cell));
  guests_->forget("ses_1");
  settle(std::chrono::milliseconds(20));
  EXPECT_THAT(cell_.destroyed, ElementsAre(cell));
  EXPECT_EQ(cell_.kills, 1);
  EXPECT_FALSE(guests_->has_guest_in(cell));
  EXPECT_THAT(desk_.closed, ElementsAre("k1"));
}

TEST_F(GuestsTest, WhatAnotherBrainLeftBehindGoesWithItsSession) {
  cell_.sandboxes = {{.id = "hx-1",
                      .template_name = "harness-codex",
                      .state = State::kPaused,
                      .labels = {{"pons.session", "ses_1"}}},
                     {.id = "mine",
                      .template_name = "my-harness-of-steel",
                      .state = State::kPaused,
                      .labels = {{"pons.session", "ses_1"}}}};
  linux::TaskGroup work(*loop_);
  work.spawn(guests_->keep_tidy());
  settle(std::chrono::milliseconds(20));
  EXPECT_EQ(cell_.resumes, 1);  // what people have paused stays so
  guests_->forget("ses_1");
  settle(std::chrono::milliseconds(20));
  EXPECT_THAT(cell_.destroyed, ElementsAre("hx-1"));
}

TEST_F(GuestsTest, ACellHasALimitForItsFiles) {
  say_ok();
  answer(Json::array({user("first")}));
  const Limits& limits = cell_.created.at(0).limits;
  EXPECT_GT(limits.disk_bytes, 0U);
  EXPECT_LT(limits.disk_bytes, limits.memory_bytes / 2);
}

}  // namespace
}  // namespace pons::guest
