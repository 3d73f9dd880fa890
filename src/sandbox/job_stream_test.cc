#include "job_stream.h"

#include <errno.h>
#include <gmock/gmock.h>

namespace pons::sandbox {
namespace {

using cell::Status;
using cell::Step;
using ::testing::HasSubstr;

Error failure_at(Step step, int os_error) {
  return cell_error({.status = Status::kFailed, .step = step, .os_error = os_error, .payload = {}},
                    "job");
}

TEST(CellErrorTest, ASandboxFullOfProcessesIsALimitWithAdvice) {
  const Error error = failure_at(Step::kFork, EAGAIN);
  EXPECT_EQ(error.code, ErrorCode::kLimit);
  EXPECT_THAT(error.message, HasSubstr("\"pids\""));
  EXPECT_THAT(error.message, HasSubstr("end some"));
}

TEST(CellErrorTest, ASandboxFullOfJobsIsALimitWithAdvice) {
  const Error error =
      cell_error({.status = Status::kTableFull, .step = {}, .os_error = 0, .payload = {}}, "job");
  EXPECT_EQ(error.code, ErrorCode::kLimit);
  EXPECT_THAT(error.message, HasSubstr("end some"));
}

TEST(CellErrorTest, OtherFailuresNameTheirStep) {
  EXPECT_EQ(failure_at(Step::kFork, ENOMEM).code, ErrorCode::kLimit);
  EXPECT_STREQ(failure_at(Step::kExecute, EACCES).step, "execute");
  EXPECT_EQ(failure_at(Step::kExecute, EACCES).code, ErrorCode::kDenied);
  EXPECT_EQ(failure_at(Step::kExecute, ENOENT).code, ErrorCode::kInvalid)
      << "\"not found\" is kept for sandboxes, jobs and files";
  EXPECT_STREQ(failure_at(static_cast<Step>(999), EIO).step, "start job");
}

}  // namespace
}  // namespace pons::sandbox
