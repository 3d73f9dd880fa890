#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/http/exchange.h"

namespace pons::front {

// Whose pages may use this server in a browser (CORS). What a page is allowed never depends on
// cookies: there are none.
class Origins {
 public:
  explicit Origins(std::string_view allowed);  // separated by one space

  // The origin of a request that comes from an allowed page.
  std::optional<std::string> find(const http::RequestHead& head) const;

 private:
  std::vector<std::string> allowed_;
};

// A browser's question before the request itself. It carries no key.
bool is_preflight(const http::RequestHead& head);
http::Response preflight_answer(const http::RequestHead& head);

// What lets the page of `origin` read an answer.
void allow_origin(const std::string& origin, http::Response& response);

}  // namespace pons::front
