#include "routes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "pons/store/backup_route.h"
#include "pons/store/store_file.h"

namespace pons::brain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RoutesTest : public BrainTest {
 protected:
  // As a door does, without end.
  Task<> follow_keys(std::string seen, std::size_t& known) {
    for (;;) {
      const Answer answer = co_await send("front", "GET", "/keys?after=" + seen, "");
      const Json news = json(answer);
      known = news.at("keys").size();
      seen = news.at("generation").get<std::string>();
    }
  }
  static Json json(const Answer& answer) { return parse_json(answer.text).value_or(Json()); }
  Json create_key(const std::string& body = R"({"name":"ci"})") {
    const Answer made = ask("operator", "POST", "/api-keys", body);
    EXPECT_EQ(made.status, 201) << made.text;
    return json(made);
  }
  Json keys(const std::string& after = {}) {
    const Answer answer = ask("front", "GET", "/keys?after=" + after);
    EXPECT_EQ(answer.status, 200) << answer.text;
    return json(answer);
  }
  std::int64_t count(std::string sql) {
    const auto rows = run(store_->read({.sql = std::move(sql), .values = {}}));
    return rows ? std::get<std::int64_t>((*rows)[0][0]) : -1;
  }
};

// ---- projects

TEST_F(RoutesTest, TheDefaultProjectIsThereFromTheFirstStartAndOnlyOnce) {
  close();
  open();
  const Json projects = json(ask("operator", "GET", "/projects")).at("projects");
  ASSERT_EQ(projects.size(), 1U);
  EXPECT_EQ(projects[0].at("id"), "default");
  EXPECT_EQ(projects[0].at("name"), "default");
}

TEST_F(RoutesTest, AProjectHasANameOfItsOwn) {
  const Answer made = ask("operator", "POST", "/projects", R"({"name":"web"})");
  EXPECT_EQ(made.status, 201) << made.text;
  EXPECT_THAT(json(made).at("id").get<std::string>(), ::testing::StartsWith("prj_"));
  const Answer again = ask("operator", "POST", "/projects", R"({"name":"web"})");
  EXPECT_EQ(again.status, 409) << again.text;
  EXPECT_THAT(again.text, HasSubstr("already"));
  EXPECT_EQ(ask("operator", "POST", "/projects", R"({"name":"default"})").status, 409);
}

// ---- keys

TEST_F(RoutesTest, AKeyIsShownOnceAndOnlyItsHashIsKept) {
  const Json made = create_key();
  const auto text = made.at("key").get<std::string>();
  ASSERT_EQ(text.size(), 45U);
  EXPECT_TRUE(text.starts_with("pons_"));
  const std::string digits = text.substr(5);
  EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(made.at("project"), "default");
  EXPECT_EQ(made.at("scopes"), Json({"sandboxes", "agents", "sessions", "models", "mcp"}));

  const Json known = keys().at("keys");
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].at("hash"), sha256_hex(digits));
  EXPECT_EQ(known[0].at("id"), made.at("id"));
  EXPECT_EQ(known[0].at("project"), "default");

  const Answer listed = ask("operator", "GET", "/api-keys");
  EXPECT_THAT(listed.text, Not(HasSubstr(digits)));
  EXPECT_THAT(listed.text, Not(HasSubstr(sha256_hex(digits))));
  close();
  for (const char* file : {"pons.db"})
    EXPECT_THAT(linux::read_file(file, 16 << 20).value_or(""), Not(HasSubstr(digits)));
  open();
}

TEST_F(RoutesTest, TwoKeysAreNeverTheSame) {
  EXPECT_NE(create_key().at("key"), create_key().at("key"));
}

TEST_F(RoutesTest, AKeyHasTheScopesThatWereAskedFor) {
  const Json made = create_key(R"({"name":"root","scopes":["admin","models","admin"]})");
  EXPECT_EQ(made.at("scopes"), Json({"admin", "models"}));
  close();
  open();
  EXPECT_EQ(keys().at("keys")[0].at("scopes"), Json({"admin", "models"}));
  EXPECT_EQ(ask("operator", "POST", "/api-keys", R"({"name":"x","scopes":["everything"]})").status,
            400);
  EXPECT_EQ(ask("operator", "POST", "/api-keys", R"({"name":"x","scopes":[]})").status, 400);
}

