#include "attachments.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "boundary_fixture.h"
#include "pons/base/json.h"

namespace pons::egress {
namespace {

constexpr std::string_view kOwn = "own-secret-of-the-project-0123";
constexpr std::string_view kRules = R"({"mode":"list","project":"mine",
    "allow":[{"host":"else.test.example"}],
    "fields":[{"host":"else.test.example","set":{"X-Token":"${e2b.secrets.key}"}}]})";
constexpr std::string_view kNoRules =
    R"({"mode":"list","project":"mine","allow":[{"host":"else.test.example"}]})";
constexpr std::string_view kTheirs =
    R"({"mode":"list","project":"theirs","allow":[{"host":"else.test.example"}]})";

class AttachmentsTest : public BoundaryTest {
 protected:
  AttachmentsTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    line_ = linux::UniqueFd(ends[0]);
    far_line_ = linux::UniqueFd(ends[1]);
    keeper_ = std::make_unique<roles::Keeper>(line_.get(), std::chrono::milliseconds(1));
    attachments_ = std::make_unique<Attachments>(*boundary_, *keeper_, PackageHosts{},
                                                 std::map<std::string, std::string>{});
    keep("key", kOwn);
    keep("other", kOwn);
  }
  void keep(const std::string& name, std::string_view value) {
    EXPECT_TRUE(project_secrets_->create("mine", name, Secret(std::string(value)), {}));
  }
  static linux::UniqueFd make_socket(int type) {
    linux::UniqueFd made(socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (type == SOCK_STREAM) EXPECT_EQ(listen(made.get(), 1), 0);
    return made;
  }
  // Attached, with a connection that lasts for as long as the pointer is not the only one.
  std::shared_ptr<int> attach(std::uint64_t key, std::string_view document) {
    const auto done = attachments_->attach(
        {.key = key, .id = std::to_string(key), .policy = {.document = std::string(document)}},
        make_socket(SOCK_STREAM), make_socket(SOCK_DGRAM));
    EXPECT_TRUE(done) << done.error().describe();
    auto alive = std::make_shared<int>();
    attachments_->find(std::to_string(key))->flows.spawn(last(*loop_, alive));
    return alive;
  }
  static Task<> last(linux::Loop& loop, std::shared_ptr<int>) { co_await loop.sleep_until(kNever); }
  static bool lasts(const std::shared_ptr<int>& flow) { return flow.use_count() > 1; }
  void look_up(std::uint64_t key, std::string_view name) {
    EXPECT_TRUE(attachments_->find(std::to_string(key))
                    ->names.assign(*names::HostName::parse(name), Breadth::kNamed, loop_->now()));
  }
  void send_secret() {
    const std::string project = "mine";
    const std::string name = "key";
    EXPECT_TRUE(sent_secrets_->note({HostPattern{.name = "else.test.example"}, 443, project, name,
                                     std::make_shared<const Secret>(std::string(kOwn))}));
  }

  // A sandbox of a former process, whose record is this, in one that knows no environments.
  Result<void> adopt_again(const Json& record) {
    roles::DescriptorStore store;
    const auto put = [&](const char* name, int socket) {
      EXPECT_TRUE(store.put(name, linux::UniqueFd(socket)));
    };
    put("0000000000000001.tcp", make_socket(SOCK_STREAM).release());
    put("0000000000000001.names", make_socket(SOCK_DGRAM).release());
    const int file = memfd_create("record", MFD_CLOEXEC);
    EXPECT_TRUE(linux::write_all(file, dump_json(record)));
    put("0000000000000001.record", file);
    // The supervisor is another process.
    const pid_t child = fork();
    if (child == 0) {
      auto loop = std::move(*linux::Loop::create());
      loop->spawn(roles::serve_keeper(*loop, far_line_.get(), store, [] {}));
      loop->run();
      _exit(0);
    }
    attachments_.reset();
    keeper_ = std::make_unique<roles::Keeper>(line_.get());
    attachments_ = std::make_unique<Attachments>(*boundary_, *keeper_, PackageHosts{},
                                                 std::map<std::string, std::string>{});
    auto adopted = attachments_->adopt();
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return adopted;
  }

  linux::UniqueFd line_;
  linux::UniqueFd far_line_;
  std::unique_ptr<roles::Keeper> keeper_;
  std::unique_ptr<Attachments> attachments_;
};

