// Resources and vaults of sessions as a client of the API meets them.

#include "api_fixture.h"
#include "pons/files/file_store.h"
#include "pons/memory/memory_stores.h"

namespace pons::managed {
namespace {

class ResourceRoutes : public ApiTest {
 protected:
  Task<Result<files::File>> store_file(std::string project) {
    CO_TRY(auto upload, co_await files_.begin(std::move(project)));
    CO_TRY_VOID(co_await upload.write("a,b\n1,2\n"));
    co_return co_await upload.finish({.name = "data.csv"});
  }
  std::string upload(const std::string& project = "default") {
    return run(store_file(project)).value().id;
  }
  static Json file(const std::string& id, const char* path = nullptr) {
    return {{"type", "file"}, {"file_id", id}, {"mount_path", path ? Json(path) : Json(nullptr)}};
  }
  static Json only(Json resource) {
    Json list = Json::array();
    list.push_back(std::move(resource));
    return list;
  }
  Answer create(const Json& resources, const Json& more = Json::object()) {
    Json body = {{"agent", agent_.at("id")},
                 {"environment_id", environment_.at("id")},
                 {"resources", resources}};
    body.update(more);
    return ask("POST", "/v1/sessions", body);
  }
  std::string session_with(const Json& resources) {
    return "/v1/sessions/" + create(resources).json.at("id").get<std::string>();
  }
  Json policy_of(const std::string& session) {
    const auto events = run(sessions_.read_all(session));
    const auto& created = std::get<session::Created>(events.value().front().event);
    return parse_json(created.agent.network).value();
  }
  static void expect_refusal(const Answer& answer, int status, const char* says) {
    EXPECT_EQ(answer.status, status) << answer.json.dump();
    EXPECT_NE(answer.json.at("error").at("message").get<std::string>().find(says),
              std::string::npos)
        << answer.json.dump();
  }

