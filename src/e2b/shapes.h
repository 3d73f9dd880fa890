#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/e2b/directory.h"
#include "pons/http/exchange.h"
#include "pons/sandbox/provider.h"
#include "time_text.h"

// What the SDKs read: field by field as they expect it.

namespace pons::e2b {

// The SDKs ask for newer calls only of a server that says it is new enough; this one has them all.
inline constexpr std::string_view kEnvdVersion = "0.6.4";
inline constexpr std::string_view kClientId = "pons";

// {"code":404,"message":…}: they look at the code in the body, not at the status.
http::Response refusal(int status, std::string_view message);
http::Response refusal(const Error& error);
http::Response json_response(int status, const Json& body);
http::Response empty_response();  // 204

// What a sandbox keeps of the request that made it, beside Access.
struct Particulars {
  std::string template_id;  // as the caller named it
  std::string metadata = "{}";
  std::string network = "{}";        // what was said about the way in
  bool is_cold_after_pause = false;  // what its time pauses begins without processes
};
void put_labels(const Particulars& particulars, std::map<std::string, std::string>& labels);
Particulars read_particulars(const sandbox::SandboxInfo& info);

Json sandbox_json(const sandbox::SandboxInfo& info, std::string_view domain);
// `outward`: the words about the way out that hold now.
Json detail_json(const sandbox::SandboxInfo& info, std::string_view domain, const Json& outward);
Json listed_json(const sandbox::SandboxInfo& info);

}  // namespace pons::e2b
