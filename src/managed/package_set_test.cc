#include "pons/managed/package_set.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "environment_shape.h"

namespace pons::managed {
namespace {

using testing::HasSubstr;

struct Example {
  std::string_view manager;
  std::string_view text;
};

TEST(PackageName, IsWhatItsManagerWrites) {
  for (const auto& [manager, text] :
       std::initializer_list<Example>{{"apt", "jq"},
                                      {"apt", "g++"},
                                      {"apt", "libc6:amd64"},
                                      {"apt", "jq=1:1.6-2.1+deb12u1~bpo"},
                                      {"npm", "is-number"},
                                      {"npm", "express@4.18.0"},
                                      {"npm", "@types/node@^20"},
                                      {"npm", "left-pad@>=1.0.0"},
                                      {"npm", "typescript@next"},
                                      {"pip", "pandas"},
                                      {"pip", "pandas==2.2.0"},
                                      {"pip", "uvicorn[standard,extra]>=0.20,<1"},
                                      {"pip", "zope.interface~=6.0"},
                                      {"pip", "x!=1.*"},
                                      {"cargo", "ripgrep@14.0.0"},
                                      {"cargo", "cargo-edit"},
                                      {"gem", "rails:7.1.0"},
                                      {"gem", "rack"},
                                      {"go", "golang.org/x/tools/cmd/goimports@latest"},
                                      {"go", "example.org/tool"}})
    EXPECT_TRUE(is_package(manager, text)) << manager << " " << text;
}

TEST(PackageName, IsNoOptionNoPathNoAddressAndNoWordOfAShell) {
  for (const std::string_view manager : kPackageManagers)
    for (const std::string_view text : {"",
                                        "-y",
                                        "--allow-unauthenticated",
                                        "./here.deb",
                                        "/etc/passwd",
                                        "../up",
                                        "a b",
                                        "a;b",
                                        "a$(b)",
                                        "a`b`",
                                        "a|b",
                                        "a&b",
                                        "a'b",
                                        "a\"b",
                                        "a\\b",
                                        "a\nb",
                                        "a\tb",
                                        "ü",
                                        "a{b,c}",
                                        "#a",
                                        "file:///a",
                                        "https://example.org/a.tgz",
                                        "git+https://example.org/a",
                                        "a @ b"})
      EXPECT_FALSE(is_package(manager, text)) << manager << " " << text;
  for (const auto& [manager, text] : std::initializer_list<Example>{{"apt", "jq-"},
                                                                    {"apt", "Jq"},
                                                                    {"apt", "a"},
                                                                    {"apt", "jq/bookworm"},
                                                                    {"apt", "jq=-1"},
                                                                    {"apt", "task^"},
                                                                    {"npm", "@scope"},
                                                                    {"npm", "@/x"},
                                                                    {"npm", "user/repository"},
                                                                    {"npm", "x@npm:y"},
                                                                    {"npm", "x@"},
                                                                    {"npm", "x@1 || 2"},
                                                                    {"pip", "x[a"},
                                                                    {"pip", "x[-a]"},
                                                                    {"pip", "x=="},
                                                                    {"pip", "x;y"},
                                                                    {"cargo", "a.b"},
                                                                    {"cargo", "x@"},
                                                                    {"gem", "x:~> 1"},
                                                                    {"gem", "x:"},
                                                                    {"go", "tool"},
                                                                    {"go", "example.org/"},
                                                                    {"go", "example.org//x"},
                                                                    {"go", "example.org/../x"},
                                                                    {"go", "example/x"},
                                                                    {"conda", "x"}})
    EXPECT_FALSE(is_package(manager, text)) << manager << " " << text;
  EXPECT_FALSE(is_package("apt", std::string(201, 'a')));
}

Json environment_with(const Json& packages, const Json& metadata = Json::object()) {
  return *read_new_environment({{"name", "e"},
                                {"metadata", metadata},
                                {"config", {{"type", "cloud"}, {"packages", packages}}}});
}

TEST(PackageSet, IsTheSameForTheSamePackagesInAnyOrder) {
  const auto one = package_set_of(environment_with({{"apt", {"jq", "bc", "jq"}}, {"npm", {"x"}}}));
  const auto same = package_set_of(environment_with({{"npm", {"x"}}, {"apt", {"bc", "jq"}}}));
  ASSERT_TRUE(one && same);
  EXPECT_EQ(one->digest(), same->digest());
  EXPECT_EQ(one->parts[0].names, (std::vector<std::string>{"bc", "jq"}));
  EXPECT_EQ(one->base, "host");
  EXPECT_EQ(*read_recipe(one->recipe()), *one);
  for (const Json& other :
       {environment_with({{"apt", {"jq"}}, {"npm", {"x"}}}),
        environment_with({{"pip", {"jq", "bc"}}, {"npm", {"x"}}}),
        environment_with({{"apt", {"jq", "bc"}}, {"npm", {"x"}}}, {{kTemplateKey, "debian"}})})
    EXPECT_NE(package_set_of(other)->digest(), one->digest());
}

TEST(PackageSet, IsNotThereWithoutPackages) {
  EXPECT_FALSE(package_set_of(environment_with(Json::object())));
  EXPECT_EQ(template_of(environment_with(Json::object())), "host");
  EXPECT_EQ(template_of(environment_with(Json::object(), {{kTemplateKey, "debian"}})), "debian");
  EXPECT_FALSE(package_set_of(
      *read_new_environment({{"name", "e"}, {"config", {{"type", "self_hosted"}}}})));
}

TEST(PackageSet, NamesItsTemplate) {
  const Json environment = environment_with({{"apt", {"jq"}}});
  const std::string name = template_of(environment);
  EXPECT_EQ(digest_in(name), package_set_of(environment)->digest());
  EXPECT_LE(name.size(), 64U);
  for (const char* other : {"host", "packages.", "packages.python", "own.p.packages"})
    EXPECT_EQ(digest_in(other), "") << other;
}

TEST(PackageSet, ARecipeThatHoldsSomethingElseIsNone) {
  for (const char* text :
       {"", "{}", R"({"base":1,"packages":{}})", R"({"base":"host","packages":{"apt":["--yes"]}})",
        R"({"base":"host","packages":{"sh":["x"]}})"})
    EXPECT_FALSE(read_recipe(text)) << text;
}

TEST(EnvironmentShape, PackagesAndTheTemplateBelowThemAreReadStrictly) {
  const auto refused = [](const Json& packages, const Json& metadata = Json::object()) {
    const auto read =
        read_new_environment({{"name", "e"},
                              {"metadata", metadata},
                              {"config", {{"type", "cloud"}, {"packages", packages}}}});
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(refused({{"apt", {"jq", "-o=x"}}}), HasSubstr("no package of apt"));
  EXPECT_THAT(refused({{"apt", {1}}}), HasSubstr("packages/apt"));
  EXPECT_THAT(refused({{"brew", {"jq"}}}), HasSubstr("brew"));
  EXPECT_THAT(refused({{"apt", std::vector<std::string>(201, "jq")}}), HasSubstr("200"));
  for (const char* name : {"own.other.secret", "packages.x", "A", "../x", "-x"})
    EXPECT_THAT(refused(Json::object(), {{kTemplateKey, name}}), HasSubstr("template")) << name;
  EXPECT_EQ(refused(Json::object(), {{kTemplateKey, "debian-12.base"}}), "");
}

}  // namespace
}  // namespace pons::managed
