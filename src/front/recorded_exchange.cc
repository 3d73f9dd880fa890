#include "recorded_exchange.h"

#include <algorithm>
#include <ranges>

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::front {

namespace {

constexpr std::size_t kPathBytesMax = 256;
constexpr int kSwitched = 101;

// Words of an API, and not what somebody put in their place: that may be a secret.
bool is_word(std::string_view segment) {
  constexpr std::size_t kWordBytesMax = 32;
  return segment.size() <= kWordBytesMax && std::ranges::all_of(segment, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
         });
}

std::string for_the_log(std::string_view path) {
  std::string shown;
  for (const std::string_view segment :
       split(path.substr(0, kPathBytesMax), '/') | std::views::drop(1))
    shown.append("/").append(is_word(segment) || segment == "v2" ? segment : "*");
  return shown;
}

}  // namespace

RecordedExchange::RecordedExchange(http::Exchange& exchange)
    : exchange_(exchange),
      id_("req_" + random_text(20)),
      method_(exchange.request().method),
      path_(for_the_log(exchange.request().path())),
      begun_(std::chrono::steady_clock::now()) {}

RecordedExchange::~RecordedExchange() {
  const auto took = std::chrono::steady_clock::now() - begun_;
  LOG_DEBUG("request", {"id", id_}, {"key", key_}, {"from", exchange_.peer().address},
            {"method", method_}, {"path", path_}, {"status", status_}, {"bytes", bytes_},
            {"cut", cut_},
            {"us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()});
}

http::Response RecordedExchange::named(http::Response response) {
  status_ = response.status;
  bytes_ += response.body.size();
  response.fields.emplace_back("X-Request-Id", id_);
  return response;
}

void RecordedExchange::respond(http::Response response) {
  exchange_.respond(named(std::move(response)));
}

Task<Result<void>> RecordedExchange::start(http::Response head) {
  return exchange_.start(named(std::move(head)));
}

Task<Result<void>> RecordedExchange::write(std::string_view bytes) {
  bytes_ += bytes.size();
  return exchange_.write(bytes);
}

Task<Result<void>> RecordedExchange::finish(std::string_view last) {
  bytes_ += last.size();
  return exchange_.finish(last);
}

void RecordedExchange::abort() {
  cut_ = true;
  exchange_.abort();
}

Task<Result<std::unique_ptr<http::WebSocket>>> RecordedExchange::accept_websocket(
    http::WebSocketLimits limits, std::string subprotocol) {
  status_ = kSwitched;
  return exchange_.accept_websocket(limits, std::move(subprotocol));
}

}  // namespace pons::front
