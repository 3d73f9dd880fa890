#include "door_certificate.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"

namespace pons::front {

namespace {

constexpr const char* kStep = "use certificate";

Result<void> check_time(const http::TlsIdentity& identity, OutOfDate out_of_date) {
  const auto [begins, ends] = TRY(identity.validity());
  const std::int64_t now = std::time(nullptr);
  constexpr std::int64_t kSoonSeconds = 14 * 24 * 3600;
  const char* problem = ends <= now    ? "the certificate has expired"
                        : begins > now ? "the certificate is not valid yet"
                                       : nullptr;
  if (problem != nullptr && out_of_date == OutOfDate::kRefused)
    return make_error(ErrorCode::kInvalid, kStep, problem);
  if (problem != nullptr) {
    LOG_ERROR(problem);
  } else if (ends - now < kSoonSeconds) {
    LOG_WARN("the certificate ends soon", {"days", (ends - now) / (24 * 3600)});
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<http::TlsContext>> read_door_certificate(std::string_view document,
                                                                OutOfDate out_of_date) {
  const auto json = parse_json(document, {.depth = 2, .bytes = kDoorCertificateBytesMax});
  const auto text = [&](const char* name) -> const std::string* {
    if (!json || !json->is_object() || !json->contains(name)) return nullptr;
    return (*json)[name].get_ptr<const std::string*>();
  };
  const std::string* certificate = text("certificate");
  const std::string* key = text("key");
  if (certificate == nullptr || key == nullptr)
    return make_error(ErrorCode::kInvalid, kStep, "certificate or key is missing");
  const auto identity = TRY(http::TlsIdentity::from_pem(*certificate, *key));
  TRY_VOID(check_time(*identity, out_of_date));
  return http::TlsContext::create_server(*identity);
}

}  // namespace pons::front
