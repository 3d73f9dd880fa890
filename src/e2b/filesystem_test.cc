#include "accounts.h"
#include "data_plane_fixture.h"
#include "entry.h"
#include "pons/base/text.h"

namespace pons::e2b {
namespace {

class FilesystemTest : public DataPlaneTest {
 protected:
  Reply ask(const char* method, const Json& message) {
    return call(std::string("filesystem.Filesystem/") + method, message);
  }
  Json answer(const char* method, const Json& message) {
    const Reply reply = ask(method, message);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply);
  }
  Json refused(const char* method, const Json& message) {
    const Reply reply = ask(method, message);
    EXPECT_GE(reply.status, 400);
    return json_of(reply)["code"];
  }
};

TEST_F(FilesystemTest, AnEntryIsDescribedInTheWordsOfTheSdks) {
  provider_.put("/home/user/f", FileKind::kFile, "hello", 1000);
  const Json entry = answer("Stat", {{"path", "f"}})["entry"];
  EXPECT_EQ(entry, (Json{{"name", "f"},
                         {"type", "FILE_TYPE_FILE"},
                         {"path", "/home/user/f"},
                         {"size", "5"},
                         {"mode", 0644},
                         {"permissions", "-rw-r--r--"},
                         {"owner", "user"},
                         {"group", "user"},
                         {"modifiedTime", "2023-11-14T22:13:20.123456789Z"}}));
  EXPECT_EQ(refused("Stat", {{"path", "/none"}}), "not_found");
  EXPECT_EQ(refused("Stat", {{"path", "~bob/x"}}), "invalid_argument");
  EXPECT_EQ(refused("Stat", {{"path", 7}}), "invalid_argument");
}

TEST_F(FilesystemTest, ALinkIsDescribedByWhatItLeadsTo) {
  provider_.put("/d", FileKind::kDirectory, "", 0);
  provider_.put("/a/one", FileKind::kLink, "", 0);
  provider_.files["/a/one"].link_target = "two";
  provider_.put("/a/two", FileKind::kLink, "", 0);
  provider_.files["/a/two"].link_target = "/d";
  const Json entry = answer("Stat", {{"path", "/a/one"}})["entry"];
  EXPECT_EQ(entry["type"], "FILE_TYPE_DIRECTORY");
  EXPECT_EQ(entry["symlinkTarget"], "/d");
  EXPECT_EQ(entry["permissions"], "Lrw-r--r--");
  EXPECT_EQ(refused("MakeDir", {{"path", "/a/one"}}), "already_exists");
  provider_.files["/a/two"].link_target = "one";  // round and round
  EXPECT_EQ(answer("Stat", {{"path", "/a/one"}})["entry"]["type"], "FILE_TYPE_UNSPECIFIED");
}

TEST_F(FilesystemTest, AListIsInTheOrderOfAWalk) {
  for (const char* path : {"/l/b", "/l/b/x", "/l/b.c", "/l/a"})
    provider_.put(path, std::string(path) == "/l/b" ? FileKind::kDirectory : FileKind::kFile, "",
                  0);
  provider_.put("/l", FileKind::kDirectory, "", 0);
  const auto paths = [&](int depth) {
    std::string all;
    const Json list = answer("ListDir", {{"path", "/l"}, {"depth", depth}});
    for (const Json& entry : list["entries"]) all += entry["path"].get<std::string>() + " ";
    return all;
  };
  EXPECT_EQ(paths(1), "/l/a /l/b /l/b.c ");
  EXPECT_EQ(paths(2), "/l/a /l/b /l/b/x /l/b.c ");
  EXPECT_EQ(refused("ListDir", {{"path", "/none"}}), "not_found");
  EXPECT_EQ(refused("ListDir", {{"path", "/l/a"}}), "invalid_argument");
}

TEST_F(FilesystemTest, DirectoriesAreMadeMovedAndRemoved) {
  EXPECT_EQ(answer("MakeDir", {{"path", "d"}})["entry"]["path"], "/home/user/d");
  EXPECT_EQ(refused("MakeDir", {{"path", "d"}}), "already_exists");
  provider_.put("/file", FileKind::kFile, "", 0);
  EXPECT_EQ(refused("MakeDir", {{"path", "/file"}}), "invalid_argument");
  EXPECT_EQ(answer("Move", {{"source", "d"}, {"destination", "e"}})["entry"]["name"], "e");
  EXPECT_EQ(refused("Move", {{"source", "d"}, {"destination", "f"}}), "not_found");
  EXPECT_EQ(answer("Remove", {{"path", "e"}}), Json::object());
  EXPECT_EQ(answer("Remove", {{"path", "e"}}), Json::object());
}

TEST_F(FilesystemTest, ChangesAreStreamed) {
  provider_.put("/w", FileKind::kDirectory, "", 0);
  provider_.put("/w/new", FileKind::kFile, "abc", 0);
  linux::TaskGroup group(*loop_);
  std::optional<Reply> reply;
  send_aside(
      group,
      stream_request("filesystem.Filesystem/WatchDir", {{"path", "/w"}, {"includeEntry", true}}),
      reply);
  run_until([&] { return !provider_.watches.empty(); });
  provider_.watches[0]->add({.kind = FileChange::Kind::kCreate, .path = "/w/new"});
  provider_.watches[0]->add({.kind = FileChange::Kind::kRemove, .path = "/w/sub/old"});
  provider_.watches[0]->gone = true;
  run_until([&] { return reply.has_value(); });
  const auto events = messages_of(reply->body);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0], (Json{{"start", Json::object()}}));
  EXPECT_EQ(events[1]["filesystem"]["name"], "new");
  EXPECT_EQ(events[1]["filesystem"]["type"], "EVENT_TYPE_CREATE");
  EXPECT_EQ(events[1]["filesystem"]["entry"]["size"], "3");
  EXPECT_EQ(events[2]["filesystem"], (Json{{"name", "sub/old"}, {"type", "EVENT_TYPE_REMOVE"}}));
  EXPECT_EQ(events[3], (Json{{"end", Json::object()}}));
}

