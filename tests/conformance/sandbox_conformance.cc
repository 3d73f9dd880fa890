#include <cstdlib>

#include "pons/http/client.h"
#include "pons/sandbox/conformance.h"
#include "pons/sandbox/remote.h"

namespace pons::sandbox {
namespace {

std::shared_ptr<Provider> warden(linux::Loop& loop) {
  const char* path = std::getenv("PONS_WARDEN_SOCKET");
  CHECK(path != nullptr);
  return std::make_shared<RemoteProvider>(loop, http::unix_connector(loop, path));
}

INSTANTIATE_TEST_SUITE_P(Warden, ProviderPromises, testing::Values(ProviderFactory{.make = warden}),
                         [](const auto&) { return "Namespaces"; });

}  // namespace
}  // namespace pons::sandbox