TEST_F(RoutesTest, AKeyBelongsToAProjectNamedByIdOrName) {
  const Json project = json(ask("operator", "POST", "/projects", R"({"name":"web"})"));
  EXPECT_EQ(create_key(R"({"name":"a","project":"web"})").at("project"), project.at("id"));
  EXPECT_EQ(create_key(dump_json({{"name", "b"}, {"project", project.at("id")}})).at("project"),
            project.at("id"));
  const Answer unknown = ask("operator", "POST", "/api-keys", R"({"name":"a","project":"nobody"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.text, HasSubstr("nobody"));
}

TEST_F(RoutesTest, ARevokedKeyIsGoneFromTheFeedAndStaysInTheList) {
  const auto id = create_key().at("id").get<std::string>();
  const Json kept = create_key();
  EXPECT_EQ(ask("operator", "DELETE", "/api-keys/" + id).status, 200);
  EXPECT_EQ(ask("operator", "DELETE", "/api-keys/" + id).status, 200) << "twice is no error";
  const auto expect_one = [&] {
    const Json known = keys().at("keys");
    ASSERT_EQ(known.size(), 1U);
    EXPECT_EQ(known[0].at("id"), kept.at("id"));
  };
  expect_one();
  close();
  open();
  expect_one();
  const Json listed = json(ask("operator", "GET", "/api-keys")).at("keys");
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(std::ranges::count_if(
                listed, [](const Json& key) { return key.at("revoked_unix_ms").is_null(); }),
            1);
  EXPECT_EQ(ask("operator", "DELETE", "/api-keys/key_unknown").status, 404);
}

// ---- the feed

TEST_F(RoutesTest, WhoHasSeenNothingIsAnsweredAtOnce) {
  const Json first = keys();
  EXPECT_TRUE(first.at("keys").empty());
  EXPECT_EQ(keys("something-old").at("generation"), first.at("generation"));
}

TEST_F(RoutesTest, WhoHasSeenAllIsToldOfTheNextChange) {
  const auto id = create_key().at("id").get<std::string>();
  const auto seen = keys().at("generation").get<std::string>();
  std::optional<Answer> news;
  linux::TaskGroup waiting(*loop_);
  const auto wait = [](Task<Answer> asked, std::optional<Answer>& answer) -> Task<> {
    answer = co_await std::move(asked);
  };
  waiting.spawn(wait(send("front", "GET", "/keys?after=" + seen, ""), news));
  // Others are served meanwhile, and nothing that changes no key ends the wait.
  EXPECT_EQ(ask("operator", "POST", "/projects", R"({"name":"web"})").status, 201);
  EXPECT_FALSE(news);
  EXPECT_EQ(ask("operator", "DELETE", "/api-keys/" + id).status, 200);
  while (!news) ask("operator", "GET", "/projects");
  ASSERT_TRUE(news);
  EXPECT_TRUE(json(*news).at("keys").empty());
  EXPECT_NE(json(*news).at("generation"), seen);
}

TEST_F(RoutesTest, WhoMakesAKeyHearsOfItWhenTheDoorKnowsIt) {
  std::size_t known = 0;
  linux::TaskGroup following(*loop_);
  following.spawn(follow_keys(keys().at("generation").get<std::string>(), known));
  create_key();
  EXPECT_EQ(known, 1U);
}

TEST_F(RoutesTest, AnotherProcessHasAnotherGeneration) {
  const auto seen = keys().at("generation").get<std::string>();
  close();
  open();
  EXPECT_NE(keys(seen).at("generation"), seen);
}

TEST_F(RoutesTest, AFrontThatLeavesWhileItWaitsDoesNoHarm) {
  const auto seen = keys().at("generation").get<std::string>();
  {
    linux::TaskGroup waiting(*loop_);
    const auto wait = [](Task<Answer> asked) -> Task<> { co_await std::move(asked); };
    for (int i = 0; i < 10; ++i)
      waiting.spawn(wait(send("front", "GET", "/keys?after=" + seen, "")));
    EXPECT_EQ(ask("operator", "GET", "/projects").status, 200);
    EXPECT_GE(server_->connection_count(), 10U);
  }
  create_key();
  EXPECT_EQ(keys().at("keys").size(), 1U);
}

// ---- records

TEST_F(RoutesTest, RecordsAreKeptAndTellingThemTwiceChangesNothing) {
  const std::string records =
      R"([{"op":"create","id":"s1","project":"default","template":"base","metadata":{"a":"b"},"at_unix_ms":5},
          {"op":"create","id":"s2","project":"default","template":"base"},
          {"op":"end","id":"s1","project":"default","reason":"killed","at_unix_ms":9}])";
  for (int i = 0; i < 2; ++i) {
    const Answer answer = ask("front", "POST", "/sandbox-records", records);
    EXPECT_EQ(answer.status, 200) << answer.text;
    EXPECT_EQ(json(answer).at("stored"), 3);
    EXPECT_TRUE(json(answer).at("refused").empty());
  }
  EXPECT_EQ(count("SELECT count(*) FROM sandboxes"), 2);
  EXPECT_EQ(count("SELECT count(*) FROM sandboxes WHERE id = 's1' AND created = 5 AND ended = 9 "
                  "AND end_reason = 'killed' AND metadata = '{\"a\":\"b\"}'"),
            1);
  EXPECT_EQ(count("SELECT count(*) FROM sandboxes WHERE id = 's2' AND ended IS NULL"), 1);
}

