#include <gmock/gmock.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli_fixture.h"
#include "pons/audit/audit_log.h"
#include "pons/base/json.h"
#include "pons/linux/fd.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kValue = "ghp_Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUaFo46iX";
constexpr const char* kCredential =
    R"({"name":"GITHUB_TOKEN","kind":"static","redacted":"ghp_…","length":40,"scrub":true,)"
    R"("created_unix_ms":1,"rotated_unix_ms":1,"bindings":[{"host":"api.github.com","ports":[443],)"
    R"("position":"header","name":"authorization","format":"Bearer {}"}]})";

// Standard input holds this text while the object lives.
class Input {
 public:
  explicit Input(std::string_view text)
      : saved_(std::move(*linux::duplicate(STDIN_FILENO))),
        pipe_(std::move(*linux::create_pipe())) {
    EXPECT_TRUE(linux::write_all(pipe_.write_end.get(), text));
    pipe_.write_end.reset();
    dup2(pipe_.read_end.get(), STDIN_FILENO);
  }
  ~Input() { dup2(saved_.get(), STDIN_FILENO); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

 private:
  linux::UniqueFd saved_;
  linux::Pipe pipe_;
};

class VaultCliTest : public AnsweredCliTest {
 protected:
  Outcome vault(const std::string& body, std::vector<std::string> words,
                std::string_view input = "", int status = 200) {
    const Input standard_input(input);
    words.insert(words.begin(), "vault");
    return run_against(status, body, std::move(words), "egress");
  }
};

TEST_F(VaultCliTest, AValueGoesFromStandardInputIntoTheBodyAndNowhereElse) {
  const Outcome set = vault(kCredential, {"set", "GITHUB_TOKEN", "--preset", "github"},
                            fmt::format("{}\n", kValue));
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_EQ(
      asked_,
      fmt::format(R"(PUT /vault/GITHUB_TOKEN {{"scrub":true,"preset":"github","value":"{}"}})",
                  kValue));
  EXPECT_THAT(set.out, AllOf(HasSubstr("GITHUB_TOKEN"), HasSubstr("api.github.com"),
                             Not(HasSubstr(kValue))));
  EXPECT_THAT(set.err, Not(HasSubstr(kValue)));
}

TEST_F(VaultCliTest, ABindingEndsWhereTheNextWordBegins) {
  const Outcome set = vault(kCredential, {"set", "--bind", "host=a.example.com", "KEY"}, kValue);
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_THAT(asked_, HasSubstr("PUT /vault/KEY "));
}

TEST_F(VaultCliTest, BindingsAreHandedOnAsTyped) {
  const Outcome set = vault(kCredential,
                            {"set", "KEY", "--no-scrub", "--bind",
                             "host=api.example.com,header=Authorization,format=Bearer {}", "--bind",
                             "host=b.example.com"},
                            kValue);
  EXPECT_EQ(set.exit_code, 0) << set.err;
  const auto body = parse_json(asked_.substr(asked_.find('{')));
  ASSERT_TRUE(body) << asked_;
  EXPECT_EQ(body->at("bindings"),
            Json::array({"host=api.example.com,header=Authorization,format=Bearer {}",
                         "host=b.example.com"}));
  EXPECT_EQ(body->at("scrub"), false);
}

TEST_F(VaultCliTest, WhatIsNotSaidOrMakesNoSenseIsRefusedBeforeAnythingIsSent) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"set", "KEY"},
        {"set", "KEY", "--preset", "github", "--bind", "host=a.example.com"},
        {"set", "../KEY", "--preset", "github"},
        {"set", "key", "--preset", "github"},
        {"rotate", "KEY", "--grace", "soon"},
        {"show", "A/B"},
        {"rm", "A?x"}}) {
    asked_.clear();
    EXPECT_EQ(vault(kCredential, words, kValue).exit_code, 1) << words[1];
    EXPECT_EQ(asked_, "");
  }
  EXPECT_EQ(vault(kCredential, {"set", "KEY", "--preset", "github"}, "").exit_code, 1);
  EXPECT_EQ(vault(kCredential, {"set", "KEY", "--preset", "github"}, "\n").exit_code, 1);
  EXPECT_EQ(vault(kCredential, {"set", "KEY", kValue, "--preset", "github"}, "").exit_code, 2)
      << "a value on the command line is wrong usage";
  EXPECT_EQ(asked_, "");
}

TEST_F(VaultCliTest, RotateSendsTheGraceTime) {
  const Outcome rotated = vault(kCredential, {"rotate", "GITHUB_TOKEN", "--grace", "2h"}, kValue);
  EXPECT_EQ(rotated.exit_code, 0) << rotated.err;
  EXPECT_EQ(asked_,
            fmt::format(R"(POST /vault/GITHUB_TOKEN/rotate {{"grace_seconds":7200,"value":"{}"}})",
                        kValue));
}

