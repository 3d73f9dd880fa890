#include "withheld_secrets.h"

#include <fmt/format.h>

#include "boundary_fixture.h"
#include "discretion.h"
#include "redaction.h"

namespace pons::egress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class WithheldSecretsTest : public BoundaryTest {
 protected:
  WithheldSecretsTest() {
    keep("mine", "key", kOwn);
    in_project("mine");
  }
  void keep(const std::string& project, const std::string& name, std::string_view value) {
    EXPECT_TRUE(project_secrets_->create(project, name, Secret(std::string(value)), {}));
  }
  void in_project(std::string_view project, std::string_view fields = "[]") {
    adopt(fmt::format(R"({{"mode":"list","project":"{}","fields":{},
        "allow":[{{"host":"api.test.example"}},{{"host":"else.test.example"}}]}})",
                      project, fields));
  }
  // Of a request that holds it.
  std::string code(std::string_view value) {
    return BoundaryTest::code(fmt::format("GET /?q={} HTTP/1.1\r\nHost: else.test.example", value),
                              origin("else.test.example"));
  }
  std::string redacted(std::string_view text) {
    return redact(*boundary_, {sandbox_.get()}, text, false)->text;
  }

  static constexpr std::string_view kOwn = "own0Zx81mQpL0vTr5Ke9WbYs7NcG";
  static constexpr std::string_view kWritten = "wrt1n3Vt6JwRk8CzPq1LxDy5MbSh";
};

TEST_F(WithheldSecretsTest, ASecretOfTheProjectDoesNotLeave) {
  EXPECT_EQ(code(kOwn), "secret_in_request");
  EXPECT_EQ(code(base64_encode(fmt::format("xx{}xx", kOwn))), "secret_in_request");
  EXPECT_EQ(code("something-else"), "");
  in_project("theirs");
  EXPECT_EQ(code(kOwn), "") << "no business of theirs";
}

TEST_F(WithheldSecretsTest, AChangeHoldsAtOnce) {
  EXPECT_EQ(code(kOwn), "secret_in_request");
  keep("mine", "second", kOtherSecret);
  EXPECT_EQ(code(kOtherSecret), "secret_in_request");
  ASSERT_TRUE(project_secrets_->remove("mine", "key"));
  EXPECT_EQ(code(kOwn), "");
  EXPECT_EQ(code(kOtherSecret), "secret_in_request");
}

TEST_F(WithheldSecretsTest, ACredentialThatIsWrittenInARuleDoesNotLeaveByTheSandbox) {
  in_project("", fmt::format(R"([{{"host":"api.test.example",
      "set":{{"Authorization":"Bearer {}","X-Plain":"{}"}}}}])",
                             kWritten, kOtherSecret));
  EXPECT_EQ(code(kWritten), "secret_in_request");
  EXPECT_EQ(code(kOtherSecret), "") << "in a field that is no credential's by its name";
}

// A project may call a secret what stands in any text.
TEST_F(WithheldSecretsTest, AWordIsNotLookedFor) {
  keep("mine", "tenant", "production-environment-of-the-company");
  EXPECT_EQ(code("production-environment-of-the-company"), "");
}

TEST_F(WithheldSecretsTest, WhatIsWrittenDownOrShownHasNone) {
  const std::string own(kOwn);
  EXPECT_EQ(for_the_record(*boundary_, *sandbox_, "/x/" + own), "withheld");
  EXPECT_EQ(for_the_record(*boundary_, *sandbox_, "/x/plain-path-of-a-request"),
            "/x/plain-path-of-a-request");
  EXPECT_TRUE(tells_secret(*boundary_, *sandbox_,
                           *names::HostName::parse("OWN0zx81mqpl0vtr.5ke9wbys7ncg.example")));
  const auto shown = redact(*boundary_, {sandbox_.get()}, "it is " + own + ".", false);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->text, "it is " + std::string(own.size(), 'x') + ".");
  EXPECT_THAT(shown->names, ElementsAre("e2b.secrets.key"));
}

TEST_F(WithheldSecretsTest, TheNameOfARedactedOneIsOneWordOfAList) {
  keep("mine", "a,b", kOtherSecret);
  EXPECT_THAT(redact(*boundary_, {sandbox_.get()}, kOtherSecret, false)->names,
              ElementsAre("e2b.secrets.a_b"));
}

TEST_F(WithheldSecretsTest, TheLongestAreLeftOutWhenThereIsTooMuch) {
  const auto value = [](char first, std::size_t size) {
    std::string text(1, first);
    for (std::size_t i = 1; i < size; ++i)
      text += "Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUaFo46iXn3Vt6JwRk"[i % 45];
    for (std::size_t i = 0; i < 8; ++i)
      text[size - 1 - i] = static_cast<char>('a' + (size >> i) % 26);
    return text;
  };
  std::vector<WithheldSecret> all;
  for (std::size_t i = 0; i < 80; ++i)
    all.push_back({.name = fmt::format("{}", i),
                   .value = std::make_shared<const Secret>(value('v', 8 * 1024 - i))});
  const auto made = make_withheld_set(std::move(all));
  ASSERT_TRUE(made) << made.error().describe();
  ASSERT_FALSE(made->secrets->empty());
  EXPECT_LT(made->secrets->size(), 80U);
  EXPECT_EQ(made->secrets->front().name, "79");
}

}  // namespace
}  // namespace pons::egress
