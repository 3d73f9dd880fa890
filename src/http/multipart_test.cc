#include "pons/http/multipart.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace pons::http {
namespace {

using State = MultipartParser::Step::State;

// "name=file:data|…" of the whole body, cut into pieces of `piece` bytes; "refused: …" or "open".
std::string read(std::string_view body, std::size_t piece, std::string_view boundary = "b") {
  MultipartParser parser(boundary);
  std::string buffer;
  std::string out;
  for (;;) {
    const auto step = parser.next(buffer);
    if (step.state == State::kRefused) return std::string("refused: ") + step.reason;
    if (step.state == State::kPart)
      out += parser.head().name + "=" + parser.head().file_name.value_or("(none)") + ":";
    out += step.data;
    if (step.state == State::kPartEnd) out += "|";
    if (step.state == State::kEnd) return out;
    buffer.erase(0, step.consumed);
    if (step.state != State::kNeedMore || step.consumed > 0) continue;
    if (body.empty()) return "open";
    buffer += body.substr(0, piece);
    body.remove_prefix(std::min(piece, body.size()));
  }
}

std::string part(std::string disposition, std::string data) {
  return "--b\r\nContent-Disposition: " + disposition + "\r\n\r\n" + data + "\r\n";
}

TEST(MultipartTest, PartsComeOutHoweverTheyAreCut) {
  const std::string body = part("form-data; name=\"a\"; filename=\"x\"", "1\r\n--c\r") +
                           part("form-data; name=b", "") + "--b--\r\nepilogue";
  for (std::size_t piece = 1; piece < 40; ++piece)
    EXPECT_EQ(read(body, piece), "a=x:1\r\n--c\r|b=(none):|") << piece;
}

TEST(MultipartTest, NamesAreReadAsClientsWriteThem) {
  const auto name = [](std::string parameters) {
    return read(part("form-data; name=\"file\"" + parameters, "") + "--b--", 1000);
  };
  EXPECT_EQ(name("; filename=\"/a b/\xC3\xA9;x\""), "file=/a b/\xC3\xA9;x:|");
  EXPECT_EQ(name("; filename=\"a\\\"b\\\\c\\d\""), "file=a\"b\\c\\d:|");
  EXPECT_EQ(name("; filename=plain"), "file=plain:|");
  EXPECT_EQ(name("; filename=\"x\"; filename*=UTF-8''%e2%82%ac%20y"), "file=\xE2\x82\xAC y:|");
}

TEST(MultipartTest, WhatIsMalformedIsRefused) {
  using ::testing::StartsWith;
  EXPECT_THAT(read(std::string(5000, 'x'), 100), StartsWith("refused"));
  EXPECT_THAT(read("--bX\r\n\r\n", 100), StartsWith("refused"));
  EXPECT_THAT(read("--b\r\nno colon\r\n\r\n", 100), StartsWith("refused"));
  EXPECT_THAT(read(part("attachment; name=a", "x"), 100), StartsWith("refused"));
  EXPECT_THAT(read(part("form-data; name=\"a", "x"), 100), StartsWith("refused"));
  EXPECT_THAT(read(part("form-data; name=a; filename*=x", "x"), 100), StartsWith("refused"));
  EXPECT_THAT(read("--b\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", 100),
              StartsWith("refused"));
  EXPECT_EQ(read(part("form-data; name=a", "x"), 100), "open");
  for (const std::size_t size : {std::size_t{16'381}, std::size_t{16'382}}) {
    const std::string body = "--b\r\nX: " + std::string(size, 'x') + "\r\n\r\n\r\n--b--";
    EXPECT_EQ(read(body, 1), read(body, 1 << 20));
  }
  std::string many;
  for (int i = 0; i <= MultipartParser::kPartsMax; ++i) many += "--b\r\n\r\n\r\n";
  EXPECT_THAT(read(many + "--b--", 1 << 20), StartsWith("refused"));
}

TEST(MultipartTest, ABoundaryIsFoundInTheType) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=x; boundary=\"a b\""), "a b");
  for (const char* type :
       {"", "multipart/form-data", "multipart/mixed; boundary=a",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a\r\n\""})
    EXPECT_FALSE(multipart_boundary(type)) << type;
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
}

TEST(MultipartTest, APartSaysWhatItsDataIs) {
  MultipartParser parser("b");
  std::string body =
      "--b\r\nContent-Disposition: form-data; name=a\r\ncontent-type:  text/plain "
      "\r\n\r\nx\r\n--b--";
  while (parser.head().name.empty()) body.erase(0, parser.next(body).consumed);
  EXPECT_EQ(parser.head().content_type, "text/plain");
}

}  // namespace
}  // namespace pons::http
