#include "origins.h"

#include <gmock/gmock.h>

#include <map>

namespace pons::front {
namespace {

using ::testing::IsEmpty;

struct Asked {
  explicit Asked(std::string fields, const char* method = "GET")
      : text(std::string(method) + " / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n") {
    std::size_t scanned = 0;
    EXPECT_EQ(http::parse_request_head(text, scanned, {}, head).state,
              http::HeadParse::State::kDone);
  }
  std::string text;
  http::RequestHead head;
};

std::string found(const Origins& origins, std::string fields) {
  return origins.find(Asked(std::move(fields)).head).value_or("");
}

TEST(OriginsTest, OnlyTheOriginsThatAreNamedAreAllowed) {
  const Origins origins("https://app.example http://localhost:3000");
  EXPECT_EQ(found(origins, "Origin: https://app.example\r\n"), "https://app.example");
  EXPECT_EQ(found(origins, "Origin: http://localhost:3000\r\n"), "http://localhost:3000");
  for (const char* other :
       {"https://app.example.evil", "http://app.example", "https://app.example:444",
        "https://sub.app.example", "https://APP.example", "https://app.example/", "null", "*", "",
        "https://app.example http://localhost:3000", "http://localhost"})
    EXPECT_EQ(found(origins, std::string("Origin: ") + other + "\r\n"), "") << other;
  EXPECT_EQ(found(origins, ""), "");
  EXPECT_EQ(found(origins, "Origin: https://app.example\r\nOrigin: https://app.example\r\n"), "");
  EXPECT_EQ(found(Origins(""), "Origin: \r\n"), "");
}

TEST(OriginsTest, APreflightIsToldWhatItAskedAbout) {
  const std::string origin = "Origin: https://app.example\r\n";
  EXPECT_FALSE(is_preflight(Asked(origin, "OPTIONS").head));
  EXPECT_FALSE(is_preflight(Asked(origin + "Access-Control-Request-Method: POST\r\n").head));
  const auto fields_for = [&](const std::string& names) {
    const Asked asked(origin + "Access-Control-Request-Method: POST\r\n" + names, "OPTIONS");
    EXPECT_TRUE(is_preflight(asked.head));
    const auto answer = preflight_answer(asked.head);
    EXPECT_EQ(answer.status, 204);
    const std::map<std::string, std::string> fields(answer.fields.begin(), answer.fields.end());
    EXPECT_FALSE(fields.contains("Access-Control-Allow-Credentials"));
    return fields.contains("Access-Control-Allow-Headers")
               ? fields.at("Access-Control-Allow-Headers")
               : std::string();
  };
  EXPECT_EQ(fields_for("Access-Control-Request-Headers: x-api-key, content-type\r\n"),
            "x-api-key, content-type");
  EXPECT_THAT(fields_for(""), IsEmpty());
  EXPECT_THAT(fields_for("Access-Control-Request-Headers: a b\r\n"), IsEmpty());
  EXPECT_THAT(fields_for("Access-Control-Request-Headers: a,,b\r\n"), IsEmpty());
}

}  // namespace
}  // namespace pons::front
