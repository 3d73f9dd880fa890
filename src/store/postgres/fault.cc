#include "fault.h"

#include <array>

#include <fmt/format.h>

#include "sql_shape.h"

namespace pons::store::postgres {

namespace {

struct Meaning {
  std::string_view state;  // the whole, or the first characters: the most exact stands first
  ErrorCode code;
  std::string_view advice;  // empty: the server's own words
};

// Appendix A of PostgreSQL's manual.
constexpr std::array kMeanings = {
    Meaning{"23", ErrorCode::kConflict, ""},
    Meaning{"57014", ErrorCode::kTimeout, "it took too long"},
    Meaning{"25006", ErrorCode::kUnavailable, "the database only reads now; it may be a standby"},
    Meaning{"53100", ErrorCode::kUnavailable, "the database's disk is full"},
    Meaning{"53300", ErrorCode::kUnavailable, "the database has too many connections"},
    Meaning{"53", ErrorCode::kUnavailable, ""},
    Meaning{"55P03", ErrorCode::kUnavailable, "another transaction holds what is to be changed"},
    Meaning{"57", ErrorCode::kUnavailable, ""},
    Meaning{"40", ErrorCode::kUnavailable, "transactions got into each other's way; try again"},
    Meaning{"42501", ErrorCode::kDenied, ""},
    Meaning{"28", ErrorCode::kDenied, ""},
    Meaning{"42", ErrorCode::kInvalid, ""},
    Meaning{"22", ErrorCode::kInvalid, ""},
    Meaning{"08P01", ErrorCode::kInvalid, ""},
    Meaning{"08", ErrorCode::kUnavailable, ""},
    Meaning{"0A", ErrorCode::kInvalid, ""},
    Meaning{"54", ErrorCode::kLimit, ""},
};

}  // namespace

Error error_of(const Fault& fault) {
  Error error = make_error(ErrorCode::kIo, "ask PostgreSQL", {});
  std::string_view advice;
  if (fault.state == "22P02" && rows_of_guard(fault.message)) {
    error.code = ErrorCode::kConflict;
  } else {
    for (const Meaning& meaning : kMeanings) {
      if (!std::string_view(fault.state).starts_with(meaning.state)) continue;
      error.code = meaning.code;
      advice = meaning.advice;
      break;
    }
  }
  error.message = advice.empty()
                      ? fmt::format("{} (SQLSTATE {})", fault.message, fault.state)
                      : fmt::format("{}: {} (SQLSTATE {})", advice, fault.message, fault.state);
  return error;
}

bool may_be_asked_again(const Fault& fault) {
  return fault.state == "40001" || fault.state == "40P01" || fault.state == "26000";
}

bool ends_connection(const Fault& fault) {
  return fault.severity == "FATAL" || fault.severity == "PANIC" || fault.state == "25006";
}

}  // namespace pons::store::postgres
