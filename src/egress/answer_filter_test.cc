#include "answer_filter.h"

#include <fmt/format.h>
#include <zlib.h>

#include "boundary_fixture.h"

namespace pons::egress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AnswerFilterTest : public BoundaryTest {
 protected:
  AnswerFilterTest() {
    set("TOKEN", kSecret, {"host=api.test.example"});
    judged_ = *judge("GET / HTTP/1.1\r\nHost: api.test.example");
  }
  std::expected<AnswerFilter, Refusal> open(http::OwnedFields fields = {}, int status = 200) {
    fields_ = std::move(fields);
    http::ResponseHead head;
    head.status = status;
    head.framing = http::BodyFraming::kChunked;
    for (const auto& [name, value] : fields_) head.fields.push_back({name, value});
    return AnswerFilter::open(*boundary_, *sandbox_, judged_, head);
  }
  static std::string all(const http::Response& head) {
    std::string text = head.content_type;
    for (const auto& [name, value] : head.fields) text += "\n" + name + ": " + value;
    return text;
  }
  // In pieces of that size.
  static std::string feed(AnswerFilter& filter, std::string_view body, std::size_t size) {
    std::string out;
    for (std::size_t at = 0; at < body.size(); at += size)
      if (!filter.feed(body.substr(at, size), out)) return out + "(cut)";
    return filter.finish(out) ? out : out + "(cut)";
  }

  Judged judged_;
  http::OwnedFields fields_;
};

TEST_F(AnswerFilterTest, SecretBecomesTheStubHoweverItIsCut) {
  const std::string secret(kSecret);
  for (std::size_t size = 1; size <= 64; ++size) {
    auto filter = *open();
    EXPECT_EQ(feed(filter, "you sent " + secret + "!", size), "you sent " + stub() + "!");
    EXPECT_TRUE(filter.has_scrubbed());
  }
}

TEST_F(AnswerFilterTest, SecretInAFieldsNameOrValueBecomesTheStub) {
  const std::string secret(kSecret);
  auto filter = open({{"X-" + secret, "1"}, {"X-Echo", secret}, {"Content-Type", secret}});
  ASSERT_TRUE(filter) << filter.error().reason;
  const std::string head = all(filter->take_head());
  EXPECT_THAT(head, Not(HasSubstr(secret)));
  EXPECT_THAT(head, HasSubstr("X-" + stub() + ": 1"));
  EXPECT_THAT(head, HasSubstr("X-Echo: " + stub()));
  EXPECT_TRUE(filter->has_scrubbed());
}

TEST_F(AnswerFilterTest, PartsOfAnAnswerAreRefused) {
  for (const int status : {206, 226}) {
    const auto filter = open({}, status);
    ASSERT_FALSE(filter);
    EXPECT_EQ(filter.error().code, "undecodable_answer");
  }
  EXPECT_FALSE(open({{"Content-Type", "multipart/byteranges; boundary=x"}}));
}

TEST_F(AnswerFilterTest, CodingsThatCannotBeUndoneAreRefused) {
  EXPECT_FALSE(open({{"Content-Encoding", "dcb"}}));
  EXPECT_FALSE(open({{"Content-Encoding", "gzip"}, {"Content-Encoding", "exi"}}));
}

