#pragma once

// For tests of this folder: somebody on loopback who answers calls of all three protocols with
// "ok", and keeps what it was asked.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "pons/http/router.h"
#include "pons/http/server.h"
#include "pons/linux/tcp.h"

namespace pons::gateway {

class FakeProvider {
 public:
  struct Asked {
    std::string target;
    http::OwnedFields fields;
    std::string body;

    std::string field(std::string_view name) const {
      for (const auto& [key, value] : fields)
        if (key == name) return value;
      return {};
    }
  };

  explicit FakeProvider(linux::Loop& loop)
      : server_(loop, {.body_bytes = 1 << 20},
                http::route({route("/v1/messages", kMessages), route("/v1/responses", kResponses),
                             route("/v1/messages/count_tokens", kCount),
                             route("/v1/chat/completions", kChat)})) {
    auto listener = linux::listen_tcp("127.0.0.1", 0);
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (!listener ||
        getsockname(listener->get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    if (!server_.listen(std::move(*listener), "provider")) std::abort();
  }

  // Of an entry in `providers`; `protocol` as pons.yaml calls it.
  std::string document(const std::string& protocol) const {
    return R"({"kind":"openai-compatible","url":"http://127.0.0.1:)" + std::to_string(port_) +
           R"(/v1","protocols":[")" + protocol + "\"]}";
  }

  std::vector<Asked> asked;
  // Instead of an answer, when its status is not 200.
  http::Response refusal{.status = 200};
  http::OwnedFields fields;  // that go with every answer

 private:
  http::Route route(const char* path, const char* answer) {
    return {"POST", path, [this, answer](http::Exchange& exchange, const http::PathValues&) {
              return serve(exchange, answer);
            }};
  }

  Task<> serve(http::Exchange& exchange, const char* answer) {
    Asked one{.target = std::string(exchange.request().target), .fields = {}, .body = {}};
    for (const auto& field : exchange.request().fields)
      one.fields.emplace_back(field.name, field.value);
    one.body = (co_await exchange.read_whole_body(1 << 20)).value_or("<cut off>");
    asked.push_back(std::move(one));
    http::Response response = refusal;
    if (response.status == 200) response = {.content_type = "text/event-stream", .body = answer};
    response.fields = fields;
    exchange.respond(std::move(response));
  }

  static constexpr const char* kCount = R"({"input_tokens":5})";
  static constexpr const char* kMessages =
      R"(data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}})"
      "\n\n"
      R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
      "\n\n"
      R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}})"
      "\n\n"
      R"(data: {"type":"content_block_stop","index":0})"
      "\n\n"
      R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}})"
      "\n\n"
      R"(data: {"type":"message_stop"})"
      "\n\n";
  static constexpr const char* kResponses =
      R"(data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","model":"m","output":[]}})"
      "\n\n"
      R"(data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}})"
      "\n\n"
      R"(data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"ok"})"
      "\n\n"
      R"(data: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]}]}})"
      "\n\n"
      R"(data: {"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","status":"completed","model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}})"
      "\n\n";
  static constexpr const char* kChat =
      R"(data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":null}]})"
      "\n\n"
      R"(data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
      "\n\n"
      R"(data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}})"
      "\n\ndata: [DONE]\n\n";

  std::uint16_t port_ = 0;
  http::Server server_;
};

}  // namespace pons::gateway
