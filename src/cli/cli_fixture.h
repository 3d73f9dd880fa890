#pragma once

// For tests of this folder: commands as a person types them, in an empty directory, and a Pons that
// answers whatever a test wants.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "pons/cli/cli.h"
#include "pons/http/server.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

inline Outcome run_pons(std::vector<std::string> words) {
  words.insert(words.begin(), "pons");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit_code = run(static_cast<int>(words.size()), argv.data());
  std::fflush(nullptr);
  std::string out = ::testing::internal::GetCapturedStdout();
  return {exit_code, std::move(out), ::testing::internal::GetCapturedStderr()};
}

// An empty working directory, so that no pons.yaml of the developer counts.
class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    char name[] = "/tmp/pons-cli-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    scratch_ = name;
    std::filesystem::current_path(scratch_);
  }
  ~CliTest() override {
    std::filesystem::current_path(start_directory_);
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }
  void write_config(std::string_view yaml, const std::string& name = "pons.yaml") {
    ASSERT_TRUE(linux::write_file_atomically(scratch_ + "/" + name, yaml, 0600));
  }
  const std::filesystem::path start_directory_ = std::filesystem::current_path();
  std::string scratch_;
};

class AnsweredCliTest : public CliTest {
 protected:
  // What `words` do when this process of Pons answers everything with this.
  Outcome run_against(int status, const std::string& body, std::vector<std::string> words,
                      std::string_view process = "supervisor") {
    std::filesystem::create_directory(scratch_ + "/run");
    const std::string path = supervisor::control_socket_path(scratch_, process);
    std::filesystem::remove(path);
    auto loop = std::move(*linux::Loop::create());
    http::Server server(*loop, {}, [&](http::Exchange& exchange) -> Task<> {
      return answer(exchange, status, body, asked_);
    });
    EXPECT_TRUE(server.listen(std::move(*linux::listen_unix(path, 0600)), "operator"));
    std::thread thread([&] { loop->run(); });
    words.insert(words.end(), {"--state-dir", scratch_});
    Outcome outcome = run_pons(std::move(words));
    loop->stop();
    thread.join();
    return outcome;
  }
  std::string asked_;  // method, target and body of the last request

 private:
  static Task<> answer(http::Exchange& exchange, int status, std::string body, std::string& asked) {
    asked = std::string(exchange.request().method) + " " + std::string(exchange.request().target);
    if (const auto sent = co_await exchange.read_whole_body(1 << 20); sent && !sent->empty())
      asked += " " + *sent;
    exchange.respond({.status = status, .body = std::move(body)});
  }
};

}  // namespace pons::cli