TEST_F(FilesystemTest, AllWhoWatchAPlaceShareOneWatchAndHearTheSame) {
  provider_.put("/w", FileKind::kDirectory, "", 0);
  linux::TaskGroup group(*loop_);
  std::vector<std::optional<Reply>> replies(5);
  for (auto& reply : replies)
    send_aside(group, stream_request("filesystem.Filesystem/WatchDir", {{"path", "/w"}}), reply);
  const Json polled = answer("CreateWatcher", {{"path", "/w"}});
  run_until([&] { return provider_.stats == 6; });  // each looks, and follows at once
  provider_.watches[0]->add({.path = "/w/a"});
  provider_.watches[0]->add({.path = "/w/b"});
  run_until([&] { return provider_.watches[0]->waiting.empty(); });
  provider_.watches[0]->gone = true;
  provider_.watches[0]->changed.set();
  run_until([&] {
    return std::ranges::all_of(replies, [](const auto& reply) { return reply.has_value(); });
  });
  for (const auto& reply : replies) EXPECT_EQ(messages_of(reply->body).size(), 4U);
  EXPECT_EQ(answer("GetWatcherEvents", polled)["events"].size(), 2U);
  EXPECT_EQ(refused("GetWatcherEvents", polled), "not_found");
  EXPECT_EQ(provider_.watches.size(), 1U);
}

