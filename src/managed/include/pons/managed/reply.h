#pragma once

#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "pons/base/result.h"
#include "pons/http/exchange.h"

namespace pons::managed {

// What a client is told when it does not get what it asked for: the SDKs choose their exception by
// the status, and show type, message and code.
struct Refusal {
  int status = 500;
  std::string type = "api_error";
  std::string message;
  std::string code = {};  // error.details.error_code; empty: none
  std::vector<std::pair<std::string, std::string>> more = {};  // further members of `error`
  std::string details = {};  // of error.details, beside the code: a JSON object's text
  bool is_final = false;     // trying again is of no use, though its status says otherwise

  Refusal(int status_, std::string type_, std::string message_)
      : status(status_), type(std::move(type_)), message(std::move(message_)) {}
  Refusal(const Error& error);
};

// A failure of any other part becomes a refusal by itself: TRY and CO_TRY do.
template <class T>
struct [[nodiscard]] Reply : std::expected<T, Refusal> {
  using std::expected<T, Refusal>::expected;
  Reply(const Error& error) : std::expected<T, Refusal>(std::unexpect, Refusal(error)) {}
  Reply(Refusal refusal) : std::expected<T, Refusal>(std::unexpect, std::move(refusal)) {}
};

Refusal no_such(std::string_view what);      // 404: "there is no agent of this id"
Refusal bad_request(std::string message);    // 400
Refusal conflict(std::string message);       // 409
Refusal is_archived(std::string_view what);  // 400: "the agent is archived"

// The body {"type": "error", …}; 409, and what is final, says that trying again is of no use: the
// SDKs would.
http::Response answer_of(const Refusal& refusal, std::string_view request_id);

}  // namespace pons::managed
