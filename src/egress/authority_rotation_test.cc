#include "authority_rotation.h"

#include <nlohmann/json.hpp>

#include "egress_fixture.h"

namespace pons::egress {
namespace {

class AuthorityRotationTest : public ::testing::Test {
 protected:
  CertificateAuthority open() {
    auto authority = CertificateAuthority::open(dir_.path(), clock_);
    EXPECT_TRUE(authority) << authority.error().describe();
    return std::move(*authority);
  }
  TempDir dir_;
  SystemClock clock_;
};

TEST_F(AuthorityRotationTest, AStartLiesBetweenItsTwoSteps) {
  std::string next;
  {
    CertificateAuthority authority = open();
    AuthorityRotation rotation(authority);
    EXPECT_FALSE(rotation.describe().contains("next"));
    EXPECT_EQ(rotation.rotate().error().code, ErrorCode::kConflict) << "there is no next one";
    ASSERT_TRUE(rotation.prepare());
    EXPECT_EQ(rotation.describe().at("next").at("trusted"), false);
    EXPECT_EQ(rotation.rotate().error().code, ErrorCode::kConflict)
        << "the sandboxes that are there do not trust it";
    next = rotation.describe().at("next").at("sha256");
    ASSERT_TRUE(rotation.prepare()) << "twice is once";
    EXPECT_EQ(rotation.describe().at("next").at("sha256"), next);
  }
  CertificateAuthority authority = open();
  AuthorityRotation rotation(authority);
  EXPECT_EQ(rotation.describe().at("next").at("trusted"), true);
  ASSERT_TRUE(rotation.rotate());
  EXPECT_EQ(rotation.describe().at("current").at("sha256"), next);
  EXPECT_FALSE(rotation.describe().contains("next"));
  ASSERT_TRUE(rotation.prepare());
  EXPECT_EQ(rotation.rotate().error().code, ErrorCode::kConflict) << "another one, another start";
}

}  // namespace
}  // namespace pons::egress