TEST_F(FilesystemTest, AWatchGoesOnWhenTheWayToItWasCut) {
  provider_.put("/w", FileKind::kDirectory, "", 0);
  linux::TaskGroup group(*loop_);
  std::optional<Reply> reply;
  send_aside(group, stream_request("filesystem.Filesystem/WatchDir", {{"path", "/w"}}), reply);
  run_until([&] { return !provider_.watches.empty(); });
  provider_.watches[0]->add({.path = "/w/before"});
  run_until([&] { return provider_.watches[0]->waiting.empty(); });
  provider_.watch_error = make_error(ErrorCode::kUnavailable, "watch files", "the warden is gone");
  provider_.watches[0]->cut = true;
  provider_.watches[0]->changed.set();
  run_until([&] { return provider_.watches[0].use_count() == 2; });
  provider_.watch_error.reset();
  run_until([&] { return provider_.watches.size() == 2; });
  provider_.watches[1]->add({.path = "/w/after"});
  run_until([&] { return provider_.watches[1]->waiting.empty(); });
  EXPECT_FALSE(reply);
  // Of a sandbox that is gone the stream is cut.
  provider_.sandboxes.clear();
  provider_.watches[1]->cut = true;
  provider_.watches[1]->changed.set();
  run_until([&] { return reply.has_value(); });
  EXPECT_TRUE(reply->cut);
  EXPECT_THAT(reply->body, ::testing::HasSubstr("before"));
  EXPECT_THAT(reply->body, ::testing::HasSubstr("after"));
}

TEST_F(FilesystemTest, AWatchOfNothingIsRefused) {
  EXPECT_EQ(
      stream("filesystem.Filesystem/WatchDir", {{"path", "/none"}}).at(0)["end"]["error"]["code"],
      "not_found");
  EXPECT_EQ(stream("filesystem.Filesystem/WatchDir", {{"path", "/etc/passwd"}})
                .at(0)["end"]["error"]["code"],
            "invalid_argument");
  EXPECT_TRUE(provider_.watches.empty());
}

TEST_F(FilesystemTest, ChangesAreKeptForThoseWhoAskLater) {
  provider_.put("/w", FileKind::kDirectory, "", 0);
  const Json one = answer("CreateWatcher", {{"path", "/w"}});
  const Json two = answer("CreateWatcher", {{"path", "/w"}});
  EXPECT_NE(one["watcherId"], two["watcherId"]);
  EXPECT_EQ(provider_.watches.size(), 1U);  // one watch serves both
  provider_.watches[0]->add({.kind = FileChange::Kind::kWrite, .path = "/w/f"});
  run_until([&] { return provider_.watches[0]->waiting.empty(); });
  EXPECT_EQ(answer("GetWatcherEvents", one)["events"],
            (Json::array({{{"name", "f"}, {"type", "EVENT_TYPE_WRITE"}}})));
  EXPECT_TRUE(answer("GetWatcherEvents", one)["events"].empty());
  EXPECT_EQ(answer("RemoveWatcher", one), Json::object());
  EXPECT_EQ(refused("GetWatcherEvents", one), "not_found");
  EXPECT_EQ(refused("RemoveWatcher", one), "not_found");
  EXPECT_EQ(answer("GetWatcherEvents", two)["events"].size(), 1U);
  EXPECT_EQ(answer("RemoveWatcher", two), Json::object());
  EXPECT_EQ(provider_.watches[0].use_count(), 1);  // nobody watches any more
}

TEST_F(FilesystemTest, AWatcherBelongsToItsSandbox) {
  provider_.put("/w", FileKind::kDirectory, "", 0);
  add_sandbox({.sandbox = "s2", .project = "p", .access_token = "token-2"});
  const Json watcher = answer("CreateWatcher", {{"path", "/w"}});
  auto fields = let_in();
  fields[0].second = "s2";
  fields[2].second = "token-2";
  EXPECT_EQ(send({.method = "POST",
                  .target = "/filesystem.Filesystem/GetWatcherEvents",
                  .fields = fields,
                  .body = dump_json(watcher)})
                .status,
            404);
}

