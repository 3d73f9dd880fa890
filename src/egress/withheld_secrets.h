#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pons/base/secret.h"
#include "pons/scan/needle_set.h"
#include "pons/vault/project_secrets.h"

namespace pons::egress {

struct Boundary;
class AttachedSandbox;

// Secrets that sandboxes are never told, because egress writes them into requests by itself: those
// of their project, and credentials that stand in the field rules of their policy. One that turns
// up in a sandbox came there by mistake, or out of an answer.
struct WithheldSecret {
  std::string name;  // for people: "e2b.secrets.NAME", "fields/authorization"
  std::shared_ptr<const Secret> value;
};

// Ready to be looked for; whose it is by the id of a Finding.
struct WithheldSet {
  std::shared_ptr<const scan::NeedleSet> set;  // null: there are none
  std::shared_ptr<const std::vector<WithheldSecret>> secrets;
};

// Only what is no word of innocent text: nobody has said what may be kept as a project's secret.
// What is more than can be looked for is left out, the longest first.
Result<WithheldSet> make_withheld_set(std::vector<WithheldSecret> secrets);

// Those of projects, made again when one changes.
class WithheldSecrets {
 public:
  Result<WithheldSet> of(const vault::ProjectSecrets& secrets, const std::string& project);

 private:
  struct Project {
    std::vector<vault::ProjectSecrets::Found> made_of;
    WithheldSet made;
  };
  std::uint64_t generation_ = 0;  // of the secrets
  std::map<std::string, Project> projects_;
};

// Of the sandbox's project and of its policy; none of them is empty. An error means that nothing
// may pass.
Result<std::vector<WithheldSet>> withheld_from(const Boundary& boundary,
                                               const AttachedSandbox& sandbox);

}  // namespace pons::egress