TEST_F(AttachmentsTest, WhatUsesAReplacedOrRemovedSecretEnds) {
  auto user = attach(1, kRules);
  const auto other = attach(2, kNoRules);
  ASSERT_TRUE(project_secrets_->remove("mine", "other"));
  EXPECT_TRUE(lasts(user));
  ASSERT_TRUE(project_secrets_->update("mine", "key", Secret(std::string(kOtherSecret)), {}));
  EXPECT_FALSE(lasts(user));
  attachments_->detach(1);
  user = attach(1, kRules);
  ASSERT_TRUE(project_secrets_->remove("mine", "key"));
  EXPECT_FALSE(lasts(user));
  EXPECT_TRUE(lasts(other));
}

TEST_F(AttachmentsTest, WhatIsUnderWayInASandboxsPlaceEndsAsItsOwn) {
  ASSERT_TRUE(attachments_->set_environments(
      {{"web", std::string(kRules)}, {"other", std::string(kNoRules)}}));
  const auto visit = [&](const std::string& environment) {
    auto visitor = std::make_shared<AttachedSandbox>(
        *loop_, 1ULL << 63, "for:somebody",
        *attachments_->find_policy({.environment = environment, .document = ""}));
    attachments_->watch(visitor, environment);
    return visitor;
  };
  const auto user = visit("web");
  const auto other = visit("other");
  for (const auto& visitor : {user, other}) visitor->flows.spawn(last(*loop_, nullptr));
  ASSERT_TRUE(project_secrets_->update("mine", "key", Secret(std::string(kOtherSecret)), {}));
  EXPECT_EQ(user->flows.size(), 0U);
  EXPECT_EQ(other->flows.size(), 1U);
  user->flows.spawn(last(*loop_, nullptr));
  ASSERT_TRUE(attachments_->set_environments({{"web", std::string(kRules)}}));
  EXPECT_EQ(user->flows.size(), 1U) << "its rules are what they were";
  EXPECT_EQ(other->flows.size(), 0U);
}

TEST_F(AttachmentsTest, ASecretOfAnotherProjectEndsNothing) {
  ASSERT_TRUE(project_secrets_->create("theirs", "key", Secret(std::string(kOwn)), {}));
  const auto user = attach(1, kRules);
  ASSERT_TRUE(project_secrets_->remove("theirs", "key"));
  EXPECT_TRUE(lasts(user));
}

TEST_F(AttachmentsTest, WhatPassesUnseenToAHostEndsWhenItGetsItsFirstSecret) {
  const auto sender = attach(1, kRules);
  const auto unseen = attach(2, kNoRules);
  const auto elsewhere = attach(3, kNoRules);
  const auto theirs = attach(4, kTheirs);
  look_up(1, "else.test.example");
  look_up(2, "else.test.example");
  look_up(3, "third.test.example");
  look_up(4, "else.test.example");
  send_secret();
  EXPECT_TRUE(lasts(sender));
  EXPECT_FALSE(lasts(unseen));
  EXPECT_TRUE(lasts(elsewhere));
  EXPECT_TRUE(lasts(theirs));
}

TEST_F(AttachmentsTest, WhatAFormerProcessMayHaveSentIsLookedFor) {
  const auto adopted = adopt_again({{"id", "1"}, {"policy", kRules}});
  ASSERT_TRUE(adopted) << adopted.error().describe();
  EXPECT_NE(attachments_->find("1"), nullptr);
  EXPECT_TRUE(sent_secrets_->contains("mine", *names::HostName::parse("else.test.example"), 443));
}

TEST_F(AttachmentsTest, ASandboxWhosePolicyIsGoneReachesNothing) {
  ASSERT_TRUE(adopt_again({{"id", "1"}, {"environment", "gone"}}));
  const auto sandbox = attachments_->find("1");
  ASSERT_NE(sandbox, nullptr);
  EXPECT_EQ(sandbox->policy->mode(), Mode::kNone);
  EXPECT_FALSE(
      sandbox->policy->judge_connect(*parse_destination("else.test.example"), 443).allowed());
}