TEST_F(FilesystemTest, WatchersAreBounded) {
  Json refusal;
  provider_.put("/w", FileKind::kDirectory, "", 0);
  for (int i = 0; i < 100 && refusal.is_null(); ++i) {
    const std::string path = "/w/" + std::to_string(i);
    provider_.put(path, FileKind::kDirectory, "", 0);
    const Reply reply = ask("CreateWatcher", {{"path", path}});
    if (reply.status != 200) refusal = json_of(reply)["code"];
  }
  EXPECT_EQ(refusal, "resource_exhausted");
  // What overflows is lost from its beginning, and nothing grows.
  const Json watcher = answer("CreateWatcher", {{"path", "/w/0"}});
  for (int i = 0; i < 40; ++i)
    provider_.watches[0]->add({.path = "/w/0/" + std::string(60'000, 'x') + std::to_string(i)});
  run_until([&] { return provider_.watches[0]->waiting.empty(); });
  const Json events = answer("GetWatcherEvents", watcher)["events"];
  EXPECT_LT(events.size(), 20U);
  EXPECT_TRUE(events.back()["name"].get<std::string>().ends_with("39"));
}

TEST(AccountsTest, NonsenseIsPassedOver) {
  Accounts accounts;
  accounts.read_users(
      "a:x:1:1:c:/a:/sh\n::\n\xFF:x:2:2::/:\nb:x:99999999999:::\nc:x:-1\nd:x:4\na:x:9:9::/other:");
  accounts.read_groups("g:x:7:\n:x:8:\ng2:x\n");
  EXPECT_EQ(accounts.find_user("a")->home, "/a");
  EXPECT_EQ(accounts.find_user("b"), nullptr);
  EXPECT_EQ(accounts.find_user("d")->home, "/");
  EXPECT_EQ(accounts.owner_name(2), "2");
  EXPECT_EQ(accounts.group_name(7), "g");
  EXPECT_EQ(accounts.group_name(8), "8");
}

TEST(PathTest, PathsBeginAtHomeAndStayInTheRoot) {
  EXPECT_EQ(*resolve_below("x/./y", "/home/u"), "/home/u/x/y");
  EXPECT_EQ(*resolve_below("", "/home/u"), "/home/u");
  EXPECT_EQ(*resolve_below("~", "/home/u"), "/home/u");
  EXPECT_EQ(*resolve_below("~/a//b/", "/home/u"), "/home/u/a/b");
  EXPECT_EQ(*resolve_below("../../../../etc", "/home/u"), "/etc");
  EXPECT_EQ(*resolve_below("/", "/home/u"), "/");
  EXPECT_FALSE(resolve_below("~bob", "/home/u"));
  EXPECT_FALSE(resolve_below(std::string("/a\0b", 4), "/"));
  EXPECT_FALSE(resolve_below("/" + std::string(5000, 'x'), "/"));
}

TEST(EntryTest, PermissionsAreWrittenAsTheOriginalWritesThem) {
  const auto text = [](FileKind kind, std::uint32_t mode) {
    return permissions_text({.kind = kind, .mode = mode});
  };
  EXPECT_EQ(text(FileKind::kFile, 0644), "-rw-r--r--");
  EXPECT_EQ(text(FileKind::kFile, 04755), "urwxr-xr-x");
  EXPECT_EQ(text(FileKind::kFile, 06711), "ugrwx--x--x");
  EXPECT_EQ(text(FileKind::kDirectory, 0755), "drwxr-xr-x");
  EXPECT_EQ(text(FileKind::kDirectory, 01777), "dtrwxrwxrwx");
  EXPECT_EQ(text(FileKind::kDirectory, 02750), "dgrwxr-x---");
  EXPECT_EQ(text(FileKind::kLink, 0777), "Lrwxrwxrwx");
}

TEST(EntryTest, TimesBeforeTheEpochAreTimes) {
  EXPECT_EQ(time_text(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(time_text(-1), "1969-12-31T23:59:59.999999999Z");
}

}  // namespace
}  // namespace pons::e2b
