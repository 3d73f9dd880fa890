#include "door_certificate.h"

#include <gtest/gtest.h>

namespace pons::front {
namespace {

TEST(DoorCertificate, WhatIsNoPairIsRefusedWithoutShowingIt) {
  for (
      const char* document :
      {"", "{", "[]", "{}", R"({"certificate":"hidden"})", R"({"certificate":1,"key":2})",
       R"({"certificate":"hidden","key":"hidden"})", R"({"certificate":"","key":""})",
       R"({"certificate":"-----BEGIN CERTIFICATE-----\nhidden\n-----END CERTIFICATE-----\n","key":"hidden"})"}) {
    const auto context = read_door_certificate(document, OutOfDate::kWarned);
    ASSERT_FALSE(context.has_value()) << document;
    EXPECT_FALSE(context.error().describe().contains("hidden")) << context.error().describe();
  }
}

}  // namespace
}  // namespace pons::front
