#include "pons/session/media.h"

#include <gtest/gtest.h>

#include "pons/base/text.h"

namespace pons::session {
namespace {

TEST(Media, WhatItSaysItIsIsTaken) {
  const auto takes = [](const char* kind, const char* type, std::string bytes) {
    return check_media(kind, type, base64_encode(bytes)).has_value();
  };
  EXPECT_TRUE(takes("image", "image/png", "\x89PNG\r\n"));
  EXPECT_TRUE(takes("image", "image/jpeg", "\xFF\xD8\xFF\xE0"));
  EXPECT_TRUE(takes("image", "image/gif", "GIF89a"));
  EXPECT_TRUE(takes("image", "image/webp", "RIFF1234WEBPVP8 "));
  EXPECT_TRUE(takes("document", "application/pdf", "%PDF-1.7"));
  EXPECT_TRUE(check_media("document", "text/plain", "any text"));
}

TEST(Media, WhatAProviderWouldRefuseForEverIsRefused) {
  const std::string png = base64_encode("\x89PNG\r\n");
  EXPECT_FALSE(check_media("image", "image/png", "iVBORw=")) << "no base64";
  EXPECT_FALSE(check_media("image", "image/png", "not base64 at all!"));
  EXPECT_FALSE(check_media("image", "image/png", ""));
  EXPECT_FALSE(check_media("image", "image/jpeg", png)) << "it is another";
  EXPECT_FALSE(check_media("image", "image/webp", base64_encode("RIFF")));
  for (const char* type : {"image/tiff", "image/svg+xml", "png", "", "application/pdf"})
    EXPECT_FALSE(check_media("image", type, png)) << type;
  EXPECT_FALSE(check_media("document", "image/png", png));
}

}  // namespace
}  // namespace pons::session
