#include "pons/egress/trust_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "certificate.h"
#include "egress_fixture.h"
#include "java_store.h"
#include "pons/base/text.h"

namespace pons::egress {
namespace {

struct TrustFilesTest : ::testing::Test {
  TrustFiles make(const std::string& bundle_path) {
    auto made = make_trust_files(authority, bundle_path);
    EXPECT_TRUE(made.has_value()) << made.error().describe();
    return made ? std::move(*made) : TrustFiles{};
  }
  // A bundle of the host with one certificate in it.
  std::string host_bundle(std::string_view before = "# comment\n", std::string_view after = "") {
    const auto other = CertificateAuthority::open(other_dir.path(), clock);
    host_pem = to_pem(other->certificate());
    write_text(dir.file("host.crt"), std::string(before) + host_pem + std::string(after));
    return dir.file("host.crt");
  }
  static const TrustFile* find(const TrustFiles& made, std::string_view path) {
    const auto found = std::ranges::find(made.files, path, &TrustFile::path);
    return found != made.files.end() ? &*found : nullptr;
  }

  TempDir dir;
  TempDir other_dir;
  ManualClock clock;
  CertificateAuthority authority = std::move(*CertificateAuthority::open(dir.path(), clock));
  std::string host_pem;
};

TEST_F(TrustFilesTest, BundleHoldsTheHostsAuthoritiesAndOurs) {
  const auto made = make(host_bundle());
  EXPECT_EQ(made.authority, to_pem(authority.certificate()));
  EXPECT_EQ(made.bundle, "# comment\n" + host_pem + made.authority);
}

TEST_F(TrustFilesTest, BundleWithoutANewlineAtItsEndStaysReadable) {
  const auto made = make(host_bundle("", "# no newline"));
  EXPECT_EQ(read_pem_certificates(made.bundle)->size(), 2u);
}

TEST_F(TrustFilesTest, HostWithoutABundleIsNoError) {
  const auto made = make(dir.file("none"));
  EXPECT_EQ(made.bundle, made.authority);
}

TEST_F(TrustFilesTest, DamagedOrOversizedBundleIsAnError) {
  const std::string path = dir.file("bad.crt");
  write_text(path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  EXPECT_FALSE(make_trust_files(authority, path));
  write_text(path, std::string(5 << 20, '#'));
  EXPECT_FALSE(make_trust_files(authority, path));
  EXPECT_FALSE(make_trust_files(authority, dir.path()));
}

TEST_F(TrustFilesTest, SameInputGivesTheSameBytes) {
  const std::string path = host_bundle();
  const auto first = make(path);
  clock.advance(std::chrono::hours(30));
  const auto second = make(path);
  ASSERT_EQ(first.files.size(), second.files.size());
  for (std::size_t i = 0; i < first.files.size(); ++i) {
    EXPECT_EQ(first.files[i].path, second.files[i].path);
    EXPECT_EQ(first.files[i].bytes, second.files[i].bytes);
  }
}

TEST_F(TrustFilesTest, UsualPlacesAreAllThere) {
  const auto made = make(host_bundle());
  for (const auto* path :
       {"etc/ssl/certs/ca-certificates.crt", "etc/ssl/cert.pem", "etc/pki/tls/certs/ca-bundle.crt",
        "etc/ssl/certs/java/cacerts", "usr/local/share/ca-certificates/pons.crt"})
    EXPECT_NE(find(made, path), nullptr) << path;
  EXPECT_EQ(find(made, "etc/ssl/certs/ca-certificates.crt")->bytes, made.bundle);
  EXPECT_EQ(find(made, "etc/ssl/certs/java/cacerts")->bytes, made.java_store);
  EXPECT_EQ(find(made, "usr/local/share/ca-certificates/pons.crt")->bytes, made.authority);
}

// Every link leads to a file of the same list, and no path leaves the root.
TEST_F(TrustFilesTest, LinksLeadToFilesOfTheLayer) {
  for (const bool rotating : {false, true}) {
    if (rotating) ASSERT_TRUE(authority.prepare_rotation());
    const auto made = make(host_bundle());
    for (const auto& file : made.files) {
      EXPECT_FALSE(file.path.starts_with("/") || file.path.contains("..")) << file.path;
      EXPECT_NE(file.bytes.empty(), file.link_target.empty()) << file.path;
      if (file.link_target.empty()) continue;
      const auto target =
          (std::filesystem::path("/" + file.path).parent_path() / file.link_target).string();
      EXPECT_NE(find(made, target.substr(1)), nullptr) << file.path << " -> " << target;
      EXPECT_EQ(std::ranges::count(made.files, file.path, &TrustFile::path), 1);
    }
    EXPECT_EQ(std::ranges::count_if(made.files,
                                    [](const TrustFile& f) { return f.path.ends_with(".0"); }),
              rotating ? 2 : 1);
  }
}

TEST_F(TrustFilesTest, BothAuthoritiesAreInEveryFormWhileARotationIsPrepared) {
  ASSERT_TRUE(authority.prepare_rotation());
  const auto made = make(host_bundle());
  EXPECT_EQ(read_pem_certificates(made.authority)->size(), 2u);
  EXPECT_EQ(read_pem_certificates(made.bundle)->size(), 3u);
  EXPECT_EQ(made.java_store.substr(8, 4), std::string("\0\0\0\x03", 4));
  EXPECT_NE(find(made, "usr/local/share/ca-certificates/pons-next.crt"), nullptr);
}

// Bytes that keytool of OpenJDK 17 has read.
TEST(JavaStore, FormatIsTheOneOfJava) {
  const auto store = encode_java_store({{"pons", "DER"}}, 0);
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(to_hex(store->substr(0, store->size() - 20)),
            "feedfeed"
            "00000002"
            "00000001"
            "00000002"
            "0004706f6e73"
            "0000000000000000"
            "0005582e353039"
            "00000003444552");
  EXPECT_EQ(to_hex(store->substr(store->size() - 20)), "5bf6057b4b39fc3f0080805e9983bbb725d0db2e");
}

TEST(TrustEnvironment, ProgramsThatReplaceTheirAuthoritiesGetAllAndThoseThatAddGetOurs) {
  const auto environment = trust_environment("/bundle", "/ours");
  EXPECT_EQ(environment.at("SSL_CERT_FILE"), "/bundle");
  EXPECT_EQ(environment.at("REQUESTS_CA_BUNDLE"), "/bundle");
  EXPECT_EQ(environment.at("NODE_EXTRA_CA_CERTS"), "/ours");
  EXPECT_EQ(environment.at("DENO_CERT"), "/ours");
  EXPECT_EQ(environment.at("JAVA_TOOL_OPTIONS"),
            "-Djavax.net.ssl.trustStore=/etc/ssl/certs/java/cacerts");
}

}  // namespace
}  // namespace pons::egress
