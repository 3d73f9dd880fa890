#pragma once

// For tests of this folder: a gateway's routes on sockets, one for each kind of caller, with a book
// over files that go away.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "model_call.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "pons/store/sqlite_store.h"
#include "routes.h"

namespace pons::gateway {

class GatewayTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    std::string text;
    http::OwnedFields fields;

    std::string field(std::string_view name) const {
      for (const auto& [key, value] : fields)
        if (equal_ignoring_case(key, name)) return value;
      return {};
    }
  };

  GatewayTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-gateway-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
  }
  ~GatewayTest() override {
    close();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  // Documents of `providers` and `models`, as pons.yaml has them. Models "m" and "n" cost a
  // nano-dollar for each token.
  using Documents = std::map<std::string, std::string>;
  void open(const Documents& providers, const Documents& routes) {
    auto store = store::SqliteStore::open(*loop_, {.path = directory_ + "/models.db", .shown = ""});
    ASSERT_TRUE(store) << store.error().describe();
    store_ = std::move(*store);
    auto book = run(budget::Book::open(*loop_, *store_, clock_, *budget::Prices::load(kPrices),
                                       {.directory = directory_ + "/journal"}));
    ASSERT_TRUE(book) << book.error().describe();
    book_ = std::move(*book);
    auto settings = read_model_settings(providers, routes);
    ASSERT_TRUE(settings) << settings.error().describe();
    routing_ = std::make_unique<Routing>(std::move(*settings));
    models_.reset(
        new Models{.loop = *loop_, .routing = *routing_, .book = *book_, .answerers = {}});
    for (const auto& [name, provider] : routing_->settings().providers) {
      Answerer& answerer = models_->answerers[name];
      if (provider.is_scripted())
        answerer.script = *Script::parse(provider.script);
      else
        answerer.provider =
            std::make_unique<Provider>(*loop_, provider, std::vector<Secret>(), resolver_, nullptr);
    }
    auto routes_here = model_routes(*models_);
    std::ranges::move(operator_routes(*models_), std::back_inserter(routes_here));
    std::ranges::move(sandbox_routes(*models_), std::back_inserter(routes_here));
    std::ranges::move(session_key_routes(*models_), std::back_inserter(routes_here));
    std::ranges::move(question_routes(*models_), std::back_inserter(routes_here));
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{.body_bytes = 1 << 20},
                                             http::route(std::move(routes_here)));
    for (const char* role : kRoles)
      ASSERT_TRUE(server_->listen(std::move(*linux::listen_unix(socket_of(role), 0600)), role));
  }
  void close() {
    server_.reset();
    for (const char* role : kRoles) std::filesystem::remove(socket_of(role));
    models_.reset();
    book_.reset();
    store_.reset();
  }
  // The model "test" is a script's "m".
  void open_script(const std::string& answers) {
    open({{"stage", R"({"kind":"scripted","answers":)" + answers + "}"}},
         {{"test", R"({"try":["stage/m"]})"}});
  }
  std::string socket_of(const std::string& role) const { return directory_ + "/" + role; }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Answer ask(const std::string& role, std::string method, std::string target,
             http::OwnedFields fields = {}, std::string body = {}) {
    return run(send(socket_of(role), {.method = std::move(method),
                                      .target = std::move(target),
                                      .fields = std::move(fields),
                                      .body = std::move(body)}));
  }

  Task<Answer> send(std::string socket, http::ClientRequest request) {
    constexpr std::size_t kBytesMax = 1 << 20;
    http::Client client(*loop_, http::unix_connector(*loop_, socket), "gateway");
    Answer answer;
    auto response = co_await client.send(std::move(request));
    if (!response) co_return answer;
    answer.status = response->status();
    for (const auto& field : response->head().fields)
      answer.fields.emplace_back(field.name, field.value);
    answer.text = (co_await response->read_whole_body(kBytesMax)).value_or("<cut off>");
    co_return answer;
  }

  static constexpr const char* kRoles[] = {"brain", "front", "operator", "egress"};
  static constexpr const char* kPrices =
      R"({"models": {"m": {"input": "0.001", "output": "0.001"},)"
      R"( "n": {"input": "0.001", "output": "0.001"}}})";

  SystemClock clock_;
  std::string directory_;
  std::unique_ptr<linux::Loop> loop_;
  names::Resolver resolver_{*loop_, names::read_resolver_settings()};
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<budget::Book> book_;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<Models> models_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace pons::gateway