TEST_F(RoutesTest, ARecordThatContradictsKeepsNoOtherFromBeingStored) {
  ASSERT_EQ(ask("operator", "POST", "/projects", R"({"name":"web"})").status, 201);
  const auto web = json(ask("operator", "GET", "/projects")).at("projects")[1].at("id");
  ASSERT_EQ(
      ask("front", "POST", "/sandbox-records", R"([{"op":"create","id":"s1","project":"default"}])")
          .status,
      200);
  const Answer mixed = ask("front", "POST", "/sandbox-records",
                           fmt::format(R"([{{"op":"create","id":"s2","project":"nobody"}},
               {{"op":"create","id":"s1","project":{0}}},
               {{"op":"end","id":"s1","project":{0},"reason":"stolen"}},
               {{"op":"create","id":"s3","project":{0}}}])",
                                       web.dump()));
  EXPECT_EQ(mixed.status, 200) << mixed.text;
  EXPECT_EQ(json(mixed).at("stored"), 2) << mixed.text;
  ASSERT_EQ(json(mixed).at("refused").size(), 2U);
  EXPECT_EQ(json(mixed).at("refused")[0].at("index"), 0);
  EXPECT_EQ(json(mixed).at("refused")[1].at("index"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM sandboxes WHERE ended IS NULL"), 2);
}

// ---- limits of projects

TEST_F(RoutesTest, LimitsStandUntilTheyAreChangedAndNoneTakesOneAway) {
  const auto limits = [this](const std::string& body) {
    const Answer answer = ask("operator", "POST", "/projects/default/limits", body);
    EXPECT_EQ(answer.status, 200) << answer.text;
    return json(answer).at("limits");
  };
  EXPECT_EQ(
      limits("{}"),
      Json({{"sandboxes", nullptr}, {"sessions", nullptr}, {"requests_per_second", nullptr}}));
  EXPECT_EQ(limits(R"({"sandboxes":2,"requests_per_second":5})").at("sandboxes"), 2);
  EXPECT_EQ(keys().at("requests_per_second"), Json({{"default", 5}}));
  const Json left = limits(R"({"requests_per_second":null,"sessions":9})");
  EXPECT_EQ(left, Json({{"sandboxes", 2}, {"sessions", 9}, {"requests_per_second", nullptr}}));
  EXPECT_EQ(keys().at("requests_per_second"), Json::object());
  close();
  open();
  EXPECT_EQ(json(ask("operator", "GET", "/projects")).at("projects")[0].at("limits"), left);
  for (const char* wrong : {R"({"sandboxes":-1})", R"({"sandboxes":"2"})", R"({"cpus":1})", "[]"})
    EXPECT_EQ(ask("operator", "POST", "/projects/default/limits", wrong).status, 400) << wrong;
  EXPECT_EQ(ask("operator", "POST", "/projects/none/limits", "{}").status, 404);
}

TEST_F(RoutesTest, AProjectHasNoMoreSandboxesThanItMayHaveAndOneThatEndsMakesRoom) {
  const std::string web =
      json(ask("operator", "POST", "/projects", R"({"name":"web"})")).at("id").get<std::string>();
  ASSERT_EQ(ask("operator", "POST", "/projects/web/limits", R"({"sandboxes":2})").status, 200);
  const auto tell = [this](const std::string& op, const std::string& id,
                           const std::string& project) {
    return json(ask("front", "POST", "/sandbox-records",
                    fmt::format(R"([{{"op":"{}","id":"{}","project":"{}"}}])", op, id, project)));
  };
  EXPECT_EQ(tell("create", "a", web).at("stored"), 1);
  EXPECT_EQ(tell("create", "b", web).at("stored"), 1);
  const Json refused = tell("create", "c", web);
  EXPECT_EQ(refused.at("stored"), 0);
  EXPECT_EQ(refused.at("refused")[0].at("type"), "limit");
  EXPECT_EQ(tell("create", "b", web).at("stored"), 1) << "telling twice is not one more";
  EXPECT_EQ(tell("create", "d", "default").at("stored"), 1) << "others do not feel it";
  EXPECT_EQ(tell("end", "a", web).at("stored"), 1);
  EXPECT_EQ(tell("create", "c", web).at("stored"), 1);
}

// ---- who may ask

TEST_F(RoutesTest, WhoManagesAProjectManagesItsKeysAndNoOthers) {
  const std::string web =
      json(ask("operator", "POST", "/projects", R"({"name":"web"})")).at("id").get<std::string>();
  const auto theirs = create_key().at("id").get<std::string>();
  // Whatever project is named, it is the caller's own.
  const Answer made =
      ask_for(web, "POST", "/api-keys", R"({"name":"x","project":"default","scopes":["read"]})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(json(made).at("project"), web);
  const auto own = json(made).at("id").get<std::string>();
  const Json listed = json(ask_for(web, "GET", "/api-keys")).at("keys");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].at("id"), own);
  EXPECT_EQ(ask_for(web, "DELETE", "/api-keys/" + theirs).status, 404);
  EXPECT_EQ(keys().at("keys").size(), 2U) << "the other project's key is as good as before";
  EXPECT_EQ(ask_for(web, "DELETE", "/api-keys/" + own).status, 200);
  EXPECT_EQ(keys().at("keys").size(), 1U);
  EXPECT_EQ(json(ask_for(web, "GET", "/project")).at("id"), web);
  EXPECT_EQ(ask_for(web, "POST", "/projects/default/limits", "{}").status, 403);
  EXPECT_EQ(ask_for(web, "GET", "/projects").status, 403);
}

