#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_message.h"
#include "pons/store/store.h"

// What is said to a PostgreSQL server. Each function appends one message. Texts hold no NUL, and
// lengths are within the store's limits: whoever calls has checked.

namespace pons::store::postgres {

// Of a connection that nobody has greeted yet; names and values such as "user", "database".
void write_startup(std::span<const std::pair<std::string, std::string>> parameters,
                   std::string& out);

// One text of several statements, without parameters.
void write_query(std::string_view sql, std::string& out);

// Prepares a statement under a name, and asks for the types of its columns.
void write_parse(std::string_view name, std::string_view sql, std::span<const Value> values,
                 std::string& out);
// Runs it, with an answer in binary and of at most so many rows.
void write_execute(std::string_view name, std::span<const Value> values, std::uint32_t rows_max,
                   std::string& out);
// Forgets it.
void write_close(std::string_view name, std::string& out);
// Ends a transaction, whose statements were all that was said since the last one.
void write_sync(std::string& out);
// Says good-bye.
void write_terminate(std::string& out);

}  // namespace pons::store::postgres
