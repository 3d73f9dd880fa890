#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::store {

// A table as both kinds of store have it.
struct TableShape {
  std::string name;
  std::vector<std::string> columns;  // what one of them adds for its searches is left out
  std::vector<std::string> keys;     // of its primary key, in their order
  std::vector<std::string> needs;    // tables that its rows refer to

  // Some rows behind that key, or from the first one on; in the order of keys.
  Statement read_some(const Row& after, std::int64_t limit) const;
  Row key_of(const Row& row) const;
  Statement insert(const std::vector<Row>& rows) const;
  // How many of its rows one statement takes.
  std::size_t rows_per_insert() const;
};

// All tables of a PostgreSQL store but those about itself, each behind those that it needs.
Task<Result<std::vector<TableShape>>> list_tables(Store& postgres);

// Of rows in any order.
class RowsDigest {
 public:
  void add(const Row& row);
  std::int64_t rows() const { return rows_; }
  std::string text() const;

 private:
  std::uint64_t sums_[4] = {};
  std::int64_t rows_ = 0;
};

}  // namespace pons::store
