#include "pons/egress/package_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "package_sources.h"
#include "pons/egress/policy.h"

namespace pons::egress {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class PackageHostsTest : public ::testing::Test {
 protected:
  PackageHostsTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "pons-packages-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~PackageHostsTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, std::string_view text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::vector<std::string> hosts(const std::string& word) {
    std::vector<std::string> texts;
    const PackageHosts all = read_package_hosts(root_.string());
    for (const PackageHost& host : all.at(word))
      texts.push_back(fmt::format("{}:{}", to_text(host.host), host.port));
    return texts;
  }

  std::filesystem::path root_;
};

constexpr const char* kNpmProgram =
    "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js";
constexpr const char* kPipProgram = "usr/lib/python3/dist-packages/pip/_internal/models/index.py";

TEST_F(PackageHostsTest, AToolWithoutConfigurationAsksWhatItWasMadeToAsk) {
  write(kNpmProgram,
        "define('proxy', {\n  default: null })\n"
        "define('registry', {\n  default: 'https://npm.example/',\n  type: url })\n"
        "define('save', {\n  default: 'https://no.example/' })\n");
  write(kPipProgram,
        "PyPI = PackageIndex(\"https://pip.example/\", file_storage_domain=\"files.example\")\n"
        "TestPyPI = PackageIndex(\n    \"https://no.example/\", file_storage_domain=\"x\")\n");
  EXPECT_THAT(hosts("npm"), ElementsAre("npm.example:443"));
  EXPECT_THAT(hosts("pip"), UnorderedElementsAre("pip.example:443", "files.example:443"));
}

TEST_F(PackageHostsTest, AToolThatNamesNoHostIsRefusedAndNotGuessed) {
  for (const char* word : {"apt", "npm", "pip", "cargo"}) {
    EXPECT_TRUE(hosts(word).empty()) << word;
    const auto policy = Policy::compile(fmt::format(R"({{"mode":"list","packages":["{}"]}})", word),
                                        1, read_package_hosts(root_.string()));
    ASSERT_FALSE(policy) << word;
    EXPECT_THAT(policy.error().message, ::testing::HasSubstr("under allow"));
  }
}

TEST_F(PackageHostsTest, AProgramOfAnotherShapeSaysNothing) {
  write(kNpmProgram,
        "define('registry', {" + std::string(500, ' ') + "default: 'https://no.example'");
  write(kPipProgram, "PyPI = PackageIndex(\"https://no.example");
  EXPECT_TRUE(hosts("npm").empty());
  EXPECT_TRUE(hosts("pip").empty());
}

TEST_F(PackageHostsTest, AptSourcesOfBothFormatsAreRead) {
  write("etc/apt/sources.list",
        "# deb http://off.example/debian bookworm main\n"
        "deb http://one.example/debian bookworm main # deb http://no.example x y\n"
        "deb [arch=amd64 signed-by=/k.gpg] https://two.example:8443/debian bookworm main\n"
        "deb-src http://source.example/debian bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\ndeb file:/srv/debian ./\ndeb\n");
  write("etc/apt/sources.list.d/x.list", "deb http://three.example/ ./\n");
  write(
      "etc/apt/sources.list.d/y.sources",
      "Types: deb\n# note\nURIs: http://four.example/debian\n  https://five.example\nSuites: s\n\n"
      "Enabled: no\nTypes: deb\nURIs: http://off.example\n");
  write("etc/apt/sources.list.d/z.sources.disabled", "Types: deb\nURIs: http://off.example\n");
  EXPECT_THAT(hosts("apt"),
              UnorderedElementsAre("one.example:80", "two.example:8443", "three.example:80",
                                   "four.example:80", "five.example:443"));
}

TEST_F(PackageHostsTest, AMirrorTakesThePlaceOfTheDefault) {
  write(
      "etc/npmrc",
      "; note\nregistry = \"https://npm.example/all/\"\n@acme:registry=http://acme.example:4873\n");
  write("etc/pip.conf",
        "[global]\nindex-url = https://pypi.example/simple\nextra-index-url =\n"
        "    https://extra.example/simple\n    https://more.example\ntimeout = 60\n");
  write("root/.cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\n"
        "registry = \"sparse+https://crates.example/index/\"\n");
  EXPECT_THAT(hosts("npm"), UnorderedElementsAre("npm.example:443", "acme.example:4873"));
  EXPECT_THAT(hosts("pip"),
              UnorderedElementsAre("pypi.example:443", "extra.example:443", "more.example:443"));
  EXPECT_THAT(hosts("cargo"), ElementsAre("crates.example:443"));
}

