#include "yaml_tree.h"

#include <gmock/gmock.h>

#include <string>

#include "quote.h"

namespace pons::config {
namespace {

using ::testing::HasSubstr;

Node parsed(std::string_view text) {
  auto document = parse_yaml(text, "t.yaml");
  EXPECT_TRUE(document) << (document ? "" : document.error().describe());
  if (!document) return {};
  EXPECT_TRUE(document->duplicates.empty());
  return std::move(document->root);
}

std::string refusal(std::string_view text) {
  const auto document = parse_yaml(text, "t.yaml");
  return document ? "accepted" : document.error().describe();
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(YamlTree, KeepsTextQuotesAndPlacesOfKeysAndValues) {
  const Node root = parsed("# comment\na: 'x'\nb:\n  c: [1, two]\n");
  ASSERT_EQ(root.kind, NodeKind::kMapping);
  ASSERT_EQ(root.children.size(), 2u);
  const Node& a = root.children[0];
  EXPECT_EQ(a.key, "a");
  EXPECT_EQ(a.text, "x");
  EXPECT_EQ(a.style, ScalarStyle::kQuoted);
  EXPECT_EQ(a.key_mark, (Mark{2, 1}));
  EXPECT_EQ(a.mark, (Mark{2, 4}));
  const Node& c = root.children[1].children.at(0);
  EXPECT_EQ(c.key_mark, (Mark{4, 3}));
  ASSERT_EQ(c.kind, NodeKind::kSequence);
  EXPECT_EQ(c.children.at(1).text, "two");
  EXPECT_EQ(c.children.at(1).style, ScalarStyle::kPlain);
  EXPECT_EQ(c.children.at(1).mark, (Mark{4, 10}));
}

TEST(YamlTree, MissingValueIsNullAtItsKey) {
  const Node root = parsed("a:\n\n\nb: 1\n");
  EXPECT_EQ(root.children.at(0).kind, NodeKind::kNull);
  EXPECT_EQ(root.children.at(0).mark, (Mark{1, 1}));
}

TEST(YamlTree, FilesWithoutContentAreEmpty) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "...\n",
                           "\xEF\xBB\xBF", "\xEF\xBB\xBF# c"})
    EXPECT_EQ(parsed(text).kind, NodeKind::kNull) << text;
}

TEST(YamlTree, ContentTheParserWouldIgnoreIsRefused) {
  EXPECT_EQ(refusal("# c\n%anything\n"),
            "t.yaml:2:1: this line sets nothing; write name: value, or remove it");
  EXPECT_THAT(refusal("null\n"), HasSubstr("t.yaml:1:1: this line sets nothing"));
}

TEST(YamlTree, AnchorsAndAliasesAreRefused) {
  EXPECT_EQ(refusal("a: &x [1]\nb: 2\n"),
            "t.yaml:1:4: anchors (&name) are not allowed; remove it and write each value out");
  EXPECT_THAT(refusal("a: *x\n"), HasSubstr("t.yaml:1:4: aliases (*name) are not allowed"));
  EXPECT_THAT(refusal("&x a: 1\n"), HasSubstr("anchors (&name) are not allowed"));
  EXPECT_THAT(refusal("a: &x\n"), HasSubstr("anchors (&name) are not allowed"));
}

TEST(YamlTree, OnlyCoreTagsOfTheRightKindAreAllowed) {
  const Node root = parsed("!!map\na: !!str 5\nb: !!int 5\nc: !!seq []\n");
  EXPECT_EQ(root.children.at(0).style, ScalarStyle::kQuoted);
  EXPECT_EQ(root.children.at(1).style, ScalarStyle::kPlain);
  EXPECT_EQ(refusal("a: !secret x\n"),
            "t.yaml:1:4: the tag \"!secret\" is not allowed here; remove it");
  EXPECT_THAT(refusal("a: !!python/object:os.system x\n"), HasSubstr("is not allowed here"));
  EXPECT_THAT(refusal("a: !!map x\n"), HasSubstr("is not allowed here"));
  EXPECT_THAT(refusal("a: !!binary aGk=\n"), HasSubstr("is not allowed here"));
  EXPECT_THAT(refusal("%TAG ! tag:evil,1:\n---\na: !x 1\n"), HasSubstr("is not allowed here"));
}

TEST(YamlTree, DuplicateKeysNameBothPlacesAndKeepTheFirst) {
  const auto document = parse_yaml("a: 1\nb: 2\na: {c: 3}\nb: 4\n", "t.yaml");
  ASSERT_TRUE(document);
  ASSERT_EQ(document->duplicates.size(), 2u);
  EXPECT_EQ(document->duplicates[0].describe(),
            "t.yaml:3:1: key \"a\" stands here and at 1:1; remove one of the two");
  EXPECT_EQ(document->duplicates[1].line, 4);
  ASSERT_EQ(document->root.children.size(), 2u);
  EXPECT_EQ(document->root.children[0].text, "1");
}

TEST(YamlTree, EqualKeysOfDifferentMappingsAreNoDuplicates) {
  EXPECT_EQ(parsed("a: {x: 1}\nb: {x: 2}\n").children.size(), 2u);
}

