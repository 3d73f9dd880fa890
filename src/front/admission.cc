#include "admission.h"

#include <fmt/format.h>

#include "pons/http/error_status.h"

namespace pons::front {

namespace {

Error too_often(std::string_view who, std::int64_t per_second) {
  return make_error(ErrorCode::kLimit, "admit",
                    fmt::format("{} more than {} times a second", who, per_second));
}

}  // namespace

Result<Identity> Admission::admit(const http::RequestHead& request, std::string_view scope) {
  Identity identity = TRY(keys_.identify(request));
  if (!identity.may(scope))
    return make_error(ErrorCode::kConflict, "admit",
                      fmt::format("this API key lacks the scope \"{0}\": "
                                  "`pons key create NAME --scope {0}` makes one that has it",
                                  scope));
  const TimePoint now = loop_.now();
  if (keys_rate_.take(identity.key, kRequestsPerSecondOfKey, now) > Duration::zero())
    return too_often("this API key asks", kRequestsPerSecondOfKey);
  const auto& most = identity.requests_per_second;
  if (most &&
      projects_rate_.take(identity.project, static_cast<double>(*most), now) > Duration::zero())
    return too_often("the keys of this project ask", *most);
  return identity;
}

http::Response refusal_of(const Error& error) {
  if (error.code == ErrorCode::kConflict) return http::error_response(403, "denied", error.message);
  if (error.code != ErrorCode::kDenied) return http::error_response(error);
  http::Response response = http::error_response(401, "unauthenticated", error.message);
  response.fields = {{"WWW-Authenticate", "Bearer"}};
  return response;
}

}  // namespace pons::front
