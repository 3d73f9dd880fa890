#include "package_builds.h"

#include <algorithm>
#include <deque>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "packaged_hands.h"
#include "pons/sandbox/refusing_provider.h"

namespace pons::brain {
namespace {

using namespace sandbox;
using managed::PackageSet;
using managed::PackageUses;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using State = PackageBuilds::State;

// Where packages are installed: jobs end as a test says, and are run once for each id.
class Workshop final : public RefusingProvider {
 public:
  explicit Workshop(linux::Loop& loop) : go_(loop) {
    templates["host"] = {.name = "host", .kind = "host", .layers = {"h"}};
    go_.set();
  }

  struct End {
    int code = 0;
    std::string output = {};
    Outcome outcome = Outcome::kExit;
  };
  std::map<std::string, TemplateInfo> templates;
  std::map<std::string, CreateRequest> sandboxes;
  std::map<std::string, End> ends;     // by job
  std::map<std::string, JobSpec> run;  // by job: what was begun
  std::vector<std::string> begun;      // jobs, in their order
  std::set<std::string> in_use;        // templates
  std::vector<std::string> destroyed;
  int failures = 0;  // so many calls find nobody
  int creates = 0;
  int snapshots = 0;
  bool has_disks = true;
  std::optional<Error> refusal_of_create;

  void pause_jobs() { go_.reset(); }
  void go_on() { go_.set(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, info] : templates) all.push_back(name);
    return all;
  }

  Task<Result<std::vector<TemplateInfo>>> list_templates() override {
    if (is_away()) co_return away();
    std::vector<TemplateInfo> all;
    for (const auto& [name, info] : templates) all.push_back(info);
    co_return all;
  }
  Task<Result<void>> put_template(TemplateInfo info) override {
    templates[info.name] = info;
    co_return {};
  }
  Task<Result<std::vector<std::string>>> remove_template(std::string name) override {
    if (in_use.contains(name)) co_return make_error(ErrorCode::kConflict, "remove", "in use");
    if (templates.erase(name) == 0) co_return make_error(ErrorCode::kNotFound, "remove", "none");
    co_return std::vector<std::string>();
  }
  Task<Result<SandboxInfo>> create(CreateRequest request) override {
    if (is_away()) co_return away();
    if (refusal_of_create) co_return *refusal_of_create;
    if (request.limits.disk_upper && !has_disks)
      co_return make_error(ErrorCode::kUnsupported, "create", "no disk");
    ++creates;
    sandboxes.try_emplace(request.id, request);
    co_return SandboxInfo{.id = request.id};
  }
  Task<Result<std::vector<SandboxInfo>>> list() override {
    std::vector<SandboxInfo> all;
    for (const auto& [id, request] : sandboxes) all.push_back({.id = id, .labels = request.labels});
    co_return all;
  }
  Task<Result<void>> destroy(std::string id) override {
    destroyed.push_back(id);
    sandboxes.erase(id);
    std::erase_if(run, [&](const auto& each) { return each.first.starts_with(id + "/"); });
    co_return {};
  }
  Task<Result<std::unique_ptr<JobStream>>> execute(std::string id, JobSpec job) override {
    if (is_away()) co_return away();
    if (!sandboxes.contains(id)) co_return make_error(ErrorCode::kNotFound, "execute", "gone");
    const std::string name = job.id;
    if (run.try_emplace(id + "/" + name, job).second) begun.push_back(name);
    specs[name] = job;
    co_return std::unique_ptr<JobStream>(std::make_unique<Stream>(*this, name));
  }
  Task<Result<TemplateInfo>> snapshot(std::string id, std::string name) override {
    if (!sandboxes.contains(id)) co_return make_error(ErrorCode::kNotFound, "snapshot", "gone");
    ++snapshots;
    templates[name] = {.name = name, .kind = "snapshot", .layers = {"new", "h"}};
    co_return templates[name];
  }

  std::map<std::string, JobSpec> specs;

 private:
  class Stream final : public JobStream {
   public:
    Stream(Workshop& shop, std::string name) : shop_(shop), name_(std::move(name)) {}
    const std::string& job_id() const override { return name_; }
    Task<Result<std::optional<JobEvent>>> next(TimePoint deadline) override {
      co_await shop_.go_.wait(deadline);
      const End end = shop_.ends[name_];
      if (!has_spoken_ && !end.output.empty()) {
        has_spoken_ = true;
        co_return std::optional<JobEvent>(Output{.bytes = end.output});
      }
      co_return std::optional<JobEvent>(JobInfo{.outcome = end.outcome, .code = end.code});
    }

