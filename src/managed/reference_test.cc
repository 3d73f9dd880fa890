#include "pons/managed/reference.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

namespace pons::managed {
namespace {

using testing::HasSubstr;

TEST(Reference, IsWhatTheUsersPageSays) {
  std::ostringstream page;
  page << std::ifstream(PONS_SOURCE_DIR "/docs/use/api.md").rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(write_reference()))
      << "docs/use/api.md: put this below \"## Routes\":\n"
      << write_reference();
}

}  // namespace
}  // namespace pons::managed
