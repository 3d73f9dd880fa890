#pragma once

#include <expected>
#include <string>
#include <vector>

#include "attached_sandbox.h"
#include "pons/http/client.h"
#include "refusal.h"

namespace pons::egress {

// A request that may leave, as it leaves: built anew out of what was understood, with secrets in
// the places that are declared for them.
struct Judged {
  http::ClientRequest request;
  std::vector<std::string> credentials;                        // whose secrets are in it
  std::vector<std::shared_ptr<const vault::Credential>> used;  // the same, as they were then
  bool bound = false;  // the origin gets secrets of this sandbox, and takes no others
  // A host that gets secrets, anyone's and on any port, may show them on all: its answers are
  // scrubbed.
  bool scrubs = false;
  scan::NeedleSets forbidden;      // what its body must not hold
  bool secrets_are_first = false;  // in `forbidden`; stubs otherwise
  AttachedSandbox::StubOwners stub_owners;
  std::string rule;
};

// Everything about a request but its body. Fails closed: what is not understood does not leave.
std::expected<Judged, Refusal> judge_request(const Boundary& boundary, AttachedSandbox& sandbox,
                                             const Origin& origin, const http::RequestHead& head);

// The refusal for something that was found where it must not be.
Refusal found_in(const Judged& judged, const Boundary& boundary, const scan::Finding& finding,
                 const Origin& origin, std::string_view place);

// True when requests to the origin carry secrets of this sandbox.
bool is_bound(const Boundary& boundary, const AttachedSandbox& sandbox, const Origin& origin);
// True when the same host gets secrets of this sandbox, on whatever port.
bool is_bound_elsewhere(const Boundary& boundary, const AttachedSandbox& sandbox,
                        const Origin& origin);

// Fields that concern one connection only, or that say where a request came from.
bool is_hop_field(std::string_view name);

}  // namespace pons::egress