   private:
    Workshop& shop_;
    std::string name_;
    bool has_spoken_ = false;
  };

  bool is_away() { return failures > 0 && failures-- > 0; }
  static Error away() { return make_error(ErrorCode::kUnavailable, "ask warden", "went away"); }

  linux::Event go_;
};

// Hands that only remember which template was asked for.
class NotedHands final : public session::Hands {
 public:
  std::vector<std::string> templates;
  int lacking = 0;  // so many times there is none
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override {
    templates.push_back(order.sandbox_template);
    if (lacking > 0 && lacking-- > 0) co_return none();
    co_return session::ProvisionReport{.contents = "made"};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return none(); }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder) override { co_return none(); }
  Task<Result<void>> stop(std::string, std::string) override { co_return none(); }
  Task<Result<void>> destroy(std::string) override { co_return none(); }

 private:
  static Error none() { return make_error(ErrorCode::kNotFound, "use hands", "none"); }
};

constexpr Duration kSoon = std::chrono::milliseconds(5);
constexpr Duration kLong = std::chrono::minutes(1);

class PackageBuildsTest : public BrainTest {
 protected:
  PackageBuildsTest()
      : shop_(*loop_),
        uses_(*store_, clock_),
        environments_(*store_, clock_, "environments", "environment", "env") {
    restart();
  }
  void restart(std::string network = {}) {
    builds_.reset();
    builds_ = std::make_unique<PackageBuilds>(
        *loop_, clock_, shop_, uses_,
        PackageBuilds::Options{.network = std::move(network),
                               .times = {.step = kLong,
                                         .patience = kLong,
                                         .between_looks = kSoon,
                                         .after_trouble = kSoon,
                                         .after_refusal = std::chrono::hours(1)}});
  }
  static Json document(const Json& packages) {
    Json all = {{"apt", Json::array()}, {"npm", Json::array()}};
    all.update(packages);
    return {{"metadata", Json::object()}, {"config", {{"type", "cloud"}, {"packages", all}}}};
  }
  static PackageSet set_of(const Json& packages) {
    return *managed::package_set_of(document(packages));
  }
  // Its id.
  std::string want(const Json& packages, const std::string& project = "default") {
    const auto made = run(
        environments_.create(project, dump_json(document(packages)), PackageUses::of_environment));
    EXPECT_TRUE(made);
    return made ? made->id : "";
  }
  void look() { EXPECT_TRUE(run(builds_->look_once())); }
  Result<void> wait(const PackageSet& set, Duration at_most = kLong) {
    return run(builds_->wait_for(set.digest(), at_most));
  }
  static std::string template_of(const PackageSet& set) {
    return managed::package_template(set.digest());
  }

  static Task<bool> is_ready(PackageBuilds& builds, linux::Loop& loop, std::string digest) {
    const TimePoint deadline = loop.now() + kLong;
    while (builds.progress_of(digest).state != State::kReady && loop.now() < deadline)
      co_await loop.sleep_for(kSoon);
    co_return builds.progress_of(digest).state == State::kReady;
  }

  Workshop shop_;
  PackageUses uses_;
  managed::Documents environments_;
  std::unique_ptr<PackageBuilds> builds_;
};

const Json kPackages = {{"apt", {"hello", "jq=1.6"}}, {"npm", {"is-number"}}};

TEST_F(PackageBuildsTest, WhatTwoEnvironmentsWantIsBuiltOnce) {
  want(kPackages);
  want({{"npm", {"is-number"}}, {"apt", {"jq=1.6", "hello"}}});
  look();
  look();
  const PackageSet set = set_of(kPackages);
  ASSERT_TRUE(wait(set));
  EXPECT_EQ(shop_.creates, 1);
  EXPECT_THAT(shop_.begun, ElementsAre("apt", "npm", "settle"));
  EXPECT_THAT(shop_.names(), UnorderedElementsAre("host", template_of(set)));
  EXPECT_TRUE(shop_.sandboxes.empty());
  const TemplateInfo& made = shop_.templates.at(template_of(set));
  EXPECT_EQ(made.kind, "packages");
  EXPECT_THAT(made.source, HasSubstr("apt: hello jq=1.6; npm: is-number on host"));
  EXPECT_THAT(made.environment.at("PATH"), HasSubstr("/opt/packages/npm/bin:/usr/local/sbin"));
  EXPECT_EQ(made.environment.at("NODE_PATH"), "/opt/packages/npm/lib/node_modules");
  EXPECT_EQ(builds_->progress_of(set.digest()).state, State::kReady);
}