  files::FileStore files_{*store_, clock_};
};

TEST_F(ResourceRoutes, AFileHasAPlaceAnIdAndTimes) {
  const std::string id = upload();
  const auto made = create({file(id), file(id, "/home/user/data.csv")});
  ASSERT_EQ(made.status, 200) << made.json.dump();
  const Json& resources = made.json.at("resources");
  ASSERT_EQ(resources.size(), 2U);
  EXPECT_TRUE(resources[0].at("id").get<std::string>().starts_with("sesrsc_"));
  EXPECT_EQ(resources[0].at("mount_path"), "/mnt/session/uploads/" + id);
  EXPECT_EQ(resources[0].at("file_id"), id);
  EXPECT_EQ(resources[0].at("created_at"), resources[0].at("updated_at"));
  EXPECT_EQ(resources[1].at("mount_path"), "/home/user/data.csv");
  const std::string session = made.json.at("id");
  const auto files = run(api_.files_of("default", session));
  ASSERT_TRUE(files);
  ASSERT_EQ(files->wanted.size(), 2U);
  EXPECT_EQ(
      files->wanted[1],
      (SessionFile{.resource = resources[1].at("id"), .file = id, .path = "/home/user/data.csv"}));
  EXPECT_FALSE(files->had_others);
  EXPECT_TRUE(run(api_.files_of("q", session))->wanted.empty());
}

TEST_F(ResourceRoutes, TheyAreListedInPagesFoundAddedAndTakenOut) {
  const std::string first = upload(), second = upload();
  const std::string path = session_with(only(file(first))) + "/resources";
  const auto added = ask("POST", path, file(second, "/data/b"));
  ASSERT_EQ(added.status, 200) << added.json.dump();
  EXPECT_EQ(added.json.at("type"), "file");
  auto listed = ask("GET", path);
  ASSERT_EQ(listed.json.at("data").size(), 2U);
  EXPECT_TRUE(listed.json.at("next_page").is_null());
  EXPECT_EQ(listed.json.at("data")[1], added.json);
  listed = ask("GET", path + "?limit=1");
  ASSERT_EQ(listed.json.at("data").size(), 1U);
  const std::string next = listed.json.at("next_page");
  listed = ask("GET", path + "?limit=1&page=" + next);
  EXPECT_EQ(listed.json.at("data")[0], added.json);
  EXPECT_TRUE(listed.json.at("next_page").is_null());
  EXPECT_EQ(ask("GET", path + "?page=nonsense").status, 400);

  const std::string one = path + "/" + added.json.at("id").get<std::string>();
  EXPECT_EQ(ask("GET", one).json, added.json);
  expect_refusal(ask("POST", one, {{"authorization_token", "x"}}), 400, "github_repository");
  const auto removed = ask("DELETE", one);
  EXPECT_EQ(removed.json.at("type"), "session_resource_deleted");
  EXPECT_EQ(removed.json.at("id"), added.json.at("id"));
  EXPECT_EQ(ask("DELETE", one).status, 404);
  EXPECT_EQ(ask("GET", one).status, 404);
  EXPECT_EQ(ask("POST", one, {{"authorization_token", "x"}}).status, 404);
  const std::string session = path.substr(13, path.rfind('/') - 13);
  EXPECT_TRUE(run(api_.files_of("default", session))->had_others);
}

TEST_F(ResourceRoutes, WhatWouldEndElsewhereIsRefused) {
  const std::string id = upload();
  const std::string path = session_with(nullptr) + "/resources";
  for (const char* place : {"relative", "/a/../b", "/../etc/passwd", "/a//b", "/a/", "/proc/1/mem",
                            "/var/lib/pons/session-files.json"}) {
    expect_refusal(create(only(file(id, place))), 400, "mount_path");
    expect_refusal(ask("POST", path, file(id, place)), 400, "mount_path");
  }
  expect_refusal(create(only(file("../x"))), 400, "file_id");
  expect_refusal(create({file(id, "/a"), file(id, "/a/b")}), 400, "/a/b");
  ASSERT_EQ(ask("POST", path, file(id, "/a/b")).status, 200);
  expect_refusal(ask("POST", path, file(id, "/a/b")), 409, "mount_path");
  expect_refusal(ask("POST", path, file(id, "/a")), 409, "mount_path");
}

TEST_F(ResourceRoutes, WhatIsTooMuchIsRefused) {
  const std::string id = upload();
  Json many = Json::array();
  for (int i = 0; i < 500; ++i) many.push_back(file(id, ("/data/" + std::to_string(i)).c_str()));
  const auto made = create(many);
  ASSERT_EQ(made.status, 200);
  const std::string path = "/v1/sessions/" + made.json.at("id").get<std::string>() + "/resources";
  expect_refusal(ask("POST", path, file(id)), 400, "500");
  many.push_back(file(id));
  EXPECT_EQ(create(many).status, 400);
  expect_refusal(create(only(file(id, ("/" + std::string(2'000, 'a')).c_str()))), 400,
                 "mount_path");
  expect_refusal(create(only(file(std::string(200, 'a')))), 400, "file_id");
}

TEST_F(ResourceRoutes, NobodyGetsWhatIsAnothers) {
  const std::string theirs = upload("q");
  const auto refused = create(only(file(theirs)));
  expect_refusal(refused, 404, "no file");
  EXPECT_EQ(refused.json.at("error").at("details").at("error_code"), "file_not_found");
  const std::string path = session_with(only(file(upload()))) + "/resources";
  const std::string id = ask("GET", path).json.at("data")[0].at("id");
  expect_refusal(ask("POST", path, file(theirs)), 404, "no file");
  for (const auto& [method, target] : std::vector<std::pair<const char*, std::string>>{
           {"GET", path}, {"POST", path}, {"GET", path + "/" + id}, {"DELETE", path + "/" + id}})
    EXPECT_EQ(ask(method, target + "?project=q", file(theirs)).status, 404) << method << target;
  EXPECT_EQ(ask("GET", "/v1/sessions/sesn_none/resources").status, 404);
  EXPECT_EQ(ask("GET", path).json.at("data").size(), 1U);
}

TEST_F(ResourceRoutes, KindsThatCannotBeAreRefusedByName) {
  const std::string path = session_with(nullptr) + "/resources";
  const Json store = {{"type", "memory_store"}, {"memory_store_id", "m"}};
  const Json repository = {{"type", "github_repository"}, {"url", "https://github.com/a/b"}};
  expect_refusal(ask("POST", path, store), 400, "when a session is made");
  expect_refusal(ask("POST", path, repository), 400, "when a session is made");
  expect_refusal(create(only({{"type", "telepathy"}})), 400, "type");
  expect_refusal(create(only({{"type", "file"}, {"file_id", "f"}, {"colour", "red"}})), 400,
                 "colour");
  EXPECT_EQ(create(only(store)).status, 404);
}

Json repository(Json more = Json::object()) {
  Json resource = {{"type", "github_repository"}, {"url", "https://github.com/owner/project.git"}};
  resource.update(more);
  return resource;
}

TEST_F(ResourceRoutes, ARepositoryHasAPlaceAndWhatIsCheckedOut) {
  const Json branch = {{"type", "branch"}, {"name", "feature/one"}};
  const Json commit = {{"type", "commit"}, {"sha", std::string(40, 'a')}};
  Json wish = only(repository());
  wish.push_back(repository({{"checkout", branch}, {"mount_path", "/a"}}));
  wish.push_back(repository({{"checkout", commit}, {"mount_path", "/b"}}));
  const auto made = create(wish);
  ASSERT_EQ(made.status, 200) << made.json.dump();
  const Json& resources = made.json.at("resources");
  EXPECT_TRUE(resources[0].at("id").get<std::string>().starts_with("sesrsc_"));
  EXPECT_EQ(resources[0].at("mount_path"), "/workspace/project");
  EXPECT_TRUE(resources[0].at("checkout").is_null());
  EXPECT_FALSE(resources[0].contains("authorization_token"));
  EXPECT_EQ(resources[1].at("checkout"), branch);
  const auto files = run(api_.files_of("default", made.json.at("id"))).value().wanted;
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].repository->url, "https://github.com/owner/project.git");
  EXPECT_EQ(files[1].repository->branch, "feature/one");
  EXPECT_EQ(files[2].repository->commit, std::string(40, 'a'));
  const std::string one = "/v1/sessions/" + made.json.at("id").get<std::string>() + "/resources/" +
                          resources[0].at("id").get<std::string>();
  expect_refusal(ask("POST", one, {{"authorization_token", "x"}}), 400, "vaults");
  EXPECT_EQ(ask("DELETE", one).status, 200);
}

TEST_F(ResourceRoutes, OneRepositoryTooManyIsRefused) {
  Json many = Json::array();
  for (int i = 0; i < 16; ++i)
    many.push_back(repository({{"mount_path", "/workspace/" + std::to_string(i)}}));
  EXPECT_EQ(create(many).status, 200);
  many.push_back(repository({{"mount_path", "/workspace/16"}}));
  expect_refusal(create(many), 400, "at most 16 repositories");
}

TEST_F(ResourceRoutes, WhatIsNoRepositoryIsRefusedAndNoTokenIsTaken) {
  for (const char* url :
       {"http://github.com/a/b", "https://github.com/a", "https://github.com/a/b/c",
        "https://github.com.evil.example/a/b", "https://x@github.com/a/b",
        "https://github.com/../b", "https://github.com/a/..", "https://github.com/-a/b",
        "https://github.com/a/b?c", "git@github.com:a/b", "https://github.com/a/b'; rm -rf"})
    expect_refusal(create(only(repository({{"url", url}}))), 400, "url");
  for (const char* name : {"", "-x", "a..b", "a b", "a\nb", "/a", "a/", "x.lock", "$(x)", "'"})
    expect_refusal(create(only(repository({{"checkout", {{"type", "branch"}, {"name", name}}}}))),
                   400, "checkout");
  for (const char* sha : {"abc", "HEAD", "--help"})
    expect_refusal(create(only(repository({{"checkout", {{"type", "commit"}, {"sha", sha}}}}))),
                   400, "checkout");
  const auto refused = create(only(repository({{"authorization_token", "ghp_secret"}})));
  expect_refusal(refused, 400, "authorization_token");
  expect_refusal(refused, 400, "vault_ids");
  EXPECT_EQ(refused.json.dump().find("ghp_secret"), std::string::npos);
}

TEST_F(ResourceRoutes, SomebodyElsesMachineAndAnArchivedSessionGetNoFiles) {
  const std::string id = upload();
  const Json elsewhere = {{"name", "x"}, {"config", {{"type", "self_hosted"}}}};
  const std::string far = ask("POST", "/v1/environments", elsewhere).json.at("id");
  expect_refusal(create(only(file(id)), {{"environment_id", far}}), 400, "self_hosted");
  const std::string session = session_with(only(file(id)));
  ask("POST", session + "/archive");
  expect_refusal(ask("POST", session + "/resources", file(id, "/b")), 400, "archived");
  const Json listed = ask("GET", session + "/resources").json.at("data");
  ASSERT_EQ(listed.size(), 1U);
  expect_refusal(ask("DELETE", session + "/resources/" + listed[0].at("id").get<std::string>()),
                 400, "archived");
}

TEST_F(ResourceRoutes, VaultsAreNamedInTheRulesOfTheNetworkAndNowhereElse) {
  const auto made = create(nullptr, {{"vault_ids", {"vlt_ours"}}});
  ASSERT_EQ(made.status, 200) << made.json.dump();
  EXPECT_EQ(made.json.at("vault_ids"), Json{"vlt_ours"});
  EXPECT_EQ(policy_of(made.json.at("id")),
            (Json{{"mode", "public"}, {"project", "default"}, {"vaults", {"vlt_ours"}}}));
  const Json limited = {{"type", "cloud"}, {"networking", {{"type", "limited"}}}};
  const auto closed = ask("POST", "/v1/environments", {{"name", "c"}, {"config", limited}}).json;
  const auto quiet =
      create(nullptr, {{"environment_id", closed.at("id")}, {"vault_ids", {"vlt_ours"}}});
  EXPECT_EQ(policy_of(quiet.json.at("id")),
            (Json{{"mode", "none"}, {"project", "default"}, {"vaults", {"vlt_ours"}}}));

  const auto code = [](const Answer& answer) {
    return answer.json.at("error").at("details").at("error_code");
  };
  const auto none = create(nullptr, {{"vault_ids", {"vlt_none"}}});
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(code(none), "vault_not_found");
  const auto old = create(nullptr, {{"vault_ids", {"vlt_old"}}});
  EXPECT_EQ(old.status, 400);
  EXPECT_EQ(code(old), "vault_archived");
  EXPECT_EQ(create(nullptr, {{"vault_ids", {"vlt_silent"}}}).status, 503);
  expect_refusal(create(nullptr, {{"vault_ids", {"vlt_ours", "vlt_ours"}}}), 400, "twice");
  expect_refusal(create(nullptr, {{"vault_ids", {"a b"}}}), 400, "no id");
  const std::string path = "/v1/sessions/" + made.json.at("id").get<std::string>();
  expect_refusal(ask("POST", path, {{"vault_ids", Json::array()}}), 400, "vault_ids");
}

// What an agent goes on with keeps them.
TEST_F(ResourceRoutes, AChangedAgentKeepsItsVaults) {
  const auto made = create(nullptr, {{"vault_ids", {"vlt_ours"}}});
  const std::string id = made.json.at("id");
  const Json tools = Json::array({{{"type", "agent_toolset_20260401"}}});
  ASSERT_EQ(ask("POST", "/v1/sessions/" + id, {{"agent", {{"tools", tools}}}}).status, 200);
  const auto events = run(sessions_.read_all(id));
  ASSERT_TRUE(events);
  const auto* changed = std::get_if<session::AgentChanged>(&events->back().event);
  ASSERT_NE(changed, nullptr);
  EXPECT_NE(changed->agent.network.find("vlt_ours"), std::string::npos);
}

}  // namespace
}  // namespace pons::managed
