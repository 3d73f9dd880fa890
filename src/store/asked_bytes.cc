#include "asked_bytes.h"

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::store {

namespace {

Error too_much(std::string_view what, std::size_t most) {
  return make_error(ErrorCode::kLimit, "ask store", fmt::format("{} (at most {})", what, most));
}

// What PostgreSQL would refuse is refused here, too.
Result<void> check_text(std::string_view text) {
  if (text.find('\0') != std::string_view::npos || !is_valid_utf8(text))
    return make_error(ErrorCode::kInvalid, "ask store", "text is UTF-8 without NUL");
  return {};
}

}  // namespace

Result<std::size_t> asked_bytes(const Statement& statement, const StoreLimits& limits) {
  if (statement.sql.size() > limits.sql_bytes)
    return too_much("the statement is too long", limits.sql_bytes);
  std::size_t bytes = sizeof(Statement) + statement.sql.size();
  for (const Value& value : statement.values) {
    std::size_t size = 0;
    if (const auto* text = std::get_if<std::string>(&value)) {
      TRY_VOID(check_text(*text));
      size = text->size();
    } else if (const auto* blob = std::get_if<Blob>(&value)) {
      size = blob->bytes.size();
    }
    if (size > limits.value_bytes) return too_much("a value is too long", limits.value_bytes);
    bytes += sizeof(Value) + size;
  }
  return bytes;
}

Result<std::size_t> asked_bytes(const Transaction& transaction, const StoreLimits& limits) {
  if (transaction.size() > limits.statements)
    return too_much("the transaction has too many statements", limits.statements);
  std::size_t bytes = 0;
  for (const Statement& statement : transaction) bytes += TRY(asked_bytes(statement, limits));
  if (bytes > limits.transaction_bytes)
    return too_much("the transaction is too large", limits.transaction_bytes);
  return bytes;
}

}  // namespace pons::store
