#include "pons/http/error_status.h"

#include <gtest/gtest.h>

namespace pons::http {
namespace {

TEST(ErrorStatusTest, EveryErrorCodeSurvivesHttp) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(code_of(status_of(code), to_string(code)), code);
  }
  EXPECT_EQ(code_of(404, ""), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(413, "too_large"), ErrorCode::kLimit);
  EXPECT_EQ(code_of(418, "teapot"), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(502, "x"), ErrorCode::kUnavailable);
}

TEST(ErrorStatusTest, AnErrorComesBackAsItWasTold) {
  const Response told = error_response(make_error(ErrorCode::kConflict, "put it", "it is there"));
  const Error error = error_of("ask", told.status, told.body);
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  EXPECT_TRUE(error.message.contains("it is there"));
}

TEST(ErrorStatusTest, AnAnswerOfAnyShapeIsAnError) {
  for (const char* body :
       {"", "null", "[]", "{\"error\":1}", "{\"error\":{\"type\":[]}}", "<html>"})
    EXPECT_EQ(error_of("ask", 503, body).code, ErrorCode::kUnavailable) << body;
}

}  // namespace
}  // namespace pons::http
