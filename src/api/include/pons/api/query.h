#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/base/result.h"

namespace pons::api {

// The query of a list, as the SDKs write it: `limit=2&statuses[]=idle&created_at[gte]=…`. A name
// without a value counts as not there; names that nobody asks for are passed over.
class Query {
 public:
  static Result<Query> parse(std::string_view text);

  std::optional<std::string> find(std::string_view name) const;
  // Of `name[]=` and of `name=`, in their order.
  std::vector<std::string> all(std::string_view name) const;
  Result<bool> flag(std::string_view name) const;  // not there: false
  Result<std::optional<std::int64_t>> number(std::string_view name, std::int64_t max) const;
  // RFC 3339, in milliseconds since 1970.
  Result<std::optional<std::int64_t>> time(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

// "2026-11-15T00:00:00.123Z"; milliseconds only where there are some.
std::string write_time(std::int64_t unix_ms);
std::optional<std::int64_t> parse_time(std::string_view text);

// Which part of a list is wanted. A cursor is opaque to clients: it holds where the page before
// ended, and which list, in which order, it was.
struct PageWish {
  std::int64_t limit = 0;
  std::vector<std::string> after;  // empty: from the beginning
};
struct PageLimits {
  std::int64_t usual = 20;
  std::int64_t max = 100;
};
Result<PageWish> read_page(const Query& query, std::string_view list, PageLimits limits);
std::string write_cursor(std::string_view list, const std::vector<std::string>& position);
// The positions of a cursor that are numbers.
Result<std::int64_t> number_in(const PageWish& wish, std::size_t position);

}  // namespace pons::api
