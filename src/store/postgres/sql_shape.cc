#include "sql_shape.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::store::postgres {

namespace {

constexpr std::size_t kParametersMax = 0xFFFF;  // the protocol's
// In the message of a cast that cannot work.
constexpr std::string_view kMark = "rows changed: ";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

Error invalid(std::string message) {
  return make_error(ErrorCode::kInvalid, "ask store", std::move(message));
}

// Goes through a text and leaves out what is quoted or remarked.
class Scanner {
 public:
  explicit Scanner(std::string_view sql) : rest_(sql) {}

  // The next word, parameter or sign; empty at the end.
  Result<std::string_view> next() {
    for (;;) {
      if (rest_.empty()) return rest_;
      if (rest_.starts_with("--")) {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        return invalid("a statement has no remarks of this kind");
      } else if (rest_[0] == '\'' || rest_[0] == '"') {
        const std::size_t end = rest_.find(rest_[0], 1);
        if (end == std::string_view::npos) return invalid("a quote is not closed");
        rest_.remove_prefix(end + 1);
      } else if (is_word(rest_[0]) || rest_[0] == '$') {
        return take_word();
      } else if (rest_[0] == ';' || static_cast<unsigned char>(rest_[0]) > ' ') {
        return take(1);
      } else {
        rest_.remove_prefix(1);
      }
    }
  }

 private:
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view take_word() {
    std::size_t end = 1;
    while (end < rest_.size() && (is_word(rest_[end]) || rest_[end] == '$')) ++end;
    return take(end);
  }

  std::string_view rest_;
};

Result<std::size_t> parameter_of(std::string_view word) {
  const auto number = parse_decimal(word.substr(1));
  if (!number || *number == 0 || *number > kParametersMax)
    return invalid(fmt::format("\"{}\" is no parameter", word.substr(0, 20)));
  return *number;
}

bool is_allowed_verb(std::string_view word) {
  static constexpr std::array<std::string_view, 5> kVerbs = {"SELECT", "INSERT", "UPDATE", "DELETE",
                                                             "WITH"};
  return std::ranges::any_of(kVerbs, [&](auto verb) { return equal_ignoring_case(verb, word); });
}

}  // namespace

Result<SqlShape> read_shape(const Statement& statement) {
  SqlShape shape;
  Scanner scanner(statement.sql);
  std::string_view word = TRY(scanner.next());
  if (!is_allowed_verb(word))
    return invalid("a statement may read and change rows, and nothing else");
  shape.changes = !equal_ignoring_case(word, "SELECT") && !equal_ignoring_case(word, "WITH");
  for (; !word.empty(); word = TRY(scanner.next())) {
    if (word == ";") return invalid("one text is one statement");
    if (word[0] == '$') shape.parameters = std::max(shape.parameters, TRY(parameter_of(word)));
    if (shape.changes && equal_ignoring_case(word, "RETURNING")) shape.returns = true;
  }
  if (shape.parameters != statement.values.size())
    return invalid(fmt::format("the statement has {} parameters, and {} values were given",
                               shape.parameters, statement.values.size()));
  return shape;
}

std::string guarded(const Statement& statement, const SqlShape& shape) {
  // The number is in the text: there are few of them, and each is one more prepared statement.
  const std::int64_t rows = statement.must_change.value_or(0);
  return fmt::format(
      "WITH pons_changed AS ({}\n{}), pons_check AS (SELECT CASE WHEN count(*) = {} THEN count(*) "
      "ELSE CAST('{}' || count(*) AS BIGINT) END AS rows FROM pons_changed) "
      "SELECT pons_check.rows{} FROM pons_check{}",
      statement.sql, shape.returns ? "" : "RETURNING 1", rows, kMark,
      shape.returns ? ", pons_changed.*" : "",
      shape.returns ? " LEFT JOIN pons_changed ON pons_check.rows > 0" : "");
}

std::optional<std::int64_t> rows_of_guard(std::string_view message) {
  const std::size_t mark = message.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  std::string_view digits = message.substr(mark + kMark.size());
  const auto end = std::ranges::find_if_not(digits, is_digit);
  const auto rows = parse_decimal(digits.substr(0, static_cast<std::size_t>(end - digits.begin())));
  if (!rows || *rows > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(*rows);
}

}  // namespace pons::store::postgres