TEST_F(PackageHostsTest, WhatAToolAsksInsteadIsKnownWithoutItsPassword) {
  EXPECT_TRUE(read_package_registries(root_.string()).empty());
  write("etc/npmrc",
        "registry=https://me:secret@npm.example/group/npm/\n@s:registry=https://s.example\n");
  write("etc/pip.conf",
        "[global]\nindex-url = http://pip.example/simple\nextra-index-url = http://x.example\n");
  using Registries = std::map<std::string, std::string>;
  EXPECT_EQ(read_package_registries(root_.string()),
            (Registries{{"npm", "https://npm.example/group/npm/"},
                        {"pip", "http://pip.example/simple"}}));
  write("root/.npmrc", "registry=${REGISTRY}\n");
  EXPECT_FALSE(read_package_registries(root_.string()).contains("npm"));
}

TEST_F(PackageHostsTest, AnAdditionalRegistryLeavesTheDefault) {
  write(kNpmProgram, "define('registry', {\n  default: 'https://npm.example/',");
  write("root/.npmrc", "@acme:registry=https://acme.example\n//acme.example/:_authToken=x\n");
  EXPECT_THAT(hosts("npm"), UnorderedElementsAre("npm.example:443", "acme.example:443"));
}

TEST_F(PackageHostsTest, CredentialsAreDropped) {
  write("etc/pip.conf", "[global]\nindex-url = https://me:hunter2@pypi.example:8443/simple\n");
  EXPECT_THAT(hosts("pip"), ElementsAre("pypi.example:8443"));
  EXPECT_EQ(to_text(find_url_host("https://a@b:c@d.example/x@y")->host), "d.example");
}

TEST_F(PackageHostsTest, WhatIsNoHostIsLeftOut) {
  for (const char* url : {"", "https://", "ftp://a.example", "file:///srv", "https://${HOST}/x",
                          "https://a.example:0", "https://a.example:99999", "https://a b",
                          "a.example", "git+ssh://a.example"})
    EXPECT_FALSE(find_url_host(url)) << url;
  EXPECT_EQ(to_text(find_url_host("http://[2001:db8::1]:8080/")->host), "2001:db8::1");
  write("etc/pip.conf", std::string(2 << 20, '#'));
  EXPECT_TRUE(hosts("pip").empty());
}

TEST_F(PackageHostsTest, AFileWithThousandsOfHostsIsBounded) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("@s{}:registry=https://h{}.example\n", i, i);
  write("etc/npmrc", text);
  EXPECT_LE(hosts("npm").size(), 64U);
}

TEST_F(PackageHostsTest, APolicyTakesThemByTheirWords) {
  write("etc/pip.conf", "[global]\nindex-url = https://pip.example/simple\n");
  const auto packages = read_package_hosts(root_.string());
  const auto policy = Policy::compile(R"({"mode":"list","packages":["pip"]})", 1, packages);
  ASSERT_TRUE(policy);
  EXPECT_TRUE((*policy)
                  ->judge_request(*parse_destination("pip.example"), 443, "GET", "/simple/")
                  .allowed());
}

TEST_F(PackageHostsTest, AllAreThoseThatNameAny) {
  write("etc/pip.conf", "[global]\nindex-url = https://pip.example/simple\n");
  const auto packages = read_package_hosts(root_.string());
  const auto policy = Policy::compile(R"({"mode":"list","packages":"all"})", 1, packages);
  ASSERT_TRUE(policy) << policy.error().describe();
  const auto is_allowed = [&](const char* host, const char* method) {
    return (*policy)->judge_request(*parse_destination(host), 443, method, "/simple/").allowed();
  };
  EXPECT_TRUE(is_allowed("pip.example", "GET"));
  EXPECT_FALSE(is_allowed("pip.example", "POST"));
  EXPECT_FALSE(is_allowed("other.example", "GET"));
  EXPECT_FALSE(Policy::compile(R"({"mode":"list","packages":"any"})", 1, packages));
}

}  // namespace
}  // namespace pons::egress
