#include "values.h"

#include <fmt/format.h>

namespace pons::store::postgres {

namespace {

// From the server's catalogue (pg_type.dat): they never change.
enum KnownType : TypeId {
  kBool = 16,
  kBytea = 17,
  kName = 19,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kText = 25,
  kUnknown = 705,
  kVarchar = 1043,
  kVoid = 2278,
};

Error broken() {
  return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                    "the server does not keep to its protocol: value");
}

Result<Value> read_integer(std::string_view bytes, std::size_t size) {
  if (bytes.size() != size) return broken();
  // The sign is that of the first byte.
  std::uint64_t value = static_cast<signed char>(bytes[0]) < 0 ? ~std::uint64_t{0} : 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return Value(static_cast<std::int64_t>(value));
}

}  // namespace

TypeId type_of(const Value& value) {
  if (std::holds_alternative<std::int64_t>(value)) return kInt8;
  if (std::holds_alternative<std::string>(value)) return kText;
  if (std::holds_alternative<Blob>(value)) return kBytea;
  return 0;
}

Result<Value> read_value(TypeId type, const std::optional<std::string_view>& bytes) {
  if (!bytes) return Value(Null());
  switch (type) {
    case kBool:
      return read_integer(*bytes, 1);
    case kInt2:
      return read_integer(*bytes, 2);
    case kInt4:
      return read_integer(*bytes, 4);
    case kInt8:
      return read_integer(*bytes, 8);
    case kText:
    case kVarchar:
    case kName:
    case kUnknown:
      return Value(std::string(*bytes));
    case kBytea:
      return Value(Blob{std::string(*bytes)});
    case kVoid:
      return Value(Null());
    default:
      return make_error(
          ErrorCode::kUnsupported, "ask store",
          fmt::format("a column has type {}, which is no TEXT, BIGINT or BYTEA; cast it", type));
  }
}

Result<Row> read_row(const std::vector<TypeId>& types, std::string_view body) {
  const Columns columns = TRY(read_data_row(body));
  if (columns.size() != types.size()) return broken();
  Row row;
  row.reserve(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i)
    row.push_back(TRY(read_value(types[i], columns[i])));
  return row;
}

}  // namespace pons::store::postgres
