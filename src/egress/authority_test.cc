#include "pons/egress/authority.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <openssl/x509v3.h>

#include "certificate.h"
#include "egress_fixture.h"

namespace pons::egress {
namespace {

using std::chrono::days;

struct AuthorityTest : ::testing::Test {
  Result<CertificateAuthority> open(KeySeal seal = {}) {
    return CertificateAuthority::open(dir.path(), clock, std::move(seal));
  }
  CertificateAuthority must_open(KeySeal seal = {}) {
    auto opened = open(std::move(seal));
    EXPECT_TRUE(opened.has_value()) << opened.error().describe();
    return std::move(*opened);
  }
  void expect_refused(ErrorCode code, KeySeal seal = {}) {
    const std::string before = read_text(file);
    const auto opened = open(std::move(seal));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, code) << opened.error().describe();
    EXPECT_TRUE(opened.error().message.contains("authority")) << opened.error().describe();
    EXPECT_EQ(read_text(file), before) << "an authority was replaced";
  }
  TempDir dir;
  ManualClock clock;
  std::string file = dir.file("authority.pem");
};

// Seals by turning every bit over; refuses what does not begin with its mark.
KeySeal mirror(char mark = 'S') {
  const auto turn = [](std::string_view bytes) {
    std::string turned(bytes);
    for (char& c : turned) c = static_cast<char>(~c);
    return turned;
  };
  return {.seal = [=](std::string_view plain) { return mark + turn(plain); },
          .open = [=](std::string_view sealed) -> Result<Secret> {
            if (!sealed.starts_with(mark))
              return make_error(ErrorCode::kDenied, "open", "sealed authority of somebody else");
            return Secret(turn(sealed.substr(1)));
          }};
}

TEST_F(AuthorityTest, IsTheSameAfterARestart) {
  const std::string first = to_pem(must_open().certificate());
  clock.advance(days(400));
  EXPECT_EQ(to_pem(must_open().certificate()), first);
}

TEST_F(AuthorityTest, TwoInstallationsHaveDifferentOnes) {
  TempDir other;
  auto theirs = CertificateAuthority::open(other.path(), clock);
  ASSERT_TRUE(theirs.has_value());
  const auto ours = must_open();
  EXPECT_NE(X509_NAME_cmp(X509_get_subject_name(ours.certificate()),
                          X509_get_subject_name(theirs->certificate())),
            0);
  EXPECT_NE(EVP_PKEY_eq(ours.key(), theirs->key()), 1);
}

TEST_F(AuthorityTest, MaySignHostCertificatesAndNothingElse) {
  const auto authority = must_open();
  X509* certificate = authority.certificate();
  EXPECT_EQ(X509_check_ca(certificate), 1);
  EXPECT_EQ(X509_get_pathlen(certificate), 0);
  EXPECT_EQ(X509_get_key_usage(certificate), static_cast<unsigned>(KU_KEY_CERT_SIGN));
  EXPECT_EQ(X509_verify(certificate, authority.key()), 1);
  EXPECT_EQ(EVP_PKEY_get_bits(authority.key()), 256);
  EXPECT_EQ(ASN1_STRING_length(X509_get0_serialNumber(certificate)), 16);
  EXPECT_EQ(authority.not_after() - clock.wall(), days(3652));
}

TEST_F(AuthorityTest, KeyFileIsClosedToOthers) {
  must_open();
  struct stat status{};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  expect_refused(ErrorCode::kDenied);
}

TEST_F(AuthorityTest, LinkInPlaceOfTheKeyFileIsRefused) {
  must_open();
  std::filesystem::rename(file, dir.file("elsewhere"));
  std::filesystem::create_symlink(dir.file("elsewhere"), file);
  EXPECT_FALSE(open());
}

TEST_F(AuthorityTest, DamagedFileIsAnErrorAndNotReplaced) {
  must_open();
  const std::string good = read_text(file);
  for (const auto& bad :
       {std::string(), good.substr(0, good.size() / 2), std::string("garbage"),
        good.substr(0, good.find("-----BEGIN PRIVATE")), std::string(100'000, 'x')}) {
    write_text(file, bad);
    EXPECT_FALSE(open()) << bad.size();
    EXPECT_EQ(read_text(file), bad);
  }
  write_text(file, good);
  EXPECT_TRUE(open());
}

TEST_F(AuthorityTest, KeyOfAnotherCertificateIsRefused) {
  must_open();
  TempDir other;
  ASSERT_TRUE(CertificateAuthority::open(other.path(), clock));
  const std::string mine = read_text(file);
  const std::string theirs = read_text(other.file("authority.pem"));
  const auto key_begin = [](const std::string& text) { return text.find("-----BEGIN PRIVATE"); };
  write_text(file, mine.substr(0, key_begin(mine)) + theirs.substr(key_begin(theirs)));
  expect_refused(ErrorCode::kInvalid);
}

TEST_F(AuthorityTest, ExpiredOneIsRefused) {
  must_open();
  clock.advance(days(3653));
  expect_refused(ErrorCode::kInvalid);
}

TEST_F(AuthorityTest, SealedFileShowsNoKeyAndOpensWithItsSealOnly) {
  const std::string first = to_pem(must_open(mirror()).certificate());
  EXPECT_FALSE(read_text(file).contains("BEGIN"));
  EXPECT_EQ(to_pem(must_open(mirror()).certificate()), first);
  expect_refused(ErrorCode::kDenied, mirror('T'));
  expect_refused(ErrorCode::kInvalid);
}

TEST_F(AuthorityTest, PlainFileIsSealedAsSoonAsThereIsASeal) {
  const std::string first = to_pem(must_open().certificate());
  EXPECT_EQ(to_pem(must_open(mirror()).certificate()), first);
  EXPECT_FALSE(read_text(file).contains("BEGIN"));
}

// ---- rotation

TEST_F(AuthorityTest, BothAreTrustedWhileARotationIsPrepared) {
  auto authority = must_open();
  const std::string old = to_pem(authority.certificate());
  EXPECT_EQ(authority.rotate().error().code, ErrorCode::kConflict);
  ASSERT_TRUE(authority.prepare_rotation());
  ASSERT_TRUE(authority.prepare_rotation());  // again is the same
  ASSERT_EQ(authority.trusted().size(), 2u);
  const std::string next = to_pem(authority.trusted()[1]);
  EXPECT_EQ(to_pem(authority.certificate()), old);

  auto restarted = must_open();
  ASSERT_EQ(restarted.trusted().size(), 2u);
  EXPECT_EQ(to_pem(restarted.trusted()[1]), next);
  ASSERT_TRUE(restarted.rotate());
  EXPECT_EQ(to_pem(restarted.certificate()), next);
  EXPECT_EQ(restarted.trusted().size(), 1u);
  const auto after = must_open();
  EXPECT_EQ(to_pem(after.certificate()), next);
  EXPECT_EQ(after.trusted().size(), 1u);
}

TEST_F(AuthorityTest, EarlierOnesStayKnownAsOurs) {
  auto authority = must_open();
  std::string all;
  for (int i = 0; i < 3; ++i) {
    all = to_pem(authority.certificate()) + all;
    ASSERT_TRUE(authority.prepare_rotation());
    ASSERT_TRUE(authority.rotate());
  }
  const auto reopened = must_open();
  auto certificates = read_pem_certificates(reopened.own_pem());
  ASSERT_TRUE(certificates.has_value());
  EXPECT_EQ(certificates->size(), 4u);
  EXPECT_EQ(to_pem((*certificates)[0].get()), to_pem(reopened.certificate()));
}

}  // namespace
}  // namespace pons::egress
