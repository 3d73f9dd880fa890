#include "file_door.h"

#include <optional>

#include "failure.h"
#include "files.h"
#include "pons/base/secret.h"
#include "query.h"
#include "signature.h"

namespace pons::e2b {

namespace {

// Asking for all sandboxes is dear, and strangers can cause it: in turn, and not too many at once.
constexpr Duration kSearchPause = std::chrono::milliseconds(100);
constexpr int kWaitingMax = 50;

constexpr int kUnauthorized = 401;

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(SystemClock().wall().time_since_epoch())
      .count();
}

// What is wrong with the caller's right, if anything.
std::optional<std::string> refusal_of(const http::RequestHead& head, const Access& access) {
  if (access.access_token.empty()) return std::nullopt;
  if (head.find("X-Access-Token"))
    return has_access_token(head, access) ? std::nullopt
                                          : std::optional("the access token is wrong");
  const FileRight right = claimed_right(head);
  if (right.signature.empty()) return "missing signature query parameter";
  if (!is_signed_with(right, access.access_token)) return "invalid signature";
  if (!is_in_time(right, unix_seconds())) return "signature is already expired";
  return std::nullopt;
}

}  // namespace

bool has_access_token(const http::RequestHead& head, const Access& access) {
  return access.access_token.empty() ||
         equal_constant_time(head.find("X-Access-Token").value_or(""), access.access_token);
}

Task<> answer_files(Call& call) {
  const http::RequestHead& head = call.exchange.request();
  if (const auto refusal = refusal_of(head, *call.access)) {
    respond_failure(call.exchange, kUnauthorized, *refusal);
    co_return;
  }
  call.user = query_value(head.query(), "username").value_or("");
  if (head.method == "GET" || head.method == "HEAD") {
    co_await answer_download(call);
  } else if (head.method == "POST") {
    co_await answer_upload(call);
  } else {
    respond_failure(call.exchange, 405, "files are read with GET and written with POST");
  }
}

Task<Result<Directory::Found>> NamelessFiles::find(const http::RequestHead& head) {
  const auto token = head.find("X-Access-Token");
  const FileRight right = claimed_right(head);
  const auto is_meant = [&](const Access& access) {
    if (access.access_token.empty()) return false;
    return token ? equal_constant_time(*token, access.access_token)
                 : is_signed_with(right, access.access_token);
  };
  if (auto known = ground_.directory.find_known(is_meant)) co_return known;
  if (waiting_ >= kWaitingMax)
    co_return make_error(ErrorCode::kLimit, "find sandbox", "too many links are being looked up");
  struct Waiting {
    int& count;
    explicit Waiting(int& c) : count(c) { ++count; }
    ~Waiting() { --count; }
  } const waiting(waiting_);
  const TimePoint turn = std::max(next_search_, ground_.loop.now());
  next_search_ = turn + kSearchPause;
  if (turn > ground_.loop.now()) co_await ground_.loop.sleep_until(turn);
  co_return co_await ground_.directory.find_where(is_meant);
}

Task<> NamelessFiles::handle(http::Exchange& exchange) {
  auto found = co_await find(exchange.request());
  if (found) {
    Call call(ground_, exchange, std::move(*found));
    co_await answer_files(call);
  } else if (found.error().code == ErrorCode::kNotFound) {
    respond_failure(exchange, kUnauthorized, "no sandbox has this token or signature");
  } else {
    respond_failure(exchange, found.error());
  }
}

}  // namespace pons::e2b
