#include "sql_shape.h"

#include <gmock/gmock.h>

namespace pons::store::postgres {
namespace {

using ::testing::HasSubstr;

Result<SqlShape> shape_of(std::string sql, std::size_t values = 0) {
  return read_shape({.sql = std::move(sql), .values = std::vector<Value>(values)});
}

TEST(SqlShape, ParametersAreCountedOutsideOfQuotesAndRemarks) {
  EXPECT_EQ(shape_of("SELECT $2, $1, '$9', \"$8\" -- $7\n", 2)->parameters, 2U);
  EXPECT_TRUE(shape_of("SELECT 'it''s $3', $1", 1));
  EXPECT_FALSE(shape_of("SELECT $1", 2));
  EXPECT_FALSE(shape_of("SELECT $2", 1));
  for (const char* bad :
       {"SELECT $0", "SELECT $x", "SELECT $", "SELECT $99999999999", "SELECT $$a$$"})
    EXPECT_FALSE(shape_of(bad)) << bad;
}

TEST(SqlShape, OnlyReadingAndChangingRowsIsAllowed) {
  for (const char* good : {"SELECT 1", " insert into t values (1)", "Update t SET a = 1",
                           "DELETE FROM t", "-- why\nSELECT 1", "WITH n AS (SELECT 1) SELECT 1"})
    EXPECT_TRUE(shape_of(good)) << good;
  for (const char* bad : {"", " ", "--", "COMMIT", "DROP TABLE t", "SELECT 1; SELECT 2",
                          "/* */ SELECT 1", "SELECT 'open", "(SELECT 1)", "SELECTED", "SET a = 1"})
    EXPECT_EQ(shape_of(bad).error().code, ErrorCode::kInvalid) << bad;
}

TEST(SqlShape, ReturningIsSeenWhereRowsChange) {
  EXPECT_TRUE(shape_of("UPDATE t SET a = 1 returning b")->returns);
  EXPECT_FALSE(shape_of("UPDATE t SET a = 'RETURNING'")->returns);
  EXPECT_TRUE(shape_of("UPDATE t SET a = 1")->changes);
  EXPECT_FALSE(shape_of("SELECT returning")->changes);
}

TEST(SqlShape, AGuardSaysHowManyRowsItMet) {
  EXPECT_EQ(rows_of_guard("invalid input syntax for type bigint: \"rows changed: 12\""), 12);
  EXPECT_EQ(rows_of_guard("invalid input syntax for type bigint: \"x\""), std::nullopt);
  EXPECT_EQ(rows_of_guard("rows changed: "), std::nullopt);
  EXPECT_EQ(rows_of_guard("rows changed: 99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace pons::store::postgres