TEST_F(VaultCliTest, ListsShowsAndRemoves) {
  const std::string all = fmt::format(R"({{"credentials":[{}],"damaged":[]}})", kCredential);
  const Outcome list = vault(all, {"ls"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(asked_, "GET /vault");
  EXPECT_THAT(list.out, AllOf(HasSubstr("GITHUB_TOKEN"), HasSubstr("api.github.com")));
  EXPECT_EQ(vault(all, {"ls", "--json"}).out, all + "\n");
  const Outcome shown = vault(kCredential, {"show", "GITHUB_TOKEN"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("header authorization"), HasSubstr("Bearer {}")));
  const Outcome removed = vault(R"({"removed":"GITHUB_TOKEN"})", {"rm", "GITHUB_TOKEN"});
  EXPECT_EQ(removed.exit_code, 0);
  EXPECT_EQ(asked_, "DELETE /vault/GITHUB_TOKEN");
}

TEST_F(VaultCliTest, ADamagedFileIsNamedAndMakesTheListFail) {
  const Outcome list = vault(
      R"({"credentials":[],"damaged":[{"name":"X","file":"/s/vault/X.sealed","reason":"cut\u001b"}]})",
      {"ls"});
  EXPECT_EQ(list.exit_code, 1);
  EXPECT_THAT(list.err, AllOf(HasSubstr("/s/vault/X.sealed"), Not(HasSubstr("\x1b"))));
}

TEST_F(VaultCliTest, ARefusalIsShownAndAHostileAnswerIsNotObeyed) {
  const Outcome refused = vault(R"({"error":{"message":"the value repeats itself"}})",
                                {"set", "KEY", "--preset", "github"}, kValue, 400);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("repeats itself"));
  for (const char* body : {"[]", "{}", "null", "not json", R"({"credentials":7,"damaged":[]})",
                           R"({"credentials":[{"name":"\u001b[2J"}],"damaged":[]})"})
    EXPECT_EQ(vault(body, {"ls"}).exit_code, 1) << body;
}

// ---- audit

class AuditCliTest : public CliTest {
 protected:
  AuditCliTest() { std::filesystem::create_directories(scratch_ + "/egress"); }
  void fill(int events) {
    const auto log = audit::AuditLog::open(scratch_ + "/egress/audit", clock_);
    ASSERT_TRUE(log);
    for (int i = 0; i < events; ++i)
      ASSERT_TRUE(
          (*log)->append({.verdict = i % 2 == 0 ? audit::Verdict::kBlock : audit::Verdict::kAllow,
                          .sandbox = fmt::format("box{}", i % 3),
                          .host = "example.com",
                          .path = fmt::format("/{}", i)}));
  }
  Outcome audit_command(std::vector<std::string> words) {
    words.insert(words.begin(), "audit");
    words.insert(words.end(), {"--state-dir", scratch_});
    return run_pons(std::move(words));
  }
  SystemClock clock_;
};

TEST_F(AuditCliTest, TailShowsTheLastOnes) {
  fill(30);
  const Outcome shown = audit_command({"tail", "-n", "2"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("path=/28"), HasSubstr("path=/29"), HasSubstr("block"),
                               Not(HasSubstr("path=/27"))));
  EXPECT_THAT(audit_command({"tail", "-n", "1", "--json"}).out, HasSubstr("\"path\":\"/29\""));
}

TEST_F(AuditCliTest, ExportPrintsTheLinesThatWereAskedFor) {
  fill(12);
  const auto count = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  EXPECT_EQ(count(audit_command({"export"}).out), 12);
  EXPECT_EQ(count(audit_command({"export", "--sandbox", "box1"}).out), 4);
  EXPECT_EQ(count(audit_command({"export", "--verdict", "block"}).out), 6);
  EXPECT_EQ(count(audit_command({"export", "--from", "11"}).out), 2);
  EXPECT_EQ(audit_command({"export", "--verdict", "maybe"}).exit_code, 1);
}

TEST_F(AuditCliTest, VerifyTellsAnIntactLogFromAChangedOne) {
  fill(5);
  const Outcome good = audit_command({"verify", "--json"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  const auto hash = parse_json(good.out)->at("hash").get<std::string>();
  EXPECT_EQ(audit_command({"verify", "--hash", hash}).exit_code, 0);
  EXPECT_EQ(audit_command({"verify", "--hash", std::string(64, 'a')}).exit_code, 1);
  const std::string file = scratch_ + "/egress/audit/audit-00000001.jsonl";
  std::string text = *linux::read_file(file);
  text.replace(text.find("example.com"), 7, "innocen");
  ASSERT_TRUE(linux::write_file_atomically(file, text, 0600));
  const Outcome changed = audit_command({"verify"});
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.err, HasSubstr("audit-00000001.jsonl:1 was changed"));
}

TEST_F(AuditCliTest, WithoutALogTheAdviceIsToNameOne) {
  for (const char* verb : {"tail", "export", "verify"}) {
    const Outcome none = audit_command({verb});
    EXPECT_EQ(none.exit_code, 1) << verb;
    EXPECT_THAT(none.err, HasSubstr("--state-dir")) << verb;
  }
}

TEST_F(AuditCliTest, WhatSomebodyWroteIntoTheLogDoesNotReachTheTerminal) {
  std::filesystem::create_directories(scratch_ + "/egress/audit");
  ASSERT_TRUE(linux::write_file_atomically(
      scratch_ + "/egress/audit/audit-00000001.jsonl",
      "{\"seq\":1,\"host\":\"\\u001b[2J\"}\n\x1b[2J\n[]\n{\"seq\":\"x\"}\n", 0600));
  for (const char* verb : {"tail", "export", "verify"}) {
    const Outcome outcome = audit_command({verb});
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("\x1b"))) << verb;
  }
}

}  // namespace
}  // namespace pons::cli
