#include "pons/managed/memory_routes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/server.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "pons/store/sqlite_store.h"

namespace pons::managed {
namespace {

struct Answer {
  int status = 0;
  Json body;
  std::string should_retry;
};

Task<Result<std::vector<std::string>>> find_password(std::string text) {
  std::vector<std::string> names;
  if (text.find("hunter2") != std::string::npos) names.emplace_back("github");
  co_return names;
}

class MemoryRoutesTest : public testing::Test {
 protected:
  MemoryRoutesTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-managed-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    store_ = std::move(
        *store::SqliteStore::open(*loop_, {.path = directory_ + "/pons.db", .shown = ""}));
    EXPECT_TRUE(linux::run_to_end(
        *loop_,
        store_->write({{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1)",
                        .values = {}}})));
    memories_ = std::make_unique<memory::MemoryStores>(*store_, clock_, find_password);
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{},
                                             http::route(memory_routes(*memories_)));
    EXPECT_TRUE(
        server_->listen(std::move(*linux::listen_unix(directory_ + "/front", 0600)), "front"));
    stores_ = ask("POST", "/v1/memory_stores", R"({"name":"notes"})").body["id"];
    stores_ = "/v1/memory_stores/" + stores_;
  }
  ~MemoryRoutesTest() override {
    server_.reset();
    memories_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  Task<Answer> send(std::string method, std::string target, std::string body, std::string project) {
    http::Client client(*loop_, http::unix_connector(*loop_, directory_ + "/front"), "brain");
    Answer answer;
    auto response = co_await client.send(
        {.method = std::move(method),
         .target = std::move(target),
         .fields = {{"x-pons-project", std::move(project)}, {"x-pons-key", "key_1"}},
         .body = std::move(body)});
    if (!response) co_return answer;
    answer.status = response->status();
    answer.should_retry = response->head().find("x-should-retry").value_or("");
    answer.body = parse_json((co_await response->read_whole_body(1 << 20)).value_or("null"))
                      .value_or(Json(nullptr));
    co_return answer;
  }
  Answer ask(std::string method, std::string target, std::string body = {},
             std::string project = "p") {
    return linux::run_to_end(
        *loop_, send(std::move(method), std::move(target), std::move(body), std::move(project)));
  }
  Answer create(const std::string& path, const std::string& content = "text") {
    return ask("POST", stores_ + "/memories",
               dump_json(Json{{"path", path}, {"content", content}}));
  }

  SystemClock clock_;
  std::string directory_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<memory::MemoryStores> memories_;
  std::unique_ptr<http::Server> server_;
  std::string stores_;
};

TEST_F(MemoryRoutesTest, AStoreHasEveryMemberOfItsShape) {
  const auto made =
      ask("POST", "/v1/memory_stores", R"({"name":"n","description":null,"metadata":{"k":"v"}})");
  ASSERT_EQ(made.status, 200) << made.body;
  for (const char* key :
       {"id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"})
    EXPECT_TRUE(made.body.contains(key)) << key;
  EXPECT_EQ(made.body["type"], "memory_store");
  EXPECT_EQ(made.body["description"], "");
  EXPECT_TRUE(made.body["archived_at"].is_null());
  const std::string at = "/v1/memory_stores/" + made.body["id"].get<std::string>();
  const auto changed = ask("POST", at, R"({"description":"d","metadata":{"k":null,"a":"b"}})");
  EXPECT_EQ(changed.body["metadata"], Json({{"a", "b"}}));
  EXPECT_EQ(ask("POST", at, R"({"description":null})").body["description"], "");
  EXPECT_FALSE(ask("POST", at + "/archive").body["archived_at"].is_null());
  EXPECT_EQ(ask("POST", at, R"({"name":"x"})").status, 400);
  EXPECT_EQ(ask("GET", "/v1/memory_stores").body["data"].size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/memory_stores?include_archived=true").body["data"].size(), 2U);
  EXPECT_EQ(ask("DELETE", at).body["type"], "memory_store_deleted");
  EXPECT_EQ(ask("GET", at).status, 404);
  EXPECT_EQ(ask("GET", stores_, "", "other").status, 404);
}

TEST_F(MemoryRoutesTest, ViewsShowContentWhereTheyAreToShowIt) {
  const auto made = create("/a.md", "hello");
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_TRUE(made.body["content"].is_null());
  EXPECT_EQ(made.body["content_sha256"], sha256_hex("hello"));
  EXPECT_EQ(made.body["content_size_bytes"], 5);
  const std::string at = stores_ + "/memories/" + made.body["id"].get<std::string>();
  EXPECT_EQ(ask("GET", at).body["content"], "hello");
  EXPECT_TRUE(ask("GET", at + "?view=basic").body["content"].is_null());
  EXPECT_EQ(ask("POST", at + "?view=full", R"({"content":"new"})").body["content"], "new");
  EXPECT_TRUE(
      ask("GET", stores_ + "/memories?view=basic&limit=100").body["data"][0]["content"].is_null());
  EXPECT_EQ(ask("GET", stores_ + "/memories?view=full&limit=20").body["data"][0]["content"], "new");
  for (int i = 0; i < 21; ++i) ASSERT_EQ(create("/" + std::to_string(i)).status, 200);
  const auto page = ask("GET", stores_ + "/memories?view=full&limit=100");
  EXPECT_EQ(page.body["data"].size(), 20U) << "whole, there are no more in a page";
  EXPECT_TRUE(page.body["next_page"].is_string());
  EXPECT_EQ(ask("GET", stores_ + "/memories?view=full&limit=101").status, 400);
  EXPECT_EQ(ask("GET", stores_ + "/memories?view=all").status, 400);
  EXPECT_EQ(ask("POST", stores_ + "/memories", R"({"path":"/n","content":null})").status, 200);
}

TEST_F(MemoryRoutesTest, ConflictsSayWhatAndThatRetryingIsOfNoUse) {
  const auto made = create("/a/b");
  const auto conflict = create("/a");
  EXPECT_EQ(conflict.status, 409);
  EXPECT_EQ(conflict.should_retry, "false");
  EXPECT_EQ(conflict.body["error"]["type"], "memory_path_conflict_error");
  EXPECT_EQ(conflict.body["error"]["conflicting_memory_id"], made.body["id"]);
  EXPECT_EQ(conflict.body["error"]["conflicting_path"], "/a/b");
  const std::string at = stores_ + "/memories/" + made.body["id"].get<std::string>();
  const std::string wrong = R"("precondition":{"type":"content_sha256","content_sha256":")" +
                            std::string(64, '0') + "\"}";
  const auto failed = ask("POST", at, R"({"content":"x",)" + wrong + "}");
  EXPECT_EQ(failed.status, 409);
  EXPECT_EQ(failed.body["error"]["type"], "memory_precondition_failed_error");
  EXPECT_EQ(ask("POST", at, R"({"content":"text",)" + wrong + "}").status, 200)
      << "it is as wanted already";
  EXPECT_EQ(ask("DELETE", at + "?expected_content_sha256=" + std::string(64, '0')).status, 409);
  EXPECT_EQ(ask("DELETE", at + "?expected_content_sha256=" + sha256_hex("text")).body["type"],
            "memory_deleted");
  EXPECT_EQ(ask("DELETE", at).status, 404);
}

