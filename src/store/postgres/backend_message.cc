#include "backend_message.h"

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::store::postgres {

namespace {

constexpr std::size_t kHeadBytes = 5;    // the letter and the length, which counts itself
constexpr std::size_t kLengthBytes = 4;  // of that
constexpr std::size_t kFaultTextMax = 1'000;

Error broken(std::string_view what) {
  return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                    fmt::format("the server does not keep to its protocol: {}", what));
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Takes from the front; false when there is not as much.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  bool take(std::size_t count, std::string_view& out) {
    if (rest_.size() < count) return false;
    out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  bool take(std::uint32_t& out) {
    std::string_view bytes;
    if (!take(sizeof out, bytes)) return false;
    out = number_at(bytes, 0);
    return true;
  }
  bool take(std::uint16_t& out) {
    std::string_view bytes;
    if (!take(sizeof out, bytes)) return false;
    out = static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[0]) << 8 |
                                     static_cast<unsigned char>(bytes[1]));
    return true;
  }
  // Up to a NUL, which is taken, too.
  bool take_text(std::string_view& out) {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) return false;
    out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// For people and logs: of bounded length, and one line.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, kFaultTextMax));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  while (!is_valid_utf8(out) && !out.empty()) out.pop_back();
  return out;
}

}  // namespace

void BackendReader::feed(std::string_view bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_.append(bytes);
}

Result<std::optional<BackendMessage>> BackendReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  if (rest.size() < kHeadBytes) return std::nullopt;
  const std::size_t length = number_at(rest, 1);
  if (length < kLengthBytes) return broken("a message is shorter than its head");
  if (length > bytes_max_)
    return make_error(ErrorCode::kLimit, "hear PostgreSQL",
                      fmt::format("an answer is too long (at most {})", bytes_max_));
  if (rest.size() < 1 + length) return std::nullopt;
  at_ += 1 + length;
  return BackendMessage{.type = rest[0], .body = rest.substr(kHeadBytes, length - kLengthBytes)};
}

Result<std::vector<TypeId>> read_row_description(std::string_view body) {
  constexpr std::size_t kBetween = 6;  // table and place of the column
  constexpr std::size_t kBehind = 8;   // size, modifier, format
  Cursor cursor(body);
  std::uint16_t count = 0;
  if (!cursor.take(count)) return broken("row description");
  std::vector<TypeId> types;
  for (std::uint16_t i = 0; i < count; ++i) {
    std::string_view ignored;
    TypeId type = 0;
    if (!cursor.take_text(ignored) || !cursor.take(kBetween, ignored) || !cursor.take(type) ||
        !cursor.take(kBehind, ignored))
      return broken("row description");
    types.push_back(type);
  }
  if (!cursor.at_end()) return broken("row description");
  return types;
}

Result<Columns> read_data_row(std::string_view body) {
  constexpr std::uint32_t kNull = 0xFFFFFFFF;
  Cursor cursor(body);
  std::uint16_t count = 0;
  if (!cursor.take(count)) return broken("row");
  Columns columns;
  columns.reserve(count);
  for (std::uint16_t i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (!cursor.take(length)) return broken("row");
    std::string_view bytes;
    if (length == kNull)
      columns.push_back(std::nullopt);
    else if (cursor.take(length, bytes))
      columns.push_back(bytes);
    else
      return broken("row");
  }
  if (!cursor.at_end()) return broken("row");
  return columns;
}

Result<std::int64_t> read_changed(std::string_view body) {
  Cursor cursor(body);
  std::string_view tag;
  if (!cursor.take_text(tag) || !cursor.at_end()) return broken("end of a command");
  const std::size_t verb_end = tag.find(' ');
  const std::string_view verb = tag.substr(0, verb_end);
  if (verb != "INSERT" && verb != "UPDATE" && verb != "DELETE") return 0;
  const auto count = parse_decimal(tag.substr(tag.rfind(' ') + 1));
  if (!count || *count > static_cast<std::uint64_t>(INT64_MAX)) return broken("end of a command");
  return static_cast<std::int64_t>(*count);
}

Result<Fault> read_fault(std::string_view body) {
  Fault fault;
  std::string localized;
  Cursor cursor(body);
  for (;;) {
    std::string_view field;
    std::string_view text;
    if (!cursor.take(1, field)) return broken("error");
    if (field[0] == '\0') break;
    if (!cursor.take_text(text)) return broken("error");
    if (field[0] == 'S') localized = shown(text);
    if (field[0] == 'V') fault.severity = shown(text);
    if (field[0] == 'C') fault.state = shown(text);
    if (field[0] == 'M') fault.message = shown(text);
  }
  if (fault.severity.empty()) fault.severity = std::move(localized);
  if (!cursor.at_end() || fault.state.size() != 5) return broken("error");
  return fault;
}

Result<Notification> read_notification(std::string_view body) {
  Cursor cursor(body);
  std::uint32_t sender = 0;
  std::string_view channel;
  std::string_view payload;
  if (!cursor.take(sender) || !cursor.take_text(channel) || !cursor.take_text(payload) ||
      !cursor.at_end())
    return broken("notification");
  return Notification{.channel = std::string(channel), .payload = std::string(payload)};
}

}  // namespace pons::store::postgres
