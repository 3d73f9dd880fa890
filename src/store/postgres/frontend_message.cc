#include "frontend_message.h"

#include "pons/base/check.h"
#include "values.h"

namespace pons::store::postgres {

namespace {

constexpr std::uint32_t kProtocol = 3U << 16;
constexpr std::uint32_t kNull = 0xFFFFFFFF;
constexpr std::uint16_t kBinary = 1;
constexpr std::size_t kParametersMax = 0xFFFF;

void put16(std::size_t value, std::string& out) {
  out += static_cast<char>(value >> 8 & 0xFF);
  out += static_cast<char>(value & 0xFF);
}

void put32(std::uint32_t value, std::string& out) {
  put16(value >> 16, out);
  put16(value & 0xFFFF, out);
}

void put_text(std::string_view text, std::string& out) {
  out += text;
  out += '\0';
}

// Writes the length of what was appended since, itself included.
class Length {
 public:
  explicit Length(std::string& out) : out_(out), at_(out.size()) { put32(0, out); }
  Length(const Length&) = delete;
  Length& operator=(const Length&) = delete;
  ~Length() {
    std::string length;
    put32(static_cast<std::uint32_t>(out_.size() - at_), length);
    out_.replace(at_, length.size(), length);
  }

 private:
  std::string& out_;
  std::size_t at_;
};

void put_value(const Value& value, std::string& out) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    put32(sizeof *number, out);
    const auto bits = static_cast<std::uint64_t>(*number);
    put32(static_cast<std::uint32_t>(bits >> 32), out);
    put32(static_cast<std::uint32_t>(bits), out);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    put32(static_cast<std::uint32_t>(text->size()), out);
    out += *text;
  } else if (const auto* blob = std::get_if<Blob>(&value)) {
    put32(static_cast<std::uint32_t>(blob->bytes.size()), out);
    out += blob->bytes;
  } else {
    put32(kNull, out);
  }
}

void put_simple(char type, std::string& out) {
  out += type;
  const Length length(out);
}

}  // namespace

void write_startup(std::span<const std::pair<std::string, std::string>> parameters,
                   std::string& out) {
  const Length length(out);
  put32(kProtocol, out);
  for (const auto& [name, value] : parameters) {
    put_text(name, out);
    put_text(value, out);
  }
  out += '\0';
}

void write_query(std::string_view sql, std::string& out) {
  out += 'Q';
  const Length length(out);
  put_text(sql, out);
}

void write_parse(std::string_view name, std::string_view sql, std::span<const Value> values,
                 std::string& out) {
  CHECK(values.size() <= kParametersMax);
  out += 'P';
  {
    const Length length(out);
    put_text(name, out);
    put_text(sql, out);
    put16(values.size(), out);
    for (const Value& value : values) put32(type_of(value), out);
  }
  out += 'D';
  const Length length(out);
  out += 'S';
  put_text(name, out);
}

void write_execute(std::string_view name, std::span<const Value> values, std::uint32_t rows_max,
                   std::string& out) {
  CHECK(values.size() <= kParametersMax);
  out += 'B';
  {
    const Length length(out);
    put_text("", out);
    put_text(name, out);
    put16(1, out);  // one format, for all
    put16(kBinary, out);
    put16(values.size(), out);
    for (const Value& value : values) put_value(value, out);
    put16(1, out);
    put16(kBinary, out);
  }
  out += 'E';
  const Length length(out);
  put_text("", out);
  put32(rows_max, out);
}

void write_close(std::string_view name, std::string& out) {
  out += 'C';
  const Length length(out);
  out += 'S';
  put_text(name, out);
}

void write_sync(std::string& out) {
  put_simple('S', out);
}

void write_terminate(std::string& out) {
  put_simple('X', out);
}

}  // namespace pons::store::postgres