TEST_F(AnswerFilterTest, CompressedSecretIsFoundAndTheCodingUndone) {
  std::string packed(1024, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string text = "token " + std::string(kSecret);
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  auto filter = *open({{"Content-Encoding", "gzip"}});
  EXPECT_THAT(all(filter.take_head()), Not(HasSubstr("gzip")));
  EXPECT_EQ(feed(filter, packed, 3), "token " + stub());
  auto torn = *open({{"Content-Encoding", "gzip"}});
  EXPECT_THAT(feed(torn, std::string_view(packed).substr(0, packed.size() - 4), 7),
              HasSubstr("(cut)"));
}

TEST_F(AnswerFilterTest, PacksAreCutRatherThanRewritten) {
  auto filter = *open({{"Content-Type", "application/x-git-upload-pack-result"}});
  EXPECT_THAT(feed(filter, "PACK" + std::string(kSecret), 8),
              ::testing::AllOf(HasSubstr("(cut)"), Not(HasSubstr(std::string(kSecret)))));
}

TEST_F(AnswerFilterTest, AChangeOfTheVaultMeanwhileDoesNotMixUpWhoseSecretItIs) {
  set("ZLAST", kOtherSecret, {"host=api.test.example"});
  auto filter = *open();
  const std::string last = stub("ZLAST");
  ASSERT_TRUE(vault_->remove("TOKEN"));
  ASSERT_TRUE(secrets_->current());  // another request, which sees the new vault
  EXPECT_EQ(feed(filter, "it is " + std::string(kOtherSecret), 1000), "it is " + last);
}

TEST_F(AnswerFilterTest, PreviousValueIsScrubbedAfterARotation) {
  ASSERT_TRUE(vault_->rotate("TOKEN", Secret(std::string(kOtherSecret))));
  auto filter = *open();
  const std::string out =
      feed(filter, std::string(kSecret) + " " + std::string(kOtherSecret), 1000);
  EXPECT_THAT(out, Not(HasSubstr(std::string(kSecret))));
  EXPECT_THAT(out, Not(HasSubstr(std::string(kOtherSecret))));
}

TEST_F(AnswerFilterTest, AValueOfAnotherShapeIsScrubbedAfterARotation) {
  constexpr std::string_view kLonger = "glpat-Zx81mQ.pL0vTr5Ke9WbYs-7NcGd2HjUaFo46iX_n3Vt6JwRk";
  ASSERT_TRUE(vault_->rotate("TOKEN", Secret(std::string(kLonger))));
  auto filter = *open();
  const std::string out = feed(filter, fmt::format("{} and {}.", kLonger, kSecret), 7);
  EXPECT_THAT(out, Not(HasSubstr("(cut)")));
  EXPECT_EQ(out, fmt::format("{} and {}.", vault::stand_in(stub(), kLonger), stub()));
}

TEST_F(AnswerFilterTest, ARemovedCredentialIsStillScrubbed) {
  const std::string former = stub();
  ASSERT_TRUE(vault_->remove("TOKEN"));
  const auto judged = judge("GET /stored HTTP/1.1\r\nHost: api.test.example");
  ASSERT_TRUE(judged);
  EXPECT_TRUE(judged->scrubs);
  auto filter = AnswerFilter::open(*boundary_, *sandbox_, *judged, {});
  ASSERT_TRUE(filter);
  EXPECT_EQ(feed(*filter, "once " + std::string(kSecret), 7), "once " + former);
  // It serves whom it likes: the credential is no longer the only one.
  EXPECT_EQ(code("GET / HTTP/1.1\r\nHost: api.test.example\r\nAuthorization: Bearer mine"), "");
}

TEST_F(AnswerFilterTest, MessagesAreScrubbedOneByOne) {
  auto filter = *open();
  for (const char* text : {"hello", "it begins like gh", "p and goes on", ""}) {
    std::string message = text;
    EXPECT_TRUE(filter.pass_message(message));
    EXPECT_EQ(message, text);
  }
  std::string message = "{\"token\":\"" + std::string(kSecret) + "\"}";
  EXPECT_TRUE(filter.pass_message(message));
  EXPECT_EQ(message, "{\"token\":\"" + stub() + "\"}");
  EXPECT_TRUE(filter.has_scrubbed());
}

TEST_F(AnswerFilterTest, ASecretSpreadOverMessagesDoesNotArrive) {
  const std::string secret(kSecret);
  for (std::size_t size = 1; size < secret.size(); ++size) {
    auto filter = *open();
    std::string arrived;
    bool is_cut = false;
    for (std::size_t at = 0; at < secret.size() && !is_cut; at += size) {
      std::string message = secret.substr(at, size);
      is_cut = !filter.pass_message(message);
      if (!is_cut) arrived += message;
    }
    EXPECT_TRUE(is_cut) << size;
    EXPECT_LE(arrived.size(), 8U) << size;
  }
}

TEST_F(AnswerFilterTest, ASecretInSmallLettersIsNotDeliveredAsAName) {
  std::string name = "x-" + std::string(kSecret);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  EXPECT_FALSE(open({{name, "1"}}));
  EXPECT_FALSE((*open()).clean_name(name));
  EXPECT_TRUE((*open()).clean_name("x-request-id-of-some-length"));
}

TEST_F(AnswerFilterTest, MessagesThatAreToBeUnpackedCountAgainstTheSandboxsMemory) {
  std::vector<AnswerFilter> held;
  for (int i = 0; i < 100; ++i) {
    auto filter = open({{"content-type", "application/grpc"}, {"grpc-encoding", "zstd"}});
    if (!filter) break;
    held.push_back(std::move(*filter));
  }
  EXPECT_GT(held.size(), 0U);
  EXPECT_LT(held.size(), 17U);
  EXPECT_TRUE(open({{"content-type", "application/grpc"}}));
  held.clear();
  EXPECT_TRUE(open({{"content-type", "application/grpc"}, {"grpc-encoding", "zstd"}}));
}

TEST_F(AnswerFilterTest, AMessageThatEndsInASecretDoesNotSpoilTheNext) {
  auto filter = *open();
  for (int i = 0; i < 3; ++i) {
    std::string message = "you are " + std::string(kSecret);
    EXPECT_TRUE(filter.pass_message(message));
    EXPECT_EQ(message, "you are " + stub());
    message = "next";
    EXPECT_TRUE(filter.pass_message(message));
    EXPECT_EQ(message, "next");
  }
}

TEST_F(AnswerFilterTest, OtherHostsAnswersAreNotTouched) {
  judged_ = *judge("GET / HTTP/1.1\r\nHost: else.test.example", origin("else.test.example"));
  auto filter = *open({{"Content-Encoding", "exi"}}, 206);
  EXPECT_THAT(all(filter.take_head()), HasSubstr("exi"));
  EXPECT_EQ(feed(filter, std::string(kSecret), 5), kSecret);
}

}  // namespace
}  // namespace pons::egress