TEST_F(RoutesTest, OnlyTheOperatorManagesKeysAndOnlyTheFrontReadsThem) {
  const auto id = create_key().at("id").get<std::string>();
  for (const char* role : {"front", "egress"}) {
    EXPECT_EQ(ask(role, "GET", "/projects").status, 403);
    EXPECT_EQ(ask(role, "POST", "/projects", R"({"name":"x"})").status, 403);
    EXPECT_EQ(ask(role, "GET", "/api-keys").status, 403);
    EXPECT_EQ(ask(role, "POST", "/api-keys", R"({"name":"x"})").status, 403);
    EXPECT_EQ(ask(role, "DELETE", "/api-keys/" + id).status, 403);
    EXPECT_EQ(ask(role, "GET", "/backup").status, 403);
  }
  EXPECT_EQ(ask("egress", "GET", "/keys").status, 403);
  EXPECT_EQ(ask("egress", "POST", "/sandbox-records", "[]").status, 403);
  EXPECT_EQ(keys().at("keys").size(), 1U);
}

// ---- backup

TEST_F(RoutesTest, ABackupIsTheStoreOfThatMomentAndLeavesNoFile) {
  create_key();
  const Answer copy = ask("operator", "GET", "/backup");
  ASSERT_EQ(copy.status, 200);
  std::ofstream("taken.db", std::ios::binary) << copy.text;
  const auto whole = store::check_store_file("taken.db");
  ASSERT_TRUE(whole) << whole.error().describe();
  EXPECT_EQ(whole->bytes, copy.text.size());
  EXPECT_FALSE(std::filesystem::exists(store::kBackupFile));
}

TEST_F(RoutesTest, ABackupThatFailsSaysSoAndTheNextOneWorks) {
  std::filesystem::create_directory(store::kBackupFile);
  const Answer failed = ask("operator", "GET", "/backup");
  EXPECT_GE(failed.status, 400) << failed.text.size();
  std::filesystem::remove(store::kBackupFile);
  EXPECT_EQ(ask("operator", "GET", "/backup").status, 200);
}

}  // namespace
}  // namespace pons::brain
