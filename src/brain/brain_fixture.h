#pragma once

// For tests of this folder: a brain's routes on sockets, one for each kind of caller.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "key_feed.h"
#include "pons/http/client.h"
#include "pons/http/server.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "routes.h"

namespace pons::brain {

struct Answer {
  int status = 0;
  std::string text;
};

inline Task<> converse(http::Client& client, http::ClientRequest request, Answer& answer) {
  auto response = co_await client.send(std::move(request));
  if (!response) co_return;
  answer.status = response->status();
  answer.text = (co_await response->read_whole_body(16 << 20)).value_or("<cut off>");
}

class BrainTest : public ::testing::Test {
 protected:
  BrainTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-brain-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(directory_);  // as a role has it
    open();
  }
  ~BrainTest() override {
    close();
    std::filesystem::current_path(before_);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void open() {
    auto opened = store::SqliteStore::open(*loop_, {.path = "pons.db", .shown = ""});
    ASSERT_TRUE(opened) << opened.error().describe();
    store_ = std::move(*opened);
    memory_.reset(new Memory{.store = *store_, .file = store_.get(), .clock = clock_});
    ASSERT_TRUE(run(memory_->projects.ensure_default()));
    feed_ = std::make_unique<KeyFeed>(*loop_, *run(memory_->keys.active()));
    auto routes = front_routes(*memory_, *feed_);
    std::ranges::move(operator_routes(*memory_, *feed_), std::back_inserter(routes));
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{},
                                             http::route(std::move(routes)));
    for (const char* role : {"operator", "front", "egress"})
      ASSERT_TRUE(server_->listen(std::move(*linux::listen_unix(socket_of(role), 0600)), role));
  }
  void close() {
    server_.reset();
    for (const char* role : {"operator", "front", "egress"})
      std::filesystem::remove(socket_of(role));
    feed_.reset();
    memory_.reset();
    store_.reset();
  }
  std::string socket_of(const std::string& role) const { return directory_ + "/" + role; }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  // `project`: whose caller it is that the front passes on.
  Task<Answer> send(std::string role, std::string method, std::string target, std::string body,
                    std::string project = {}) {
    http::Client client(*loop_, http::unix_connector(*loop_, socket_of(role)), "brain");
    http::ClientRequest request{
        .method = std::move(method), .target = std::move(target), .body = std::move(body)};
    if (!project.empty()) request.fields.emplace_back("x-pons-project", std::move(project));
    Answer answer;
    co_await converse(client, std::move(request), answer);
    co_return answer;
  }
  Answer ask(std::string role, std::string method, std::string target, std::string body = {}) {
    return run(send(std::move(role), std::move(method), std::move(target), std::move(body)));
  }
  Answer ask_for(std::string project, std::string method, std::string target,
                 std::string body = {}) {
    return run(
        send("front", std::move(method), std::move(target), std::move(body), std::move(project)));
  }

  SystemClock clock_;
  std::string directory_;
  std::filesystem::path before_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<KeyFeed> feed_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace pons::brain
