#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "connect.h"
#include "fake_provider.h"
#include "pons/base/json.h"
#include "pons/e2b/data_plane.h"
#include "pons/http/client.h"
#include "pons/http/server.h"

// The data plane behind a real server, with a real client in front of it.

namespace pons::e2b {

struct Reply {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> fields;
  bool cut = false;  // ended before its end
};

class DataPlaneTest : public ::testing::Test {
 protected:
  DataPlaneTest() {
    char name[] = "/tmp/pons-e2b-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    directory_path_ = name;
    add_sandbox({.sandbox = "s1", .project = "p", .access_token = "token-1"});
    EXPECT_TRUE(server_.listen(std::move(*linux::listen_unix(socket_path(), 0600)), "test"));
  }
  ~DataPlaneTest() override { std::filesystem::remove_all(directory_path_); }

  std::string socket_path() const { return directory_path_ + "/socket"; }

  void add_sandbox(const Access& access, State state = State::kRunning) {
    SandboxInfo info{.id = access.sandbox, .state = state};
    put_labels(access, info.labels);
    provider_.sandboxes[access.sandbox] = info;
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    linux::TaskGroup group(*loop_);
    group.spawn(keep(std::move(task), value));
    loop_->run();
    CHECK(value.has_value());
    return std::move(*value);
  }

  static http::OwnedFields let_in() {
    return {{"E2b-Sandbox-Id", "s1"},
            {"E2b-Sandbox-Port", "49983"},
            {"X-Access-Token", "token-1"},
            {"Content-Type", "application/json"}};
  }
  static http::OwnedFields let_in_to_stream() {
    auto fields = let_in();
    fields.back().second = "application/connect+json";
    return fields;
  }

  Reply send(http::ClientRequest request) { return run(exchange(std::move(request))); }
  Reply get(std::string target) { return send({.target = std::move(target), .fields = let_in()}); }
  Reply call(std::string method, const Json& message) {
    return send(
        {.method = "POST", .target = "/" + method, .fields = let_in(), .body = dump_json(message)});
  }
  static http::ClientRequest stream_request(std::string method, const Json& message) {
    return {.method = "POST",
            .target = "/" + method,
            .fields = let_in_to_stream(),
            .body = make_envelope(Envelope::kMessage, dump_json(message))};
  }
  // The messages of a whole stream, the last being its end.
  std::vector<Json> stream(std::string method, const Json& message) {
    const Reply reply = send(stream_request(std::move(method), message));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_FALSE(reply.cut);
    return messages_of(reply.body);
  }
  static std::vector<Json> messages_of(std::string_view bytes) {
    std::vector<Json> messages;
    while (bytes.size() >= Envelope::kHeadBytes) {
      const bool end = bytes[0] == Envelope::kEnd;
      std::string copy(bytes);
      copy[0] = 0;
      const auto parse = parse_envelope(copy, 1U << 30);
      CHECK(parse.state == EnvelopeParse::State::kDone);
      Json message = *parse_json(parse.payload);
      messages.push_back(end ? Json{{"end", message}} : message);
      bytes.remove_prefix(parse.consumed);
    }
    EXPECT_TRUE(bytes.empty());
    return messages;
  }
  static Json json_of(const Reply& reply) {
    auto json = parse_json(reply.body);
    EXPECT_TRUE(json) << reply.body;
    return json ? std::move(*json) : Json();
  }

  Task<Reply> exchange(http::ClientRequest request) {
    auto response = co_await client_.send(std::move(request));
    Reply reply;
    if (!response) {
      reply.cut = true;
      reply.body = response.error().describe();
      co_return reply;
    }
    reply.status = response->status();
    for (const auto& field : response->head().fields)
      reply.fields[std::string(field.name)] = field.value;
    for (;;) {
      const auto piece = co_await response->read_body();
      reply.cut = !piece.has_value();
      if (!piece || piece->empty()) co_return reply;
      reply.body += *piece;
    }
  }
  // Runs beside what the test does; read the reply after the loop has run.
  void send_aside(linux::TaskGroup& group, http::ClientRequest request,
                  std::optional<Reply>& reply) {
    group.spawn(keep_aside(exchange(std::move(request)), reply));
  }
  // Lets everything go on until `holds`.
  template <class Condition>
  void run_until(Condition holds) {
    run(wait_for(std::move(holds)));
  }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  std::string directory_path_;
  FakeProvider provider_{*loop_};
  Directory directory_{provider_};
  DataPlane plane_{*loop_, provider_, directory_, {.domain = "box.test"}};
  http::Server server_{*loop_, {}, [this](http::Exchange& e) { return plane_.handle(e); }};
  http::Client client_{
      *loop_,
      [this](TimePoint deadline) { return http::unix_connector(*loop_, socket_path())(deadline); },
      "box.test"};

 private:
  template <class T>
  Task<> keep(Task<T> task, std::optional<T>& value) {
    value.emplace(co_await std::move(task));
    loop_->stop();
  }
  static Task<> keep_aside(Task<Reply> task, std::optional<Reply>& value) {
    value.emplace(co_await std::move(task));
  }
  template <class Condition>
  Task<bool> wait_for(Condition holds) {
    const TimePoint end = loop_->now() + std::chrono::seconds(30);
    while (!holds() && loop_->now() < end) co_await loop_->sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(holds());
    co_return true;
  }
};

}  // namespace pons::e2b