TEST_F(PackageBuildsTest, NamesAreArgumentsAndTheNetworkIsTheManagers) {
  want(kPackages);
  shop_.pause_jobs();
  look();
  const CreateRequest request = shop_.sandboxes.begin()->second;
  EXPECT_EQ(request.template_name, "host");
  const Json policy = *parse_json(request.network.policy);
  EXPECT_EQ(policy.at("mode"), "list");
  EXPECT_EQ(policy.at("packages"), Json({"apt", "npm"}));
  EXPECT_FALSE(policy.contains("allow"));
  shop_.go_on();
  ASSERT_TRUE(wait(set_of(kPackages)));
  const JobSpec& apt = shop_.specs.at("apt");
  EXPECT_EQ(apt.user, "root");
  EXPECT_TRUE(apt.shell_line.empty());
  ASSERT_EQ(apt.argv.size(), 6U);
  EXPECT_EQ(apt.argv[0], "/bin/sh");
  EXPECT_EQ(apt.argv[2].find("hello"), std::string::npos);
  EXPECT_EQ(apt.argv[4], "hello");
  EXPECT_EQ(apt.argv[5], "jq=1.6");
}

TEST_F(PackageBuildsTest, AFailureIsInTheWordsOfTheManagerUntilItIsTriedAgain) {
  want(kPackages);
  shop_.ends["apt"] = {.code = 100, .output = "E: Unable to locate package hello\n"};
  const PackageSet set = set_of(kPackages);
  const auto failed = wait(set);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(failed.error().message,
              HasSubstr("could not be installed: apt: E: Unable to locate"));
  EXPECT_TRUE(shop_.sandboxes.empty());
  EXPECT_THAT(shop_.names(), ElementsAre("host"));
  look();
  EXPECT_FALSE(wait(set));
  EXPECT_EQ(shop_.creates, 1) << "it says the same again, for a while";
  shop_.ends.clear();
  builds_->begin(set);
  EXPECT_TRUE(wait(set));
  EXPECT_EQ(shop_.creates, 2);
}

TEST_F(PackageBuildsTest, WhatMayPassIsTriedAgainByItself) {
  want(kPackages);
  shop_.ends["npm"] = {.outcome = Outcome::kInterrupted};
  const PackageSet set = set_of(kPackages);
  EXPECT_FALSE(wait(set));
  shop_.ends.clear();
  linux::TaskGroup group(*loop_);
  group.spawn(builds_->keep_going());
  EXPECT_TRUE(run(is_ready(*builds_, *loop_, set.digest())));
  EXPECT_EQ(builds_->progress_of(set.digest()).state, State::kReady);
}

TEST_F(PackageBuildsTest, AProviderThatStartsAgainIsWaitedFor) {
  want(kPackages);
  shop_.failures = 3;
  EXPECT_TRUE(wait(set_of(kPackages)));
}

TEST_F(PackageBuildsTest, TheNextProcessJoinsWhatTheLastOneBegan) {
  want(kPackages);
  shop_.pause_jobs();
  look();
  EXPECT_THAT(shop_.begun, ElementsAre("apt"));
  restart();
  look();
  shop_.go_on();
  EXPECT_TRUE(wait(set_of(kPackages)));
  EXPECT_THAT(shop_.begun, ElementsAre("apt", "npm", "settle")) << "each was run once";
  EXPECT_EQ(shop_.sandboxes.size(), 0U);
  restart();
  EXPECT_TRUE(wait(set_of(kPackages)));
  EXPECT_EQ(shop_.begun.size(), 3U) << "what is there is not made again";
}

TEST_F(PackageBuildsTest, WhoWaitsIsToldHowFarItIs) {
  want(kPackages);
  shop_.pause_jobs();
  look();
  const auto waited = wait(set_of(kPackages), kSoon);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(waited.error().message, HasSubstr("still being installed (apt)"));
  EXPECT_EQ(builds_->progress_of(set_of(kPackages).digest()).state, State::kBuilding);
}

TEST_F(PackageBuildsTest, ATemplateThatNobodyKnowsIsNotWaitedFor) {
  const auto waited = wait(set_of(kPackages));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kNotFound);
}

