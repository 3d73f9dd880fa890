#pragma once

// For tests: a server over a Unix socket, tools that do what a test wants, and a client.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "pons/mcp/protocol.h"
#include "pons/mcp/server.h"

namespace pons::mcp {

// "echo" says its arguments; "wait" lasts until it is let go or its session ends.
class TestToolbox final : public Toolbox {
 public:
  explicit TestToolbox(linux::Loop& loop) : let_go(loop), begun(loop) {}

  std::string list(const std::string&) const override {
    return R"([{"name":"echo","inputSchema":{"type":"object"}}])";
  }
  Task<Result<ToolResult>> call(ToolCall call) override {
    ids.insert(call.id);
    if (call.name == "echo") co_return ToolResult{.text = call.arguments};
    if (call.name == "fail") co_return ToolResult{.text = "it did not work", .is_error = true};
    if (call.name == "break")
      co_return make_error(ErrorCode::kUnavailable, "call", "nobody is there");
    if (call.name != "wait") co_return make_error(ErrorCode::kNotFound, "call", "no such tool");
    ++waiting;
    begun.set();
    co_await let_go.wait(kNever);
    --waiting;
    co_return ToolResult{.text = "waited"};
  }
  void cancel(const std::string&, const std::string& call) override { cancelled.insert(call); }
  void end(const std::string& session) override { ended.insert(session); }

  linux::Event let_go;
  linux::Event begun;
  int waiting = 0;
  std::set<std::string> ids;
  std::set<std::string> cancelled;
  std::set<std::string> ended;
};

struct Answer {
  int status = 0;
  std::string type;
  std::string session;
  std::string text;

  // The messages of it, however they came.
  std::vector<Json> messages() const {
    std::vector<Json> list;
    if (type != "text/event-stream") {
      if (auto json = parse_json(text)) list.push_back(std::move(*json));
      return list;
    }
    http::EventStreamParser parser;
    EXPECT_TRUE(parser.feed(text, [&](const http::ServerEvent& event) {
      if (auto json = parse_json(event.data)) list.push_back(std::move(*json));
    }));
    return list;
  }
  Json message() const {
    const auto all = messages();
    return all.empty() ? Json::object() : all.back();
  }
  std::int64_t error_code() const {
    const Json json = message();
    return json.contains("error") ? json.at("error").at("code").get<std::int64_t>() : 0;
  }
};

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(ServerLimits limits = {})
      : loop_(std::move(*linux::Loop::create())), toolbox_(*loop_) {
    char name[] = "/tmp/pons-mcp-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    server_ = std::make_unique<Server>(*loop_, toolbox_, limits);
    http_ = std::make_unique<http::Server>(
        *loop_, http::ServerLimits{}, [this](http::Exchange& exchange) {
          return server_->handle(exchange,
                                 std::string(exchange.request().find("project").value_or("p")));
        });
    EXPECT_TRUE(http_->listen(std::move(*linux::listen_unix(directory_ + "/s", 0600)), "front"));
  }
  ~ServerTest() override {
    http_.reset();
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  std::unique_ptr<http::Client> client() {
    return std::make_unique<http::Client>(*loop_, http::unix_connector(*loop_, directory_ + "/s"),
                                          "pons");
  }

  http::OwnedFields fields(const std::string& session, std::string accept = kBoth) const {
    http::OwnedFields list = {{"content-type", "application/json"}, {"accept", std::move(accept)}};
    if (!session.empty()) list.emplace_back(kSessionField, session);
    return list;
  }
  Task<Answer> send(http::ClientRequest request) {
    const auto sender = client();
    Answer answer;
    auto response = co_await sender->send(std::move(request));
    if (!response) co_return answer;
    answer.status = response->status();
    answer.type = std::string(response->find("content-type").value_or(""));
    answer.session = std::string(response->find(kSessionField).value_or(""));
    answer.text = (co_await response->read_whole_body(16 << 20)).value_or("<cut off>");
    co_return answer;
  }
  Task<Answer> post(std::string session, std::string body, std::string accept = kBoth) {
    return send({.method = "POST",
                 .target = "/mcp",
                 .fields = fields(session, std::move(accept)),
                 .body = std::move(body)});
  }
  Answer ask(const std::string& session, std::string body, std::string accept = kBoth) {
    return run(post(session, std::move(body), std::move(accept)));
  }
  static std::string request(std::string method, std::string params = "{}", std::string id = "1") {
    return write_message(
        Request{.id = std::move(id), .method = std::move(method), .params = std::move(params)});
  }
  static std::string call(const std::string& tool, std::string id = "1",
                          std::string arguments = "{}", std::string meta = "{}") {
    return request(
        "tools/call",
        R"({"name":")" + tool + R"(","arguments":)" + arguments + R"(,"_meta":)" + meta + "}",
        std::move(id));
  }
  Answer greet(std::string version = "2025-11-25") {
    return ask("", request("initialize", R"({"protocolVersion":")" + version +
                                             R"(","capabilities":{},"clientInfo":{"name":"t"}})"));
  }
  std::string begin() { return greet().session; }

  static constexpr const char* kBoth = "application/json, text/event-stream";
  std::unique_ptr<linux::Loop> loop_;
  TestToolbox toolbox_;
  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<http::Server> http_;
};

}  // namespace pons::mcp
