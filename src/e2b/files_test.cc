#include <zlib.h>

#include "byte_range.h"
#include "data_plane_fixture.h"
#include "pons/base/text.h"
#include "signature.h"

namespace pons::e2b {
namespace {

using ::testing::HasSubstr;

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(bytes.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string unpack(std::string_view packed) {
  z_stream stream{};
  CHECK(inflateInit2(&stream, 31) == Z_OK);
  std::string bytes(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

class FilesTest : public DataPlaneTest {
 protected:
  http::ClientRequest upload(std::string target, std::string type, std::string body) {
    auto fields = let_in();
    fields.back().second = std::move(type);
    return {.method = "POST",
            .target = std::move(target),
            .fields = std::move(fields),
            .body = std::move(body)};
  }
  http::ClientRequest raw(std::string target, std::string body) {
    return upload(std::move(target), "application/octet-stream", std::move(body));
  }
  http::ClientRequest form(std::string target, std::string body) {
    return upload(std::move(target), "multipart/form-data; boundary=XX", std::move(body));
  }
  static std::string part(std::string name, std::string file, std::string data) {
    return "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"" + file +
           "\"\r\nContent-Type: text/plain\r\n\r\n" + data + "\r\n";
  }
  const std::string& content(const std::string& path) { return provider_.files.at(path).content; }
};

// ---- reading

TEST_F(FilesTest, AFileIsSentWholeWithItsLength) {
  std::string bytes(300'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  provider_.put("/home/user/a b", FileKind::kFile, bytes, 1000);
  const Reply reply = get("/files?path=a+b");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.fields.at("Content-Length"), "300000");
  EXPECT_EQ(reply.fields.at("Content-Type"), "application/octet-stream");
  EXPECT_EQ(reply.body, bytes);
}

TEST_F(FilesTest, WhoWantsGzipAloneGetsIt) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += std::to_string(i * 7919 % 1000);
  provider_.put("/f", FileKind::kFile, bytes, 0);
  const auto ask = [&](std::string codings, http::OwnedFields more = {}) {
    http::ClientRequest request{.target = "/files?path=/f", .fields = let_in()};
    request.fields.emplace_back("Accept-Encoding", std::move(codings));
    for (auto& field : more) request.fields.push_back(field);
    return send(std::move(request));
  };
  const Reply packed = ask("gzip");
  EXPECT_EQ(packed.fields.at("Content-Encoding"), "gzip");
  EXPECT_FALSE(packed.fields.contains("Content-Length"));
  EXPECT_LT(packed.body.size(), bytes.size() / 2);
  EXPECT_EQ(unpack(packed.body), bytes);
  EXPECT_EQ(ask("gzip, deflate, br").body, bytes);
  for (const char* packing : {"gzip;q=0.5", "x-gzip", "GZIP, identity;q=0.2", "gzip, *;q=0",
                              "br, identity;q=0, *;q=0.1", "gzip, deflate, identity; q=0.000"}) {
    const Reply reply = ask(packing);
    EXPECT_EQ(reply.status, 200) << packing;
    EXPECT_TRUE(reply.fields.contains("Content-Encoding")) << packing;
  }
  for (const char* plain : {"", "gzip;q=0", "gzip; Q=0.0", "identity", "*", "br", "gzip, *",
                            "gzip;q=0.1, identity;q=0.9", "gzip, br;q=0.1"})
    EXPECT_EQ(ask(plain).body, bytes) << plain;
  for (const char* neither : {"identity;q=0", "*;q=0", "br, *;q=0", "gzip;q=0, identity;q=0"}) {
    EXPECT_EQ(ask(neither).status, 406) << neither;
    EXPECT_EQ(json_of(ask(neither))["code"], 406);
  }
  EXPECT_EQ(ask("gzip, identity;q=0", {{"Range", "bytes=0-9"}}).status, 406);
  EXPECT_EQ(ask("gzip", {{"Range", "bytes=0-9"}}).body, bytes.substr(0, 10));
  EXPECT_EQ(ask("gzip", {{"If-None-Match", "x"}}).body, bytes);
  provider_.files["/f"].content = "";
  EXPECT_EQ(ask("gzip").fields.at("Content-Length"), "0");
}

TEST_F(FilesTest, AnEmptyFileHasALengthToo) {
  provider_.put("/e", FileKind::kFile, "", 0);
  const Reply reply = get("/files?path=/e");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.fields.at("Content-Length"), "0");
}

TEST_F(FilesTest, APartOfAFileIsSentWhereItIsAskedFor) {
  provider_.put("/f", FileKind::kFile, "0123456789", 0);
  const auto part_of = [&](std::string range) {
    http::ClientRequest request{.target = "/files?path=/f", .fields = let_in()};
    request.fields.emplace_back("Range", std::move(range));
    return send(std::move(request));
  };
  const Reply middle = part_of("bytes=2-4");
  EXPECT_EQ(middle.status, 206);
  EXPECT_EQ(middle.body, "234");
  EXPECT_EQ(middle.fields.at("Content-Range"), "bytes 2-4/10");
  EXPECT_EQ(part_of("bytes=-3").body, "789");
  EXPECT_EQ(part_of("bytes=8-").body, "89");
  EXPECT_EQ(part_of("bytes=1-2,4-5").body, "0123456789");
  EXPECT_EQ(part_of("bytes=10-").status, 416);
}

TEST_F(FilesTest, WhatCannotBeReadIsTold) {
  EXPECT_EQ(get("/files?path=/none").status, 404);
  EXPECT_EQ(get("/files?path=/home/user").status, 400);
  EXPECT_EQ(get("/files").status, 400);
  EXPECT_EQ(json_of(get("/files?path=/none"))["code"], 404);
  provider_.put("/l", FileKind::kLink, "", 0);
  provider_.files["/l"].link_target = "nowhere";
  EXPECT_EQ(get("/files?path=/l").status, 404);
}

// ---- writing

TEST_F(FilesTest, RawBytesBecomeAFile) {
  const Reply reply = send(raw("/files?path=d/f&username=user", "content"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json_of(reply),
            (Json::array({{{"path", "/home/user/d/f"}, {"name", "f"}, {"type", "file"}}})));
  EXPECT_EQ(content("/home/user/d/f"), "content");
  EXPECT_EQ(send(raw("/files", "content")).status, 400);
}

TEST_F(FilesTest, AFileBecomesTheCallersAndKeepsWhatTheySayOfIt) {
  auto request = raw("/files?path=/f&username=user", "x");
  request.fields.emplace_back("X-Metadata-Kind", "Test");
  const Reply reply = send(request);
  EXPECT_EQ(json_of(reply)[0]["metadata"], (Json{{"kind", "Test"}}));
  EXPECT_EQ(provider_.files.at("/f").owner, "user");
  EXPECT_EQ(json_of(call("filesystem.Filesystem/Stat", {{"path", "/f"}}))["entry"]["metadata"],
            (Json{{"kind", "Test"}}));
  EXPECT_EQ(send(raw("/files?path=/f", "x")).status, 200);
  EXPECT_EQ(provider_.files.at("/f").owner, "1000");
  EXPECT_TRUE(provider_.files.at("/f").attributes.empty());
  request.fields.back().second = std::string(4096 - std::string_view("user.e2b.kind").size(), 'x');
  EXPECT_EQ(send(request).status, 200);
  request.fields.back().second += 'x';
  EXPECT_EQ(send(request).status, 400);
  request.fields.back() = {"X-Metadata-" + std::string(247, 'n'), "x"};
  EXPECT_EQ(send(request).status, 400);
  request.fields.back() = {"X-Metadata-Kind", "caf\xc3\xa9"};
  EXPECT_EQ(send(request).status, 400);
}

TEST_F(FilesTest, AFormHoldsManyFilesUnderTheirPaths) {
  const std::string tricky = "a\r\n--X\r\n--XY\r\n-";
  const Reply reply = send(form("/files", part("file", "/one", tricky) + part("other", "x", "y") +
                                              part("file", "two", "") + "--XX--\r\n"));
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(json_of(reply).size(), 2U);
  EXPECT_EQ(content("/one"), tricky);
  EXPECT_EQ(content("/home/user/two"), "");
}

TEST_F(FilesTest, ThePathOfTheRequestGoesBeforeTheFormsName) {
  EXPECT_EQ(send(form("/files?path=/p", part("file", "x", "1") + "--XX--")).status, 200);
  EXPECT_EQ(content("/p"), "1");
  EXPECT_EQ(send(form("/files?path=/p", part("file", "x", "1") + part("file", "y", "2") + "--XX--"))
                .status,
            400);
}

TEST_F(FilesTest, AFormThatIsCutShortIsAnError) {
  EXPECT_EQ(send(form("/files",
                      "--XX\r\nContent-Disposition: form-data; name=\"file\"; "
                      "filename=\"/cut\"\r\n\r\nhalf"))
                .status,
            400);
  EXPECT_FALSE(provider_.files.contains("/cut"));
  EXPECT_EQ(send(form("/files", "--XX--")).status, 400);
  EXPECT_EQ(send(upload("/files?path=/x", "text/plain", "x")).status, 400);
}

TEST_F(FilesTest, PackedBytesAreUnpackedOnTheWay) {
  std::string bytes;
  for (int i = 0; i < 200'000; ++i) bytes += std::to_string(i);
  auto request = raw("/files?path=/g", gzip(bytes));
  request.fields.emplace_back("Content-Encoding", "gzip");
  EXPECT_EQ(send(request).status, 200);
  EXPECT_EQ(content("/g"), bytes);
  request.target = "/files?path=/h";
  for (std::string damaged :
       {request.body.substr(0, request.body.size() - 9), std::string("x"), std::string()}) {
    request.body = damaged;
    EXPECT_EQ(send(request).status, 400);
    EXPECT_FALSE(provider_.files.contains("/h"));
  }
  request.fields.back().second = "br";
  EXPECT_EQ(send(request).status, 400);
}

TEST_F(FilesTest, FilesAreJoinedIntoOneAndAreGone) {
  const auto compose = [&](const Json& body) {
    return send({.method = "POST",
                 .target = "/files/compose",
                 .fields = let_in(),
                 .body = dump_json(body)});
  };
  provider_.put("/home/user/a", FileKind::kFile, std::string(30'000, 'a'), 1000);
  provider_.put("/b", FileKind::kFile, "", 0);
  provider_.put("/c", FileKind::kFile, "ccc", 0);
  const Reply made = compose(
      {{"source_paths", {"a", "/b", "/c", "/c"}}, {"destination", "whole"}, {"username", "user"}});
  EXPECT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(json_of(made),
            (Json{{"path", "/home/user/whole"}, {"name", "whole"}, {"type", "file"}}));
  EXPECT_EQ(provider_.files["/home/user/whole"].content, std::string(30'000, 'a') + "cccccc");
  EXPECT_EQ(provider_.files["/home/user/whole"].owner, "user");
  EXPECT_FALSE(provider_.written_in_place);
  for (const char* source : {"/home/user/a", "/b", "/c"})
    EXPECT_FALSE(provider_.files.contains(source)) << source;
  // Onto one of them.
  provider_.put("/d", FileKind::kFile, "d", 0);
  provider_.put("/e", FileKind::kFile, "e", 0);
  EXPECT_EQ(compose({{"source_paths", {"/d", "/e"}}, {"destination", "/d"}}).status, 200);
  EXPECT_EQ(provider_.files["/d"].content, "de");
  EXPECT_FALSE(provider_.files.contains("/e"));
  // What is refused leaves everything as it was.
  provider_.put("/f", FileKind::kFile, "f", 0);
  for (const auto& [body, status] : std::vector<std::pair<Json, int>>{
           {{{"source_paths", {"/f", "/none"}}, {"destination", "/g"}}, 404},
           {{{"source_paths", {"/f", "/etc"}}, {"destination", "/g"}}, 404},
           {{{"source_paths", {"/f", "/home/user"}}, {"destination", "/g"}}, 400},
           {{{"source_paths", {"/f"}}, {"destination", "/home/user"}}, 400},
           {{{"source_paths", Json::array()}, {"destination", "/g"}}, 400},
           {{{"source_paths", {"/f"}}}, 400},
           {{{"source_paths", "/f"}, {"destination", "/g"}}, 400},
           {{{"source_paths", {"f"}}, {"destination", "g"}, {"username", "nobody"}}, 401},
           {Json::array(), 400}})
    EXPECT_EQ(compose(body).status, status) << body;
  EXPECT_TRUE(provider_.files.contains("/f"));
  EXPECT_FALSE(provider_.files.contains("/g"));
  auto strangers = let_in();
  strangers[2].second = "token-2";
  EXPECT_EQ(send({.method = "POST",
                  .target = "/files/compose",
                  .fields = strangers,
                  .body = R"({"source_paths":["/f"],"destination":"/g"})"})
                .status,
            401);
}

TEST_F(FilesTest, AFullDiskHasAStatusOfItsOwn) {
  const auto status_of = [&](ErrorCode code, const char* name, int error) {
    const std::string complaint = fmt::format("cannot write {}: {}", name, std::strerror(error));
    // As it comes from the warden.
    provider_.write_error =
        make_error(code, "ask for sandbox", os_error("use file", complaint, error).describe());
    return send(raw("/files?path=/x", "content")).status;
  };
  EXPECT_EQ(status_of(ErrorCode::kLimit, "/x", ENOSPC), 507);
  EXPECT_EQ(status_of(ErrorCode::kLimit, "/x", EDQUOT), 507);
  EXPECT_EQ(status_of(ErrorCode::kNotFound, "/No space left on device", ENOENT), 404);
  EXPECT_EQ(status_of(ErrorCode::kDenied, "/x (Disk quota exceeded)", EACCES), 403);
}

TEST_F(FilesTest, ALinkIsWrittenThroughAndTheModeStays) {
  provider_.put("/real", FileKind::kFile, "old", 0);
  provider_.files["/real"].mode = 0755;
  provider_.put("/l", FileKind::kLink, "", 0);
  provider_.files["/l"].link_target = "real";
  const Reply written = send(raw("/files?path=/l", "new"));
  EXPECT_EQ(written.status, 200);
  EXPECT_TRUE(provider_.written_in_place);
  EXPECT_EQ(json_of(written)[0]["path"], "/l");
  EXPECT_EQ(content("/real"), "new");
  EXPECT_EQ(get("/files?path=/l").body, "new");
  EXPECT_EQ(provider_.files.at("/real").mode, 0755U);
  EXPECT_EQ(provider_.files.at("/l").kind, FileKind::kLink);
  EXPECT_EQ(send(raw("/files?path=/etc/..", "x")).status, 400);
}

// ---- rights

std::string signed_target(std::string operation, std::string expiration = "") {
  std::string text = "/f:" + operation + ":user:token-1";
  if (!expiration.empty()) text += ":" + expiration;
  std::string bytes;
  const std::string hex = sha256_hex(text);
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  std::string signature = base64_encode(bytes);
  while (signature.ends_with('=')) signature.pop_back();
  std::string encoded;
  for (const char c : signature) encoded += c == '+' ? "%2B" : c == '/' ? "%2F" : std::string(1, c);
  std::string target = "/files?path=/f&username=user&signature=v1_" + encoded;
  if (!expiration.empty()) target += "&signature_expiration=" + expiration;
  return target;
}

TEST_F(FilesTest, ASignedLinkOpensItsFileAndNothingElse) {
  provider_.put("/f", FileKind::kFile, "secret", 0);
  provider_.put("/g", FileKind::kFile, "other", 0);
  const std::string link = signed_target("read");
  EXPECT_EQ(send({.target = link}).body, "secret");
  std::string other = link;
  other.replace(other.find("/f&"), 2, "/g");
  EXPECT_EQ(send({.target = other}).status, 401);
  EXPECT_EQ(send({.method = "POST", .target = link, .body = "x"}).status, 401);
  EXPECT_EQ(send({.target = signed_target("write")}).status, 401);
  EXPECT_EQ(send({.method = "POST",
                  .target = signed_target("write"),
                  .fields = {{"Content-Type", "application/octet-stream"}},
                  .body = "new"})
                .status,
            200);
  EXPECT_EQ(content("/f"), "new");
  EXPECT_EQ(send({.target = "/files?path=/f&username=user&signature="}).status, 401);
}

TEST_F(FilesTest, ASignatureEnds) {
  provider_.put("/f", FileKind::kFile, "secret", 0);
  EXPECT_EQ(send({.target = signed_target("read", "9999999999")}).status, 200);
  const Reply late = send({.target = signed_target("read", "1000000000")});
  EXPECT_EQ(late.status, 401);
  EXPECT_EQ(json_of(late)["message"], "signature is already expired");
  EXPECT_EQ(send({.target = signed_target("read", "soon")}).status, 401);
}

TEST_F(FilesTest, ATokenFindsItsSandboxAndAWrongOneNone) {
  provider_.put("/f", FileKind::kFile, "secret", 0);
  EXPECT_EQ(send({.target = "/files?path=/f", .fields = {{"X-Access-Token", "token-1"}}}).body,
            "secret");
  EXPECT_EQ(send({.target = "/files?path=/f", .fields = {{"X-Access-Token", "token-2"}}}).status,
            401);
  auto fields = let_in();
  fields[2].second = "token-2";
  // A wrong token is not made good by a right signature.
  EXPECT_EQ(send({.target = signed_target("read"), .fields = fields}).status, 401);
  fields.erase(fields.begin() + 2);
  EXPECT_EQ(send({.target = "/files?path=/f", .fields = fields}).status, 401);
}

TEST_F(FilesTest, StrangersCannotMakeUsAskForAllSandboxesAllTheTime) {
  const TimePoint begin = loop_->now();
  linux::TaskGroup group(*loop_);
  std::vector<std::optional<Reply>> replies(100);
  for (auto& reply : replies)
    send_aside(group, {.target = "/files?path=/f", .fields = {{"X-Access-Token", "wrong"}}}, reply);
  run_until([&] {
    return std::ranges::all_of(replies, [](const auto& reply) { return reply.has_value(); });
  });
  EXPECT_LE(provider_.lists, (loop_->now() - begin) / std::chrono::milliseconds(100) + 1);
  EXPECT_GT(std::ranges::count_if(replies, [](const auto& r) { return r->status == 429; }), 0);
}

TEST(ByteRangeTest, NonsenseAsksForTheWhole) {
  using Kind = RangeRequest::Kind;
  for (const char* field : {"", "bytes", "bytes=", "bytes=a-b", "bytes=5-2", "lines=1-2", "bytes=-",
                            "bytes=1-2,3-4", "bytes=99999999999999999999-"})
    EXPECT_EQ(read_range(field, 100).kind, Kind::kWhole) << field;
  EXPECT_EQ(read_range("bytes=0-18446744073709551615", 100).range.size, 100U);
  EXPECT_EQ(read_range("bytes=-200", 100).range.size, 100U);
  EXPECT_EQ(read_range("bytes=-0", 100).kind, Kind::kUnsatisfiable);
  EXPECT_EQ(read_range("bytes=0-", 0).kind, Kind::kUnsatisfiable);
}

}  // namespace
}  // namespace pons::e2b
