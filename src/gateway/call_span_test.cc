// Spans of calls by clients.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gateway_fixture.h"
#include "pons/base/json.h"

namespace pons::gateway {
namespace {

constexpr const char* kCall =
    R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})";

class CallSpanTest : public GatewayTest {
 protected:
  CallSpanTest() : export_(*loop_, [this](std::string body) { return collect(std::move(body)); }) {
    open_script(R"([{"text":"Hello","usage":{"input":50,"output":35}}])");
    models_->spans = &export_;
    models_->metrics.know_model("m");
  }

  Task<Result<SpanExport::Reply>> collect(std::string body) {
    const Json json = Json::parse(body);
    for (const Json& span : json.at("resourceSpans")[0].at("scopeSpans")[0].at("spans"))
      spans_.push_back(span);
    co_return SpanExport::Reply{.status = 200};
  }
  Task<bool> flushed() {
    co_await export_.flush(loop_->now() + std::chrono::seconds(20));
    co_return true;
  }
  // All that there are, sent.
  const std::vector<Json>& spans() {
    linux::TaskGroup work(*loop_);
    work.spawn(export_.run());
    EXPECT_TRUE(run(flushed()));
    return spans_;
  }
  static std::string text_of(const Json& span, const std::string& attribute) {
    for (const Json& one : span.at("attributes"))
      if (one.at("key") == attribute) return one.at("value").begin().value().get<std::string>();
    return "-";
  }

  SpanExport export_;
  std::vector<Json> spans_;
};

TEST_F(CallSpanTest, ACallOfAClientIsOneSpanOfATraceOfItsOwn) {
  ASSERT_EQ(ask("front", "POST", "/v1/messages", {}, kCall).status, 200);
  ASSERT_EQ(spans().size(), 1U);
  const Json& span = spans_[0];
  EXPECT_EQ(span.at("name"), "chat test");
  EXPECT_EQ(span.at("kind"), 3);
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_EQ(span.at("traceId").get<std::string>().size(), 32U);
  EXPECT_EQ(text_of(span, "gen_ai.operation.name"), "chat");
  EXPECT_EQ(text_of(span, "gen_ai.request.model"), "test");
  EXPECT_EQ(text_of(span, "gen_ai.response.model"), "m");
  EXPECT_EQ(text_of(span, "gen_ai.provider.name"), "stage");
  EXPECT_EQ(text_of(span, "gen_ai.usage.input_tokens"), "50");
  EXPECT_EQ(text_of(span, "gen_ai.usage.output_tokens"), "35");
  EXPECT_EQ(text_of(span, "pons.usage.cost_nano_usd"), "85");
  EXPECT_EQ(text_of(span, "pons.key.id"), run(book_->keys().ensure_root("default"))->id);
  EXPECT_EQ(span.at("status"), Json::object());
}

TEST_F(CallSpanTest, ItIsAPartOfWhatItsClientNames) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const auto call = [&](const std::string& parent) {
    return ask("front", "POST", "/v1/messages", {{"traceparent", parent}}, kCall).status;
  };
  ASSERT_EQ(call("00-" + trace + "-00f067aa0ba902b7-01"), 200);
  ASSERT_EQ(call("00-" + trace + "-0000000000000000-01"), 200) << "not a parent";
  ASSERT_EQ(spans().size(), 2U);
  EXPECT_EQ(spans_[0].at("traceId"), trace);
  EXPECT_EQ(spans_[0].at("parentSpanId"), "00f067aa0ba902b7");
  EXPECT_NE(spans_[1].at("traceId"), trace);
  EXPECT_FALSE(spans_[1].contains("parentSpanId"));
}

TEST_F(CallSpanTest, ARefusedCallSaysWhyAndNoNameThatAClientMadeUp) {
  EXPECT_EQ(ask("front", "POST", "/v1/messages", {},
                R"({"model":"my-secret","max_tokens":5,"messages":[]})")
                .status,
            404);
  EXPECT_EQ(ask("front", "POST", "/v1/chat/completions", {}, "{").status, 400);
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{{.what = budget::What::kRequests, .amount = 0}}})));
  EXPECT_EQ(ask("front", "POST", "/v1/messages", {}, kCall).status, 429);
  ASSERT_EQ(spans().size(), 3U);
  EXPECT_EQ(text_of(spans_[0], "error.type"), "not_found");
  EXPECT_EQ(text_of(spans_[1], "error.type"), "invalid_request");
  EXPECT_EQ(text_of(spans_[2], "error.type"), "budget");
  for (const Json& span : spans_) {
    EXPECT_EQ(span.at("status").at("code"), 2);
    EXPECT_EQ(dump_json(span).find("my-secret"), std::string::npos);
  }
  EXPECT_EQ(spans_[0].at("name"), "chat");
}

TEST_F(CallSpanTest, TheBrainsOwnCallsAndThoseWithoutAKeyHaveNone) {
  EXPECT_EQ(ask("brain", "POST", "/v1/messages", {}, kCall).status, 200);
  EXPECT_EQ(ask("egress", "POST", "/v1/messages", {}, kCall).status, 401);
  EXPECT_EQ(ask("front", "POST", "/v1/messages/count_tokens", {}, kCall).status, 200);
  EXPECT_TRUE(spans().empty());
}

}  // namespace
}  // namespace pons::gateway
