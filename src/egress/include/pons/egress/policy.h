#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/egress/destination.h"
#include "pons/egress/package_hosts.h"

namespace pons::egress {

enum class Mode : std::uint8_t { kNone, kList, kPublic };

enum class Reason : std::uint8_t {
  kAllowed,
  kNetworkOff,
  kHostDenied,
  kHostNotAllowed,
  kPortNotAllowed,
  kMethodNotAllowed,
  kPathNotAllowed,
  kPathAmbiguous,
  kAddressNotAllowed,
  kTooManyNames,
};

std::string_view to_string(Reason reason);  // "host_not_allowed": stable, for machines

// How exactly a rule says which host it is about. A name that no rule names may have been made up
// by whoever asks, to carry data in it.
enum class Breadth : std::uint8_t { kNamed, kOneLabel, kAnything };

struct Decision {
  Reason reason = Reason::kHostNotAllowed;
  std::string rule;  // what decided: "allow/2", "service github", "package apt", "deny/0"…
  Breadth breadth = Breadth::kNamed;

  bool allowed() const { return reason == Reason::kAllowed; }
};

struct PolicyLimits {
  std::uint64_t connections = 256;  // open at once
  std::uint64_t requests = 0;       // in a sandbox's life; 0: not limited
  std::uint64_t bytes_out = 0;      // in a sandbox's life; 0: not limited
};

struct PolicyRule;  // policy_rule.h: private
struct FieldRule;
struct HostPattern;

// What one sandbox may reach, compiled from a document. Immutable: a change is a new policy with a
// higher generation, by which those who act on an older one know to ask again.
//
// Several rules for one host add up. In mode `public` a host that no rule names is reached at any
// public address, on ports 443 and 80 or those of rules with the host "*"; a host that a rule names
// is under its rules as in mode `list`. What `deny` names is never allowed, unless the document
// says that `allow` is preferred and names it.
class Policy {
 public:
  // The error names the place in the document as a JSON pointer and says how to write it instead.
  static Result<std::shared_ptr<const Policy>> compile(std::string_view document,
                                                       std::uint64_t generation,
                                                       const PackageHosts& packages);
  static std::shared_ptr<const Policy> closed(std::uint64_t generation);  // mode `none`
  ~Policy();

  std::uint64_t generation() const { return generation_; }
  Mode mode() const { return mode_; }
  const PolicyLimits& limits() const { return limits_; }
  const std::vector<std::string>& credentials() const { return credentials_; }
  // Of its project: what is in them is granted, too.
  const std::vector<std::string>& vaults() const { return vaults_; }
  // Whose secrets its field rules mean, and whose its vaults are; empty: it has none of either.
  const std::string& project() const { return project_; }
  const std::vector<FieldRule>& field_rules() const { return fields_; }
  // Those of the pattern that names the destination most closely, and of no other: its own name, or
  // the longest wildcard. In order: the last one for a field counts.
  std::vector<const FieldRule*> fields_for(const Destination& destination) const;

  // True when a field rule puts that secret into requests.
  bool uses_secret(std::string_view project, std::string_view name) const;

  // For DNS.
  Decision judge_name(const names::HostName& name) const;
  // Before anything is resolved or dialled.
  Decision judge_connect(const Destination& destination, std::uint16_t port) const;
  // For each address that the destination resolved to.
  Decision judge_address(const Destination& destination, std::uint16_t port,
                         const names::IpAddress& address) const;
  // `target` may carry a query.
  Decision judge_request(const Destination& destination, std::uint16_t port,
                         std::string_view method, std::string_view target) const;

  // Why no person's word alone opens the way to it; empty: it may. Such a word says a name and a
  // port, and must not undo what rules say more exactly.
  std::string_view find_obstacle(const Destination& destination) const;
  // The same, which allows that name there, too, at public addresses; no methods: every one. Of the
  // same generation: whatever this one allows is allowed still.
  std::shared_ptr<const Policy> widened(const names::HostName& name, std::uint16_t port,
                                        std::vector<std::string> methods, std::string source) const;

  // True when requests to it must be seen: methods, paths, or a rule that says so.
  bool needs_inspection(const Destination& destination, std::uint16_t port) const;
  // True when a stub may stand in the text of a request there, as it is: models are told what
  // happened, and a stub in that story must not end it.
  bool tolerates_stubs(const Destination& destination, std::uint16_t port) const;
  // True when no credential may go there but one that a binding or a field rule puts in place:
  // not one that the sandbox has from elsewhere, even where nothing is bound.
  bool requires_stubs(const Destination& destination, std::uint16_t port) const;
  // True when bytes that are neither TLS nor HTTP may pass; never where requests must be seen.
  bool allows_opaque(const Destination& destination, std::uint16_t port) const;

 private:
  friend class PolicyCompiler;
  Policy();
  Policy(const Policy&);
  std::vector<const PolicyRule*> rules_for(const Destination& destination) const;
  std::vector<const PolicyRule*> rules_for(const Destination& destination,
                                           std::uint16_t port) const;
  const PolicyRule* find_denial(const Destination& destination) const;
  bool is_named(const Destination& destination) const;

  std::uint64_t generation_ = 0;
  Mode mode_ = Mode::kNone;
  PolicyLimits limits_;
  std::vector<std::string> credentials_;
  std::vector<std::string> vaults_;
  std::vector<PolicyRule> allow_;
  std::vector<PolicyRule> deny_;
  bool prefers_allow_ = false;
  std::string project_;
  std::vector<FieldRule> fields_;
  std::vector<HostPattern> field_hosts_;  // of them, and those for which nothing is set
};

// gateway.pons.internal and tools.pons.internal: always there, in every mode.
bool is_built_in(const names::HostName& name);
// tools.pons.internal: what is asked of it is asked of egress itself.
bool is_answered_here(const Destination& destination);

}  // namespace pons::egress
