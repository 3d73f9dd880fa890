#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "fake_host.h"
#include "pons/sandbox/namespaces.h"

namespace pons::sandbox {

using spawner::RequestKind;

// A provider and the spawner it talks to, which is ours.
class NamespacesTest : public ::testing::Test {
 protected:
  NamespacesTest() {
    char path[] = "/tmp/pons-sandbox-XXXXXX";
    settings_.state_dir = mkdtemp(path);
    settings_.warm_min = 0;
    start_warden();
  }
  ~NamespacesTest() override {
    provider_ = nullptr;
    std::filesystem::remove_all(settings_.state_dir);
  }

  void start_warden() {
    client_ = std::make_unique<spawner::Client>(*loop_, host_.wardens_end());
    auto made = NamespacesProvider::create(*loop_, *client_, settings_);
    ASSERT_TRUE(made);
    provider_ = std::move(*made);
  }
  void kill_warden() {
    provider_ = nullptr;
    client_ = nullptr;
  }

  // The value of the task; the test fails instead of hanging.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    linux::TaskGroup group(*loop_);
    group.spawn(finish(std::move(task), value));
    group.spawn(give_up());
    loop_->run();
    CHECK(value.has_value());
    return std::move(*value);
  }
  template <class T>
  T must(Task<Result<T>> task) {
    auto result = run(std::move(task));
    if (!result) ADD_FAILURE() << result.error().describe();
    CHECK(result.has_value());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  template <class T>
  Error refused(Task<Result<T>> task) {
    auto result = run(std::move(task));
    CHECK(!result.has_value());
    return result.error();
  }
  // Lets background work go on.
  void pass(std::chrono::milliseconds time = std::chrono::milliseconds(30)) { run(sleep(time)); }

  std::string create(CreateRequest request = {}) {
    if (request.id.empty()) request.id = "one";
    return must(provider_->create(request)).id;
  }
  template <class T>
  static Task<> ignore(Task<T> task) {
    (void)co_await std::move(task);
  }
  bool asked_to_destroy(std::uint64_t key) const {
    return std::ranges::any_of(host_.asked(RequestKind::kDestroy),
                               [&](const auto& request) { return request.sandbox == key; });
  }
  FakeCell& cell() { return *host_.boxes.begin()->second.cell; }

  struct Ran {
    std::string output, error;
    std::optional<JobInfo> end;
  };
  Task<Result<Ran>> follow(std::unique_ptr<JobStream> stream) {
    Ran ran;
    for (;;) {
      CO_TRY(auto event, co_await stream->next(loop_->now() + std::chrono::seconds(10)));
      if (!event) co_return ran;
      if (const auto* output = std::get_if<Output>(&*event)) {
        (output->stream == Output::Stream::kOutput ? ran.output : ran.error) += output->bytes;
      } else {
        ran.end = std::get<JobInfo>(*event);
      }
    }
  }
  Task<Result<Ran>> execute(std::string id, JobSpec job) {
    CO_TRY(auto stream, co_await provider_->execute(id, std::move(job)));
    co_return co_await follow(std::move(stream));
  }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  FakeSpawner host_{*loop_};
  NamespacesSettings settings_;
  std::unique_ptr<spawner::Client> client_;
  std::unique_ptr<NamespacesProvider> provider_;

 private:
  template <class T>
  Task<> finish(Task<T> task, std::optional<T>& value) {
    value.emplace(co_await std::move(task));
    loop_->stop();
  }
  Task<int> sleep(std::chrono::milliseconds time) {
    co_await loop_->sleep_for(time);
    co_return 0;
  }
  Task<> give_up() {
    co_await loop_->sleep_for(std::chrono::seconds(40));
    loop_->stop();
  }
};

}  // namespace pons::sandbox
