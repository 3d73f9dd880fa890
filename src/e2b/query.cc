#include "query.h"

#include <algorithm>

#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::e2b {

std::optional<std::string> form_decode(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return http::percent_decode(spaced);
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  for (const std::string_view pair : split(query, '&')) {
    const std::size_t equals = pair.find('=');
    if (form_decode(pair.substr(0, equals)) != name) continue;
    return equals == std::string_view::npos ? std::string() : form_decode(pair.substr(equals + 1));
  }
  return std::nullopt;
}

}  // namespace pons::e2b
