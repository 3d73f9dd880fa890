#pragma once

#include <cstdint>

#include "pons/budget/book.h"
#include "pons/models/answer.h"

namespace pons::gateway {

// Of the clock on the wall, which is what limits go by.
std::int64_t wall_ms();

// What a client hears when a book does not begin its call.
models::Failure failure_of_refusal(const Error& error, const budget::Refused& refused,
                                   std::int64_t now_ms);

}  // namespace pons::gateway
