#include "egress_sender.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::brain {

namespace {

Error too_late() {
  return make_error(ErrorCode::kTimeout, "ask MCP server", "the server did not answer in time");
}

class CarriedAnswer final : public mcp::ServerAnswer {
 public:
  CarriedAnswer(linux::Loop& loop, http::ClientResponse response)
      : loop_(loop), response_(std::move(response)) {}

  int status() const override { return response_.status(); }
  std::optional<std::string_view> find(std::string_view field) const override {
    return response_.find(field);
  }
  Task<Result<std::string_view>> read(TimePoint deadline) override {
    auto piece = co_await linux::within(loop_, deadline, response_.read_body());
    if (!piece) co_return too_late();
    co_return std::move(*piece);
  }

 private:
  linux::Loop& loop_;
  http::ClientResponse response_;
};

// In egress' words: {"code", "host", "reason", "hint"}, or those of all roles.
Error refusal_of(const std::string& body) {
  std::string words = "egress does not let the request leave";
  const auto json = parse_json(body);
  if (json && json->is_object()) {
    if (json->contains("reason") && json->at("reason").is_string())
      words = json->at("reason").get<std::string>();
    else if (json->contains("error") && json->at("error").is_object())
      words = json->at("error").value("message", words);
  }
  return make_error(ErrorCode::kDenied, "ask MCP server", std::move(words));
}

}  // namespace

Task<Result<std::unique_ptr<mcp::ServerAnswer>>> EgressSender::send(mcp::ServerRequest request,
                                                                    TimePoint deadline) {
  constexpr std::size_t kRefusalBytesMax = 64 * 1024;
  http::ClientRequest order{.method = "POST",
                            .target = "/carry",
                            .fields = std::move(request.fields),
                            .body = std::move(request.body)};
  order.fields.emplace_back("x-pons-url", way_.url);
  order.fields.emplace_back("x-pons-method", std::move(request.method));
  if (way_.network.empty())
    order.fields.emplace_back("x-pons-environment", way_.environment);
  else
    order.fields.emplace_back("x-pons-network", way_.network);
  order.fields.emplace_back("x-pons-for", way_.session);
  if (!way_.vaults.empty()) {
    order.fields.emplace_back("x-pons-project", way_.project);
    order.fields.emplace_back("x-pons-vaults", way_.vaults);
  }
  if (!way_.credential.empty()) order.fields.emplace_back("x-pons-credential", way_.credential);
  auto answered = co_await linux::within(loop_, deadline, egress_.send(std::move(order)));
  if (!answered) co_return too_late();
  CO_TRY(auto response, std::move(*answered));
  if (response.find("x-pons-carried") != "yes") {
    const auto body =
        co_await linux::within(loop_, deadline, response.read_whole_body(kRefusalBytesMax));
    co_return refusal_of(body && *body ? **body : "");
  }
  co_return std::make_unique<CarriedAnswer>(loop_, std::move(response));
}

}  // namespace pons::brain
