#include "apt_sources.h"

#include <gtest/gtest.h>

namespace pons::templates {
namespace {

TEST(AptSourcesTest, OnlyTheSuitesOwnSourcesAreTaken) {
  const char* text =
      "Types: deb\n# note\nURIs: http://m/debian\nSuites: bookworm bookworm-updates\n\n"
      "Types: deb\nURIs: http://m/node\nSuites: nodistro\n\n"
      "Types: deb-src\nURIs: http://m/source\nSuites: bookworm\n\n"
      "Enabled: no\nTypes: deb\nURIs: http://m/off\nSuites: bookworm\n";
  const std::string kept = deb822_sources_for(text, "bookworm");
  EXPECT_NE(kept.find("http://m/debian"), std::string::npos);
  for (const char* other : {"node", "source", "m/off"})
    EXPECT_EQ(kept.find(other), std::string::npos) << other;
  EXPECT_EQ(one_line_sources_for("# deb http://a bookworm main\ndeb http://b bookworm main\n"
                                 "deb http://c cloud-sdk-bookworm main\n"
                                 "deb-src http://d bookworm main\n",
                                 "bookworm"),
            "deb http://b bookworm main\n");
}

TEST(AptSourcesTest, AUrlLosesItsUserAndPassword) {
  EXPECT_EQ(without_credentials(
                "deb [a=b] https://me:p@ss@a.example/debian x\nURIs: http://u@b/ http://c\n"),
            "deb [a=b] https://a.example/debian x\nURIs: http://b/ http://c\n");
  EXPECT_EQ(without_credentials("no@url ://"), "no@url ://");
  EXPECT_EQ(without_credentials(""), "");
}

TEST(AptSourcesTest, OnlyFetchSettingsAreTaken) {
  EXPECT_EQ(
      fetch_settings("APT::Architecture \"amd64\";\nAcquire::Retries \"3\";\nDPkg::Post \"x\";\n"),
      "Acquire::Retries \"3\";\n");
}

TEST(AptSourcesTest, CredentialsAndProxiesAreSeen) {
  EXPECT_TRUE(holds_credentials("deb https://me:secret@mirror/debian bookworm main"));
  EXPECT_TRUE(holds_credentials("URIs: https://token@mirror/debian"));
  EXPECT_TRUE(holds_credentials("Acquire::http::Proxy \"http://cache:3142\";"));
  EXPECT_FALSE(holds_credentials("deb https://mirror/debian/@dir bookworm main"));
  EXPECT_FALSE(holds_credentials("// Proxy settings go here\n# https://a:b@c\n"));
}

}  // namespace
}  // namespace pons::templates