TEST_F(PackageBuildsTest, WhatItStandsOnMustBeThere) {
  Json said = document(kPackages);
  said["metadata"][managed::kTemplateKey] = "debian";
  ASSERT_TRUE(run(environments_.create("default", dump_json(said), PackageUses::of_environment)));
  const auto waited = wait(*managed::package_set_of(said));
  ASSERT_FALSE(waited);
  EXPECT_THAT(waited.error().message, HasSubstr("there is no template \"debian\""));
  EXPECT_EQ(shop_.creates, 0);
}

TEST_F(PackageBuildsTest, RulesThatEgressRefusesAreTheReason) {
  want({{"npm", {"x"}}});
  shop_.refusal_of_create = make_error(ErrorCode::kInvalid, "read policy", "npm names no host");
  const auto waited = wait(set_of({{"npm", {"x"}}}));
  ASSERT_FALSE(waited);
  EXPECT_THAT(waited.error().message, HasSubstr("npm names no host"));
}

TEST_F(PackageBuildsTest, HostsThatTheMachineDoesNotNameAreTheOperators) {
  const Json packages = {{"gem", {"rack"}}};
  want(packages);
  const auto refused = wait(set_of(packages));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no hosts of gem"));
  restart("builds");
  shop_.pause_jobs();
  look();
  ASSERT_EQ(shop_.sandboxes.size(), 1U);
  EXPECT_EQ(shop_.sandboxes.begin()->second.network.environment, "builds");
  EXPECT_EQ(shop_.sandboxes.begin()->second.network.policy, "");
}

TEST_F(PackageBuildsTest, WithoutDisksItIsDoneInMemory) {
  want(kPackages);
  shop_.has_disks = false;
  EXPECT_TRUE(wait(set_of(kPackages)));
}

TEST_F(PackageBuildsTest, WhatNobodyUsesIsRemoved) {
  const std::string environment = want(kPackages);
  const PackageSet set = set_of(kPackages);
  ASSERT_TRUE(wait(set));
  const std::string stale = managed::package_template(std::string(40, 'a'));
  shop_.templates[stale] = {.name = stale};
  shop_.templates[template_of(set) + ".new"] = {.name = template_of(set) + ".new"};
  shop_.templates["packages.mine"] = {.name = "packages.mine"};
  look();
  EXPECT_THAT(shop_.names(), UnorderedElementsAre("host", "packages.mine", template_of(set)));
  ASSERT_TRUE(run(uses_.keep_for_session("sesn_1", "default", set)));
  ASSERT_TRUE(run(store_->write(
      {{.sql = "INSERT INTO sessions (id, project_id, agent, parent_id, title, status, ended, "
               "head, epoch, owner, lease_until, created, updated, input_tokens, "
               "cache_read_tokens, cache_write_tokens, output_tokens, cost_nano) VALUES "
               "('sesn_1', 'default', 'a', '', '', 'idle', '', 0, 0, '', 0, 1, 1, 0, 0, 0, 0, 0)",
        .values = {}}})));
  ASSERT_TRUE(run(environments_.archive("default", environment)));
  look();
  EXPECT_TRUE(shop_.templates.contains(template_of(set))) << "a session was made with it";
  ASSERT_TRUE(run(store_->write({{.sql = "UPDATE sessions SET archived = 2", .values = {}}})));
  shop_.in_use = {template_of(set)};
  look();
  EXPECT_TRUE(shop_.templates.contains(template_of(set))) << "a sandbox stands on it";
  shop_.in_use.clear();
  look();
  EXPECT_THAT(shop_.names(), UnorderedElementsAre("host", "packages.mine"));
}

TEST_F(PackageBuildsTest, ASandboxOfABuildThatNobodyWantsIsEnded) {
  shop_.sandboxes["packages-x"] = {.labels = {{"pons.packages", std::string(40, 'b')}}};
  shop_.sandboxes["another"] = {};
  look();
  EXPECT_THAT(shop_.destroyed, ElementsAre("packages-x"));
}

TEST_F(PackageBuildsTest, OtherPackagesAreAnotherTemplate) {
  const std::string id = want(kPackages);
  ASSERT_TRUE(wait(set_of(kPackages)));
  const auto before = run(environments_.find("default", id));
  const Json other = {{"apt", {"hello"}}};
  ASSERT_TRUE(
      run(environments_.replace(*before, dump_json(document(other)), PackageUses::of_environment)));
  look();
  ASSERT_TRUE(wait(set_of(other)));
  look();
  EXPECT_THAT(shop_.names(), UnorderedElementsAre("host", template_of(set_of(other))));
}

