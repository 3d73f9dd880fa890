#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pons::audit {

enum class Verdict : std::uint8_t { kAllow, kSwap, kInert, kScrub, kBlock, kCut, kDrop };
inline constexpr std::size_t kVerdicts = 7;
std::string_view to_string(Verdict verdict);
std::optional<Verdict> parse_verdict(std::string_view text);

// What was decided about one request or connection. There is no place for a query, a field value or
// a body. Texts may come from a sandbox: they are cut to a length and written as printable ASCII,
// other bytes as %XX.
struct Decision {
  Verdict verdict = Verdict::kBlock;
  std::string sandbox;
  std::string session;
  std::string code;  // machine-readable reason, such as "host_not_allowed"
  std::string rule;  // the rule that decided, as the policy names it
  std::string method;
  std::string host;
  std::uint16_t port = 0;
  std::vector<std::string> aliases{};    // the names that the host stood for when it was dialled
  std::string protocol;                  // "h2", "http/1.1", "tls", "tcp", "dns"
  std::string path;                      // what stands behind a '?' or '#' is left out
  std::vector<std::string> credentials;  // names
  std::uint64_t bytes_in = 0;            // from the sandbox
  std::uint64_t bytes_out = 0;           // to the sandbox
  std::string request_id;
};

// A sandbox has asked for access, or a person has dealt with that. Nothing passed; why it was asked
// is not written down here.
struct AccessEvent {
  std::string status;  // "pending", "closed"
  std::string request_id;
  std::string sandbox;
  std::string host;
  std::uint16_t port = 0;
};

}  // namespace pons::audit