TEST(YamlTree, SecondDocumentIsRefused) {
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("t.yaml:2:1: a second YAML document"));
  EXPECT_THAT(refusal("a: 1\n---\n"), HasSubstr("a second YAML document"));
  EXPECT_THAT(refusal("---\n%TAG ! x"), HasSubstr("t.yaml:2:9: a second YAML document"));
  EXPECT_THAT(refusal("[] []"), HasSubstr("a second YAML document"));
}

TEST(YamlTree, KeysThatAreNotWordsAreRefused) {
  for (const char* text : {"? [a]\n: b\n", "? {a: 1}\n: b\n", "~: b\n", "? \n: b\n"})
    EXPECT_THAT(refusal(text), HasSubstr("a key must be a word")) << text;
}

TEST(YamlTree, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_EQ(refusal(nested(kYamlDepthMax)), "accepted");
  EXPECT_EQ(refusal(nested(kYamlDepthMax + 1)),
            "t.yaml:1:33: nested deeper than 32 levels; flatten it");
}

TEST(YamlTree, HundredThousandBracketsDoNotExhaustTheStack) {
  for (const char* part : {"[", "{", "- ", "? ", "[{", "{a: [", "a:\n"})
    EXPECT_NE(refusal(repeated(part, 100'000)), "accepted") << part;
}

TEST(YamlTree, NumberOfValuesIsBounded) {
  EXPECT_EQ(refusal(repeated("- a\n", kYamlNodesMax - 1)), "accepted");
  EXPECT_EQ(refusal(repeated("- a\n", kYamlNodesMax)),
            "t.yaml:10000:3: more than 10000 values; split or shorten the file");
}

TEST(YamlTree, SizeIsBounded) {
  const std::string comment = "#" + std::string(kYamlBytesMax - 1, 'x');
  EXPECT_EQ(refusal(comment), "accepted");
  EXPECT_THAT(refusal(comment + "x"), HasSubstr("t.yaml:1:1: 1048577 bytes are more than"));
}

TEST(YamlTree, InvalidUtf8IsRefusedWithItsLine) {
  EXPECT_EQ(refusal("a: 1\nb: \xff\n"),
            "t.yaml:2:1: this line is not UTF-8; save the file as UTF-8");
  EXPECT_EQ(parsed("a: größe\n").children.at(0).text, "größe");
}

TEST(YamlTree, ControlCharactersCannotHideTheRestOfTheFile) {
  // 0x04 is what yaml-cpp takes for the end of the file.
  EXPECT_EQ(refusal("a: 1\n\x04\nb: 2\n"),
            "t.yaml:2:1: the control character 0x04 is not allowed; remove it");
  EXPECT_THAT(refusal(std::string_view("a: 1\0", 5)), HasSubstr("t.yaml:1:5: the control"));
  // UTF-16 and UTF-32 are recognised by their NUL bytes.
  EXPECT_THAT(refusal(std::string_view("\0\0\0a", 4)), HasSubstr("t.yaml:1:1: the control"));
}

TEST(YamlTree, ForgottenQuoteDoesNotSwallowTheRestOfTheFile) {
  for (const char* text :
       {"x: 1\na: \"b", "x: 1\na: \"b\n", "x: 1\na: 'b\nc: 1\n", "x: 1\na: \"b\n\n  c\n"})
    EXPECT_EQ(refusal(text), "t.yaml:2:1: a quoted text is not closed; add the closing quote");
}

TEST(YamlTree, SyntaxErrorsSayWhereAndWhatToDo) {
  EXPECT_EQ(refusal("a: 1\nb: [1, 2\n"), "t.yaml:2:4: a list opened with [ is not closed; add ]");
  EXPECT_EQ(refusal("a: {b: 1\n\n"),
            "t.yaml:1:4: a mapping opened with { is not closed, or holds text that needs quotes; "
            "add } or quote the text");
  EXPECT_THAT(refusal("{a: ${env:X}}"), HasSubstr("t.yaml:1:6: a mapping opened with {"));
  EXPECT_THAT(refusal("a: b: c\n"), HasSubstr("t.yaml:1:5: a second \": \" in one line"));
  EXPECT_THAT(refusal("a:\n\t- b\n"), HasSubstr("use spaces instead of tabs"));
  EXPECT_THAT(refusal("a: \"\\é\"\n"), HasSubstr("not valid YAML (unknown escape character);"));
  EXPECT_THAT(refusal("a: @x\n"), HasSubstr("quote the text"));
}

TEST(Quote, ShowsTextWithoutLettingTheTerminalObeyIt) {
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote("\x1b[31m\x7f\n\"\\"), "\"\\x1b[31m\\x7f\\n\\\"\\\\\"");
  EXPECT_EQ(quote("\xC2\x9B"
                  "1m"),
            "\"\\x9b1m\"");
  EXPECT_EQ(quote("größe"), "\"größe\"");
}

TEST(Quote, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(quote(std::string(59, 'x') + "é!"), "\"" + std::string(59, 'x') + "…\"");
  EXPECT_EQ(quote(std::string(60, 'x')), "\"" + std::string(60, 'x') + "\"");
}

}  // namespace
}  // namespace pons::config
