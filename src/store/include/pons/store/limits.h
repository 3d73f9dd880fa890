#pragma once

#include <chrono>
#include <cstddef>

#include "pons/base/clock.h"

namespace pons::store {

struct StoreLimits {
  std::size_t queued = 10'000;  // writes that wait; and as many reads
  std::size_t queued_bytes = 64ULL << 20;
  std::size_t statements = 1'000;  // of one transaction
  std::size_t sql_bytes = 16ULL << 10;
  std::size_t value_bytes = 1ULL << 20;
  std::size_t transaction_bytes = 16ULL << 20;
  std::size_t rows = 20'000;  // of one statement's answer
  std::size_t row_bytes = 64ULL << 20;
  Duration answer_time = std::chrono::seconds(30);  // from asking to the answer
  Duration read_time = std::chrono::seconds(10);    // of one read, once it has begun
  Duration copy_time = std::chrono::minutes(10);
};

}  // namespace pons::store
