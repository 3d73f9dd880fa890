#include "pons/store/store.h"

#include <fmt/format.h>

namespace pons::store {

namespace {

template <class T>
Result<T> value_of(const Row& row, std::size_t column, std::string_view kind) {
  if (column < row.size())
    if (const T* value = std::get_if<T>(&row[column])) return *value;
  return make_error(ErrorCode::kIo, "read row", fmt::format("column {} is no {}", column, kind));
}

}  // namespace

Result<std::string> text_of(const Row& row, std::size_t column) {
  return value_of<std::string>(row, column, "text");
}

Result<std::int64_t> integer_of(const Row& row, std::size_t column) {
  return value_of<std::int64_t>(row, column, "integer");
}

Result<std::optional<std::int64_t>> optional_integer_of(const Row& row, std::size_t column) {
  if (column < row.size() && std::holds_alternative<Null>(row[column])) return std::nullopt;
  return TRY(integer_of(row, column));
}

}  // namespace pons::store