TEST_F(AttachmentsTest, APolicyThatNamesTooMuchIsRefused) {
  keep("large", std::string(8192, 'x'));
  const auto document = [](int hosts) {
    std::string fields;
    for (int i = 0; i < hosts; ++i)
      fields += fmt::format(R"({}{{"host":"h{}.example","set":{{"A":"${{e2b.secrets.large}}",
          "B":"${{e2b.secrets.large}}"}}}})",
                            i == 0 ? "" : ",", i);
    return fmt::format(R"({{"mode":"public","project":"mine","fields":[{}]}})", fields);
  };
  const auto user = attach(1, kRules);
  EXPECT_TRUE(attachments_->set_policy("1", {.document = document(8)}));
  const auto refused = attachments_->set_policy("1", {.document = document(9)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(*attachments_->document_of("1"), document(8));
}

TEST_F(AttachmentsTest, ARemovedSecretIsStillLookedFor) {
  send_secret();
  ASSERT_TRUE(project_secrets_->remove("mine", "key"));
  sent_secrets_->forget_expired();
  EXPECT_TRUE(sent_secrets_->contains("mine", *names::HostName::parse("else.test.example")));
}

// ---- what a person allows

AccessGrant grant_of(std::string_view host, std::string request = "acc_1") {
  return {std::move(request), {.host = *parse_destination(host), .methods = {}, .reason = "why"}};
}

TEST_F(AttachmentsTest, AGrantIsForOneSandboxAndEndsNothing) {
  const auto user = attach(1, kNoRules);
  attach(2, kNoRules);
  const auto reaches = [&](const char* id) {
    return attachments_->find(id)
        ->policy->judge_connect(*parse_destination("b.test.example"), 443)
        .allowed();
  };
  ASSERT_TRUE(attachments_->grant(1, grant_of("b.test.example")));
  ASSERT_TRUE(attachments_->grant(1, grant_of("b.test.example"))) << "twice is once";
  EXPECT_TRUE(reaches("1"));
  EXPECT_FALSE(reaches("2"));
  EXPECT_TRUE(lasts(user));
  ASSERT_TRUE(attachments_->set_policy("1", {.document = std::string(kNoRules)}));
  EXPECT_FALSE(reaches("1")) << "new rules are all that holds";
}

TEST_F(AttachmentsTest, WhatNobodysWordOpensIsNotGranted) {
  attach(1, kRules);
  EXPECT_EQ(attachments_->grant(1, grant_of("else.test.example")).error().code, ErrorCode::kDenied);
  EXPECT_EQ(attachments_->grant(1, grant_of("127.0.0.1")).error().code, ErrorCode::kDenied);
  EXPECT_EQ(attachments_->grant(9, grant_of("b.test.example")).error().code, ErrorCode::kNotFound);
  for (std::size_t i = 0; i < kGrantsMax; ++i)
    ASSERT_TRUE(attachments_->grant(1, grant_of("b.test.example", fmt::format("acc_{}", i))));
  EXPECT_EQ(attachments_->grant(1, grant_of("c.test.example", "more")).error().code,
            ErrorCode::kLimit);
}

TEST_F(AttachmentsTest, AGrantOutlivesTheProcess) {
  ASSERT_TRUE(
      adopt_again({{"id", "1"},
                   {"policy", kNoRules},
                   {"granted",
                    {{{"request", "acc_1"}, {"wish", to_json(grant_of("b.test.example").wish)}},
                     {{"request", "acc_2"}, {"wish", "not one"}}}}}));
  EXPECT_TRUE(attachments_->find("1")
                  ->policy->judge_connect(*parse_destination("b.test.example"), 443)
                  .allowed());
}

TEST_F(AttachmentsTest, WishesOfASandboxThatIsGoneAreWithdrawn) {
  attach(1, kNoRules);
  attach(2, kNoRules);
  const auto first = access_->add("1", 1, grant_of("b.test.example").wish);
  const auto second = access_->add("2", 2, grant_of("b.test.example").wish);
  const auto older = access_->add("3", 3, grant_of("b.test.example").wish);
  attachments_->detach(1);
  EXPECT_EQ(access_->find(first->id)->status, AccessStatus::kWithdrawn);
  EXPECT_EQ(access_->find(older->id)->status, AccessStatus::kWithdrawn);
  EXPECT_TRUE(access_->find(second->id)->is_pending());
  attachments_->keep_only({});
  EXPECT_EQ(access_->find(second->id)->status, AccessStatus::kWithdrawn);
}

}  // namespace
}  // namespace pons::egress
