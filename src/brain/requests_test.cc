#include "requests.h"

#include <gmock/gmock.h>

namespace pons::brain {
namespace {

TEST(RequestsTest, AProjectNameIsAWord) {
  EXPECT_EQ(*parse_new_project(R"({"name":"web-1"})"), "web-1");
  for (const char* body :
       {"", "[]", "{}", R"({"name":""})", R"({"name":1})", R"({"name":"a b"})", R"({"name":"a/b"})",
        R"({"name":"a","more":1})", R"({"name":"a\u0000"})"})
    EXPECT_FALSE(parse_new_project(body)) << body;
  EXPECT_FALSE(parse_new_project(R"({"name":")" + std::string(65, 'a') + "\"}"));
}

TEST(RequestsTest, AKeyHasANamePeopleCanRead) {
  EXPECT_EQ(parse_new_key(R"({"name":"Anna's laptop"})")->name, "Anna's laptop");
  for (const char* body : {"{}", R"({"name":""})", R"({"name":"a\u001b[2J"})", R"({"name":"a\nb"})",
                           R"({"name":["a"]})", R"({"name":"a","scopes":"models"})",
                           R"({"name":"a","scopes":[1]})", R"({"name":"a","hash":"0"})"})
    EXPECT_FALSE(parse_new_key(body)) << body;
  EXPECT_FALSE(parse_new_key(R"({"name":")" + std::string(101, 'a') + "\"}"));
}

TEST(RequestsTest, ARecordWithoutATimeGetsThePresent) {
  const auto records = parse_sandbox_records(R"([{"op":"end","id":"s","project":"p"}])", 7);
  ASSERT_TRUE(records);
  EXPECT_EQ((*records)[0].at_ms, 7);
  EXPECT_EQ((*records)[0].what, SandboxRecord::What::kEnd);
}

TEST(RequestsTest, ARecordThatIsNotWholeIsRefused) {
  for (const char* body :
       {"{}", "[1]", "[{}]", R"([{"op":"destroy","id":"s","project":"p"}])",
        R"([{"op":"end","project":"p"}])", R"([{"op":"end","id":"s"}])",
        R"([{"op":"end","id":"../s","project":"p"}])", R"([{"op":"end","id":"s","project":""}])",
        R"([{"op":"create","id":"s","project":"p","metadata":"x"}])",
        R"([{"op":"create","id":"s","project":"p","metadata":[1]}])",
        R"([{"op":"create","id":"s","project":"p","at_unix_ms":-1}])",
        R"([{"op":"create","id":"s","project":"p","at_unix_ms":1.5}])",
        R"([{"op":"create","id":"s","project":"p","at_unix_ms":18446744073709551615}])",
        R"([{"op":"create","id":"s","project":"p","owner":"x"}])"})
    EXPECT_FALSE(parse_sandbox_records(body, 0)) << body;
}

TEST(RequestsTest, RecordsAndTheirMetadataHaveALimit) {
  const std::string one = R"({"op":"end","id":"s","project":"p"})";
  std::string all = "[" + one;
  for (std::size_t i = 1; i < kRecordsMax; ++i) all += "," + one;
  EXPECT_TRUE(parse_sandbox_records(all + "]", 0));
  EXPECT_FALSE(parse_sandbox_records(all + "," + one + "]", 0));
  const auto with_metadata = [](std::size_t bytes) {
    return R"([{"op":"create","id":"s","project":"p","metadata":{"k":")" + std::string(bytes, 'x') +
           "\"}}]";
  };
  EXPECT_TRUE(parse_sandbox_records(with_metadata(60'000), 0));
  EXPECT_FALSE(parse_sandbox_records(with_metadata(70'000), 0));
}

}  // namespace
}  // namespace pons::brain
