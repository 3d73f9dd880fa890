#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "attached_sandbox.h"
#include "body_swap.h"
#include "pons/http/client.h"
#include "refusal.h"

namespace pons::egress {

// A request that may leave, as it leaves: built anew out of what was understood, with secrets in
// the places that are declared for them.
struct Judged {
  http::ClientRequest request;
  std::vector<std::string> credentials;                        // whose secrets are in it
  std::vector<std::shared_ptr<const vault::Credential>> used;  // the same, as they were then
  bool bound = false;  // the origin gets secrets of this sandbox
  // A host that gets secrets, anyone's and on any port, or got one a while ago, may show them on
  // all: its answers are scrubbed.
  bool scrubs = false;
  // Where it goes: answers are scrubbed of what projects' secrets that host was sent. Nothing when
  // it is an address, which is sent none.
  std::optional<names::HostName> host;
  std::vector<vault::ProjectSecrets::Found> own_used;  // those that are in it
  std::vector<BodyBinding> body_bindings;              // what may become a secret in its body
  // Of fields and members by which its body could carry a credential that is not ours.
  std::vector<std::string> credential_names;
  scan::NeedleSets forbidden;   // what its body must not hold
  std::size_t secret_sets = 0;  // of `forbidden`; behind them are stubs
  scan::NeedleSets tolerated;   // stubs that may pass as they are
  std::string inert;            // the credential of one that does
  AttachedSandbox::StubOwners stub_owners;
  std::string rule;
};

// Everything about a request but its body. Fails closed: what is not understood does not leave.
std::expected<Judged, Refusal> judge_request(const Boundary& boundary, AttachedSandbox& sandbox,
                                             const Origin& origin, const http::RequestHead& head);

// The refusal for something that was found where it must not be.
Refusal found_in(const Judged& judged, const Boundary& boundary, const AttachedSandbox& sandbox,
                 const scan::Finding& finding, const Origin& origin, std::string_view place);

// Counts the credential among those whose secrets are in the request.
void note_use(Judged& judged, const std::shared_ptr<const vault::Credential>& credential);

// A credential that is not ours, for a host that takes no other.
Refusal foreign_credential();

// Fields behind the body, as they may leave. They are looked through like those of the head, and
// nothing in them is ever swapped.
std::expected<http::OwnedFields, Refusal> judge_trailers(const Boundary& boundary,
                                                         const AttachedSandbox& sandbox,
                                                         Judged& judged, const Origin& origin,
                                                         const http::OwnedFields& trailers);

// Fields that concern one connection only, or that say where a request came from.
bool is_hop_field(std::string_view name);
// Those that would let a request be read as another one than was judged.
bool is_override_field(std::string_view name);

}  // namespace pons::egress
