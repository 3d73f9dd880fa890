#include "passage.h"

#include "pons/base/text.h"

namespace pons::front {

namespace {

// Says when the client has nothing more to send: from then on its leaving can be watched for.
Task<Result<std::string_view>> read_request_body(http::Exchange& exchange,
                                                 linux::Event& body_read) {
  auto piece = co_await exchange.read_body();
  if (!piece || piece->empty()) body_read.set();
  co_return piece;
}

// What the connection is about stays with the connection; and front gives answers their id.
bool is_for_client(std::string_view field) {
  for (const std::string_view name :
       {"connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date",
        "server", "x-request-id"})
    if (equal_ignoring_case(field, name)) return false;
  return true;
}

Task<> watch(http::Exchange& exchange, linux::Event& body_read, linux::Event& over) {
  co_await body_read.wait(kNever);
  if (co_await exchange.wait_for_hang_up(kNever)) over.set();
}

Task<> watch_end(RecordedExchange& exchange, const Passage& passage, linux::Event& over) {
  co_await passage.until();
  exchange.abort();
  over.set();
}

Task<> pass(RecordedExchange& exchange, Passage& passage, linux::Event& body_read,
            linux::Event& over) {
  struct Over {
    linux::Event& event;
    ~Over() { event.set(); }
  } const at_end{over};
  const http::RequestHead& head = exchange.request();
  http::ClientRequest request{.method = std::string(head.method), .target = passage.target};
  for (const auto& field : head.fields)
    if (passage.is_wanted(field.name)) request.fields.emplace_back(field.name, field.value);
  for (auto& field : passage.caller) request.fields.push_back(std::move(field));
  if (head.method == "POST") {
    request.body_source = [&] { return read_request_body(exchange, body_read); };
  } else {
    body_read.set();
  }
  auto response = co_await passage.role.send(std::move(request));
  if (!response) {
    exchange.respond(passage.if_silent());
    co_return;
  }
  http::Response answer{.status = response->status(),
                        .content_type = std::string(response->find("content-type").value_or(""))};
  if (response->head().framing == http::BodyFraming::kLength)
    answer.content_length = response->head().content_length;
  for (const auto& field : response->head().fields)
    if (is_for_client(field.name)) answer.fields.emplace_back(field.name, field.value);
  if (!co_await exchange.start(std::move(answer))) co_return;
  while (true) {
    const auto piece = co_await response->read_body();
    if (!piece) {
      exchange.abort();
      co_return;
    }
    if (piece->empty()) break;
    if (!co_await exchange.write(*piece)) co_return;
  }
  (void)co_await exchange.finish({});
}

}  // namespace

Task<> pass_on(linux::Loop& loop, RecordedExchange& exchange, Passage passage) {
  linux::Event body_read(loop);
  linux::Event over(loop);
  linux::TaskGroup group(loop);
  group.spawn(pass(exchange, passage, body_read, over));
  group.spawn(watch(exchange, body_read, over));
  if (passage.until) group.spawn(watch_end(exchange, passage, over));
  co_await over.wait(kNever);  // leaving cancels what still runs
}

}  // namespace pons::front
