#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "backend_message.h"
#include "pons/base/result.h"
#include "pons/store/store.h"

namespace pons::store::postgres {

// What a parameter is to the server; 0 for a NULL, whose type follows from its place.
TypeId type_of(const Value& value);

// A column of an answer, in the server's binary format. Truth is 1 or 0, as SQLite has it; a type
// that the store does not have is kUnsupported.
Result<Value> read_value(TypeId type, const std::optional<std::string_view>& bytes);

Result<Row> read_row(const std::vector<TypeId>& types, std::string_view body);

}  // namespace pons::store::postgres
