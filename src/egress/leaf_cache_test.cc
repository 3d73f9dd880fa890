#include "pons/egress/leaf_cache.h"

#include <gtest/gtest.h>

#include <openssl/x509v3.h>

#include "certificate.h"
#include "egress_fixture.h"

namespace pons::egress {
namespace {

using std::chrono::days;
using std::chrono::hours;

struct LeafCacheTest : ::testing::Test {
  LeafCacheTest() { start(); }
  void start(std::size_t hosts_max = LeafCache::kHostsMax) {
    auto made = LeafCache::create(authority, clock, hosts_max);
    ASSERT_TRUE(made.has_value()) << made.error().describe();
    cache = std::move(*made);
  }
  std::shared_ptr<const http::TlsIdentity> identity(const std::string& host) {
    auto found = cache->find_or_sign(host);
    EXPECT_TRUE(found.has_value()) << found.error().describe();
    return found ? std::move(*found) : nullptr;
  }
  X509* leaf(const std::string& host) {
    kept.push_back(identity(host));
    return kept.back()->chain().front();
  }
  static bool matches(X509* certificate, const std::string& host) {
    return X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1;
  }

  TempDir dir;
  ManualClock clock;
  CertificateAuthority authority = std::move(*CertificateAuthority::open(dir.path(), clock));
  std::unique_ptr<LeafCache> cache;
  std::vector<std::shared_ptr<const http::TlsIdentity>> kept;
};

std::time_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return timegm(&parts);
}

TEST_F(LeafCacheTest, LeafIsForExactlyOneName) {
  X509* certificate = leaf("api.example.com");
  EXPECT_TRUE(matches(certificate, "api.example.com"));
  for (const auto* other :
       {"example.com", "x.api.example.com", "www.example.com", "api.example.org"})
    EXPECT_FALSE(matches(certificate, other)) << other;
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  EXPECT_EQ(sk_GENERAL_NAME_num(names), 1);
  GENERAL_NAMES_free(names);
}

TEST_F(LeafCacheTest, LeafHasWhatStrictClientsAskFor) {
  X509* certificate = leaf("api.example.com");
  EXPECT_EQ(X509_verify(certificate, authority.key()), 1);
  EXPECT_EQ(X509_check_issued(authority.certificate(), certificate), X509_V_OK);
  EXPECT_EQ(X509_check_ca(certificate), 0);
  EXPECT_EQ(X509_get_key_usage(certificate), static_cast<unsigned>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_get_extended_key_usage(certificate), static_cast<unsigned>(XKU_SSL_SERVER));
  EXPECT_NE(X509_get0_subject_key_id(certificate), nullptr);
  const ASN1_OCTET_STRING* issuer = X509_get0_authority_key_id(certificate);
  ASSERT_NE(issuer, nullptr);
  EXPECT_EQ(ASN1_OCTET_STRING_cmp(issuer, X509_get0_subject_key_id(authority.certificate())), 0);
  EXPECT_EQ(EVP_PKEY_get_bits(X509_get0_pubkey(certificate)), 256);
}

TEST_F(LeafCacheTest, NumericAddressesAreNamedAsSuch) {
  for (const auto* address : {"192.0.2.7", "2001:db8::7"}) {
    EXPECT_EQ(X509_check_ip_asc(leaf(address), address, 0), 1);
    EXPECT_FALSE(matches(leaf(address), address));
  }
}

TEST_F(LeafCacheTest, LongNamesAreWhole) {
  const std::string name = std::string(63, 'a') + "." + std::string(63, 'b') + ".example.com";
  EXPECT_TRUE(matches(leaf(name), name));
}

TEST_F(LeafCacheTest, WhatIsNotOneCanonicalNameIsRefused) {
  for (const std::string& host :
       {std::string(), std::string("*.example.com"), std::string("a.example,DNS:b.example"),
        std::string("UPPER.example"), std::string("a..example"), std::string(".example"),
        std::string("example."), std::string("a b"), std::string("a\nb"), std::string("a/b"),
        std::string("a.example\0.b.example", 20), std::string("192.0.2.7:443"),
        std::string("[2001:db8::7]"), std::string(254, 'a'),
        std::string("b\xc3\xbc"
                    "cher.example")}) {
    EXPECT_FALSE(cache->find_or_sign(host)) << host;
  }
  EXPECT_EQ(cache->size(), 0u);
}

TEST_F(LeafCacheTest, LeavesLiveForDaysAndAreRenewedInTime) {
  const auto first = identity("a.example");
  X509* certificate = first->chain().front();
  const std::time_t begin = seconds_of(X509_get0_notBefore(certificate));
  EXPECT_EQ(seconds_of(X509_get0_notAfter(certificate)) - begin, (7 * 24 + 1) * 3600);
  clock.advance(days(6));
  EXPECT_EQ(identity("a.example"), first);
  clock.advance(hours(1));
  const auto second = identity("a.example");
  EXPECT_NE(second, first);
  EXPECT_EQ(seconds_of(X509_get0_notBefore(second->chain().front())) - begin, (6 * 24 + 1) * 3600);
  EXPECT_EQ(cache->size(), 1u);
}

TEST_F(LeafCacheTest, NoLeafOutlivesItsAuthority) {
  clock.advance(days(3650));
  EXPECT_EQ(seconds_of(X509_get0_notAfter(leaf("a.example"))),
            seconds_of(X509_get0_notAfter(authority.certificate())));
}

TEST_F(LeafCacheTest, SerialNumbersAreLongAndDiffer) {
  const ASN1_INTEGER* a = X509_get0_serialNumber(leaf("a.example"));
  const ASN1_INTEGER* b = X509_get0_serialNumber(leaf("b.example"));
  EXPECT_EQ(ASN1_STRING_length(a), 16);
  EXPECT_NE(ASN1_INTEGER_cmp(a, b), 0);
}

TEST_F(LeafCacheTest, FloodOfHostsDropsThoseNotUsed) {
  start(8);
  const auto busy = identity("busy.example");
  const auto idle = identity("idle.example");
  for (int i = 0; i < 500; ++i) {
    identity("host" + std::to_string(i) + ".example");
    EXPECT_EQ(identity("busy.example"), busy);
  }
  EXPECT_EQ(cache->size(), 8u);
  EXPECT_NE(identity("idle.example"), idle);
  EXPECT_TRUE(matches(idle->chain().front(), "idle.example"));  // whoever has it keeps it
}

TEST_F(LeafCacheTest, RotationIsFollowedAtOnce) {
  const auto before = identity("a.example");
  ASSERT_TRUE(authority.prepare_rotation());
  EXPECT_EQ(identity("a.example"), before);
  ASSERT_TRUE(authority.rotate());
  EXPECT_EQ(X509_verify(leaf("a.example"), authority.key()), 1);
}

}  // namespace
}  // namespace pons::egress
