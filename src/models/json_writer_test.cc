#include "json_writer.h"

#include <gtest/gtest.h>

#include "json_node.h"

namespace pons::models {
namespace {

TEST(JsonWriterTest, CommasStandBetweenValuesOnly) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("a", "b").key("c").begin_array().integer(1).number(0.5).null();
  json.begin_object().end_object().end_array().field("d", true).raw_field("e", "[1]").end_object();
  EXPECT_EQ(out, R"({"a":"b","c":[1,0.5,null,{}],"d":true,"e":[1]})");
}

TEST(JsonWriterTest, AnyTextComesBackFromAParserAsItWas) {
  std::string text = "quote \" back \\ line \n tab \t bell \a nul ";
  text += '\0';
  text += "end ü 😀";
  std::string out;
  JsonWriter(out).string(text);
  JsonDocument document;
  const auto node = document.parse(out);
  ASSERT_TRUE(node) << node.error().describe();
  EXPECT_EQ(node->as_string().value(), text);
}

TEST(JsonNodeTest, ErrorsNameThePlace) {
  JsonDocument document;
  const auto root = document.parse(R"({"messages":[{"role":"user"},{"content":[{"type":7}]}]})");
  ASSERT_TRUE(root);
  const auto messages = root->find("messages");
  std::string said;
  const auto read = messages->for_each([&](const JsonNode& message) -> Result<void> {
    const auto content = message.find("content");
    if (!content) return {};
    return content->for_each([&](const JsonNode& part) -> Result<void> {
      TRY_VOID(part.string_at("type"));
      return {};
    });
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "messages[1].content[0].type: must be a string");
}

TEST(JsonNodeTest, NumbersThatAreNotWholeAreNoIntegers) {
  JsonDocument document;
  const auto root = document.parse(R"({"a":1024.0,"b":1.5,"c":1e300})");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->integer_at("a").value(), 1024);
  EXPECT_FALSE(root->integer_at("b"));
  EXPECT_FALSE(root->integer_at("c"));
}

TEST(JsonNodeTest, WhatIsNotJsonOrNotUtf8IsRefused) {
  JsonDocument document;
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "\"\xff\"", "nul"})
    EXPECT_FALSE(document.parse(text)) << text;
}

}  // namespace
}  // namespace pons::models
