#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "access_wish.h"
#include "attached_sandbox.h"
#include "pons/egress/package_hosts.h"
#include "pons/http/router.h"
#include "pons/roles/keeper.h"

namespace pons::egress {

// Which policy a sandbox is under: that of an environment, or a document of its own.
struct PolicyChoice {
  std::string environment;
  std::string document;
};

// What a person has allowed one sandbox, beside what its policy does.
struct AccessGrant {
  std::string request;  // the id of the wish
  AccessWish wish;
};
inline constexpr std::size_t kGrantsMax = 64;  // of one sandbox

// All sandboxes whose sockets egress holds. The supervisor has copies of the sockets, so that
// nobody inside can take their place while egress is being restarted.
class Attachments {
 public:
  // `environments`: policy documents by name.
  Attachments(Boundary& boundary, roles::Keeper& keeper, PackageHosts packages,
              std::map<std::string, std::string> environments);
  ~Attachments();

  // Takes over what a former process of egress was given.
  Result<void> adopt();

  struct Request {
    std::uint64_t key = 0;
    std::string id;
    PolicyChoice policy;
  };
  // The variables that the sandbox is to have.
  Result<std::map<std::string, std::string>> attach(Request request, linux::UniqueFd listener,
                                                    linux::UniqueFd names);
  void detach(std::uint64_t key);
  void keep_only(const std::set<std::uint64_t>& keys);

  // What a person has allowed, to this sandbox alone, until it ends or its policy is replaced.
  // Twice is once. kNotFound: it is gone; kDenied: nobody's word opens that; kLimit.
  Result<void> grant(std::uint64_t key, AccessGrant grant);

  // From now on, without what people have allowed. Connections that were judged by the old rules
  // end.
  Result<void> set_policy(std::string_view id, PolicyChoice choice);
  Result<void> set_environments(std::map<std::string, std::string> environments);
  // The policy that the sandbox is under, as it was written.
  Result<std::string> document_of(std::string_view id) const;

  // One without sockets, in whose place a role asks: what is under way for it ends when its rules
  // or what it was granted change, as for any other. Forgotten when nobody holds it any more.
  void watch(const std::shared_ptr<AttachedSandbox>& visitor, std::string environment);

  std::shared_ptr<AttachedSandbox> find(std::string_view id) const;
  // Of an environment, as it is now, or of a document: one of the two.
  Result<std::shared_ptr<const Policy>> find_policy(const PolicyChoice& choice);
  // Those of the project, ready to be used. kDenied when one is not there, or archived.
  Result<OwnVaults> find_vaults(const std::string& project, const std::vector<std::string>& ids);
  const std::map<std::uint64_t, std::shared_ptr<AttachedSandbox>>& all() const { return all_; }

 private:
  Result<std::shared_ptr<const Policy>> compile(const PolicyChoice& choice);
  // With what people have allowed it, as far as that policy lets them.
  std::shared_ptr<const Policy> widen(std::shared_ptr<const Policy> policy, std::uint64_t key);
  OwnVaults vaults_that_are_left(const Policy& policy);
  void serve(const std::shared_ptr<AttachedSandbox>& sandbox);
  Task<> accept_flows(AttachedSandbox& sandbox);
  Task<> run_flow(AttachedSandbox& sandbox, linux::UniqueFd socket);
  void adopt_policy(AttachedSandbox& sandbox, std::shared_ptr<const Policy> policy);
  void withdraw_requests();
  Result<void> adopt_environments(int file);
  bool renew_grants(AttachedSandbox& sandbox, const std::set<BoundHosts::Pattern>& bound_before);
  template <class Use>
  void for_each_visitor(const Use& use);
  void on_vault_change();
  void on_secret_change(const std::string& project, const std::string& name);
  void on_sent_to_new_host(const std::string& project, const HostPattern& host);
  void assume_sent(const AttachedSandbox& sandbox);
  Result<void> check_secrets(const Policy& policy) const;
  bool may_reach_newly_bound(const AttachedSandbox& sandbox,
                             const std::set<BoundHosts::Pattern>& before) const;
  void keep(const AttachedSandbox& sandbox, const PolicyChoice& choice);

  Boundary& boundary_;
  roles::Keeper& keeper_;
  PackageHosts packages_;
  std::map<std::string, std::string> environments_;
  VaultsInUse vaults_in_use_;
  std::uint64_t generation_ = 0;
  std::set<BoundHosts::Pattern> bound_patterns_;  // as of the vault's last change
  std::map<std::uint64_t, std::shared_ptr<AttachedSandbox>> all_;
  struct Visitor {
    std::weak_ptr<AttachedSandbox> sandbox;
    std::string environment;  // whose rules it has; empty: a document of its own
  };
  std::vector<Visitor> visitors_;
  std::map<std::uint64_t, PolicyChoice> choices_;
  std::map<std::uint64_t, std::vector<AccessGrant>> granted_;
  linux::Event room_;
  std::map<std::uint64_t, std::unique_ptr<linux::TaskGroup>> services_;
};

}  // namespace pons::egress