TEST_F(MemoryRoutesTest, ListsCollapseFoldersAndComeInPages) {
  for (const char* path : {"/a", "/b/1", "/b/2", "/c"}) ASSERT_EQ(create(path).status, 200);
  const auto first = ask("GET", stores_ + "/memories?depth=1&limit=2");
  ASSERT_EQ(first.body["data"].size(), 2U);
  EXPECT_EQ(first.body["data"][1], Json({{"type", "memory_prefix"}, {"path", "/b/"}}));
  const auto second =
      ask("GET",
          stores_ + "/memories?depth=1&limit=2&page=" + first.body["next_page"].get<std::string>());
  ASSERT_EQ(second.body["data"].size(), 1U);
  EXPECT_EQ(second.body["data"][0]["path"], "/c");
  EXPECT_TRUE(second.body["next_page"].is_null());
  EXPECT_EQ(ask("GET", stores_ + "/memories?path_prefix=%2Fb%2F").body["data"].size(), 2U);
  for (const char* query : {"path_prefix=/b", "depth=2", "limit=0", "limit=x", "page=zzz"})
    EXPECT_EQ(ask("GET", stores_ + "/memories?" + query).status, 400) << query;
}

TEST_F(MemoryRoutesTest, VersionsTellWhoAndCanBeRedacted) {
  const auto made = create("/a", "one");
  const std::string id = made.body["id"];
  ASSERT_EQ(ask("POST", stores_ + "/memories/" + id, R"({"content":"two"})").status, 200);
  const auto all = ask("GET", stores_ + "/memory_versions?memory_id=" + id);
  ASSERT_EQ(all.body["data"].size(), 2U);
  EXPECT_EQ(all.body["data"][0]["operation"], "modified");
  EXPECT_EQ(all.body["data"][1]["created_by"],
            Json({{"type", "api_actor"}, {"api_key_id", "key_1"}}));
  const std::string at =
      stores_ + "/memory_versions/" + made.body["memory_version_id"].get<std::string>();
  EXPECT_EQ(ask("GET", at).body["content"], "one");
  const auto redacted = ask("POST", at + "/redact");
  ASSERT_EQ(redacted.status, 200) << redacted.body;
  for (const char* key : {"content", "path", "content_sha256", "content_size_bytes"})
    EXPECT_TRUE(redacted.body[key].is_null()) << key;
  EXPECT_EQ(redacted.body["redacted_by"]["api_key_id"], "key_1");
  EXPECT_EQ(ask("GET", stores_ + "/memory_versions?api_key_id=key_1").body["data"].size(), 2U);
  EXPECT_EQ(ask("GET", stores_ + "/memory_versions?session_id=x").body["data"].size(), 0U);
  for (const char* query : {"session_id=x&api_key_id=y", "operation=x", "created_at[gte]=x"})
    EXPECT_EQ(ask("GET", stores_ + "/memory_versions?" + query).status, 400) << query;
}

TEST_F(MemoryRoutesTest, WhatIsWrongIsRefusedByName) {
  for (const char* body :
       {"{}", "[]", "x", R"({"name":""})", R"({"name":7})", R"({"name":"n","size":1})",
        R"({"name":"n","metadata":[]})", R"({"name":"n","metadata":{"k":1}})"})
    EXPECT_EQ(ask("POST", "/v1/memory_stores", body).status, 400) << body;
  for (const char* body : {"{}", R"({"path":"a"})", R"({"path":"/a","content":1})",
                           R"({"path":"/a\u0000"})", R"({"path":"/a/../b"})"})
    EXPECT_EQ(ask("POST", stores_ + "/memories", body).status, 400) << body;
  const auto secret = create("/s", "hunter2");
  EXPECT_EQ(secret.status, 403);
  EXPECT_EQ(dump_json(secret.body).find("hunter2"), std::string::npos);
  EXPECT_EQ(ask("GET", "/v1/memory_stores/%ff/memories").status, 404) << "no text names nothing";
}

}  // namespace
}  // namespace pons::managed