TEST_F(PackageBuildsTest, AProjectHasRoomForSoManySets) {
  for (int i = 0; i < 50; ++i) want({{"apt", {fmt::format("package{}", i)}}});
  EXPECT_TRUE(run(uses_.check_room("default", "", set_of({{"apt", {"package7"}}}))));
  EXPECT_TRUE(run(uses_.check_room("other", "", set_of({{"apt", {"one-more"}}}))));
  const auto full = run(uses_.check_room("default", "", set_of({{"apt", {"one-more"}}})));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kLimit);
}

// ---- whoever asks for a sandbox

TEST_F(PackageBuildsTest, ASandboxIsMadeWhenItsTemplateIsThere) {
  want(kPackages);
  NotedHands made;
  PackagedHands hands(made, *builds_);
  const std::string name = template_of(set_of(kPackages));
  const auto report = run(hands.provision({.sandbox = "s", .sandbox_template = name}));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->contents, "made");
  EXPECT_TRUE(shop_.templates.contains(name));
  ASSERT_TRUE(run(hands.provision({.sandbox = "t", .sandbox_template = "host"})));
  EXPECT_THAT(made.templates, ElementsAre(name, "host"));
}

TEST_F(PackageBuildsTest, ATemplateThatWasRemovedIsMadeOnceMore) {
  want(kPackages);
  NotedHands made;
  PackagedHands hands(made, *builds_);
  const std::string name = template_of(set_of(kPackages));
  ASSERT_TRUE(wait(set_of(kPackages)));
  shop_.templates.erase(name);
  made.lacking = 1;
  EXPECT_TRUE(run(hands.provision({.sandbox = "s", .sandbox_template = name})));
  EXPECT_EQ(shop_.snapshots, 2);
}

TEST_F(PackageBuildsTest, WithoutItsTemplateNoSandboxIsAskedFor) {
  want(kPackages);
  shop_.ends["npm"] = {.code = kNoManager, .output = "there is no npm in this template\n"};
  NotedHands made;
  PackagedHands hands(made, *builds_);
  const auto report =
      run(hands.provision({.sandbox = "s", .sandbox_template = template_of(set_of(kPackages))}));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("npm: there is no npm in this template"));
  EXPECT_TRUE(made.templates.empty());
}

// ---- what is shown

TEST_F(PackageBuildsTest, HowFarItIsCanBeAsked) {
  const std::string id = want(kPackages);
  const std::string plain = want(Json::object());
  server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{},
                                           http::route(package_routes(environments_, *builds_)));
  for (const char* role : {"operator", "front"}) {
    std::filesystem::remove(socket_of(role));
    ASSERT_TRUE(server_->listen(std::move(*linux::listen_unix(socket_of(role), 0600)), role));
  }
  const auto shown = [&](const Answer& answer) { return *parse_json(answer.text); };
  const std::string path = "/environments/" + id + "/build";
  EXPECT_EQ(shown(ask_for("default", "GET", path)).at("state"), "waiting");
  EXPECT_EQ(shown(ask_for("default", "GET", "/environments/" + plain + "/build")).at("state"),
            "none");
  shop_.ends["apt"] = {.code = 100, .output = "E: no\n"};
  EXPECT_FALSE(wait(set_of(kPackages)));
  const Json failed = shown(ask_for("default", "GET", path));
  EXPECT_EQ(failed.at("state"), "failed");
  EXPECT_EQ(failed.at("step"), "apt");
  EXPECT_EQ(failed.at("error"), "apt: E: no");
  EXPECT_EQ(failed.at("steps"), 4);
  shop_.ends.clear();
  EXPECT_EQ(ask_for("default", "POST", path).status, 200);
  EXPECT_TRUE(wait(set_of(kPackages)));
  const Json ready = shown(ask_for("default", "GET", path));
  EXPECT_EQ(ready.at("state"), "ready");
  EXPECT_EQ(ready.at("template"), template_of(set_of(kPackages)));
  EXPECT_EQ(ask_for("other", "GET", path).status, 404);
  EXPECT_EQ(ask_for("other", "POST", path).status, 404);
  ASSERT_TRUE(run(environments_.archive("default", id)));
  EXPECT_EQ(ask_for("default", "POST", path).status, 409);
}

}  // namespace
}  // namespace pons::brain
