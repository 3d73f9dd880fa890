#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::schedule {

// How far somebody has read a list: the last one they have seen. It belongs to one question, and is
// refused with another.
struct Cursor {
  std::int64_t created_ms = 0;
  std::string id;
};

std::string write_cursor(const Cursor& cursor, std::string_view question);
Result<Cursor> read_cursor(std::string_view text, std::string_view question);

}  // namespace pons::schedule
