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
  request.fields.back().second = std::string(3000, 'x');
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

TEST_F(FilesTest, AFullDiskHasAStatusOfItsOwn) {
  provider_.write_error =
      make_error(ErrorCode::kLimit, "ask for sandbox", "cannot write: No space left on device");
  EXPECT_EQ(send(raw("/files?path=/x", "content")).status, 507);
}

TEST_F(FilesTest, ALinkIsWrittenThroughAndTheModeStays) {
  provider_.put("/real", FileKind::kFile, "old", 0);
  provider_.files["/real"].mode = 0755;
  provider_.put("/l", FileKind::kLink, "", 0);
  provider_.files["/l"].link_target = "real";
  EXPECT_EQ(send(raw("/files?path=/l", "new")).status, 200);
  EXPECT_EQ(content("/real"), "new");
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
